package soaktest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan describes one request and its response.
type Plan struct {
	Seq    uint64
	Kind   requestKind
	Model  string // for completions only
	Stream bool
	Behaviour
	Fault Fault

	parts      int           // number of parts of the response
	size       int           // size of a part in bytes
	gap        time.Duration // pause between parts
	prompt     int64         // prompt tokens reported by the provider
	completion int64         // completion tokens reported by the provider
	text       uint64        // seed of the response's text
}

// requestKind is the kind of a client's request.
type requestKind uint8

const (
	completion requestKind = iota
	models                 // list of models
	noKey
	wrongKey
	unknownModel
	invalidJSON
	notHTTP
)

// Behaviour is how a client behaves.
type Behaviour uint8

// The behaviours of clients.
const (
	Polite        Behaviour = iota // reuses the connection
	Closing                        // sends Connection: close
	HalfClosed                     // closes the sending side after the request
	Slow                           // reads slowly
	Stalled                        // stops reading a response that is larger than all buffers
	LeavesSent                     // closes the connection after the request
	LeavesWaiting                  // closes the connection while waiting for the response
	LeavesReading                  // closes the connection after an event
	ResetsReading                  // resets the connection after an event
)

// leaves reports whether the client disconnects before the end of the response.
func (c Behaviour) leaves() bool { return c >= LeavesSent }

// Fault is a fault of the provider's response.
type Fault uint8

// The faults of providers. Clients must not notice faults up to harmless.
const (
	None          Fault = iota
	StaleConn           // a reused connection is reset when the request arrives
	ClosesAfter         // the connection is closed shortly after the response
	TrailingBytes       // bytes after the end of the response
	Pauses              // a pause shorter than all timeouts
	SmallWrites         // the response is written a few bytes at a time
	harmless            = SmallWrites

	Refused      Fault = iota // connection refused
	ResetsAtOnce              // RST before the head
	EndsAtOnce                // FIN before the head
	Status500
	Status503
	Status429
	NotHTTP     // bytes that are not HTTP
	HTMLPage    // an HTML page
	Silent      // no response
	Resets      // RST within the body
	Ends        // FIN within the body
	Hangs       // no more bytes within the body
	InvalidData // an event or a body that cannot be parsed
	Incomplete  // complete HTTP body without the last event
	Traps       // the plugin traps
)

var faultNames = [...]string{
	None: "none", StaleConn: "stale connection", ClosesAfter: "connection closed after the response", TrailingBytes: "bytes after the response", Pauses: "pause",
	SmallWrites: "small writes", Refused: "connection refused", ResetsAtOnce: "RST before the head", EndsAtOnce: "FIN before the head", Status500: "status 500",
	Status503: "status 503", Status429: "status 429", NotHTTP: "not HTTP", HTMLPage: "HTML page", Silent: "no response", Resets: "RST within the body",
	Ends: "FIN within the body", Hangs: "silence within the body", InvalidData: "invalid data", Incomplete: "no last event", Traps: "trap",
}

// String returns the name of the fault.
func (f Fault) String() string { return faultNames[f] }

// beforeResponse reports whether the fault occurs before or instead of the planned response.
func (f Fault) beforeResponse() bool { return f >= Refused && f <= Silent }

// The models of a run. Each has a provider of the same name, except for modelEither.
const (
	modelOpenAI    = "openai"
	modelAnthropic = "anthropic"
	modelGuest     = "guest"   // a plugin from a file
	modelRefused   = "refused" // connections are refused
	modelDemo      = "demo"    // a plugin that responds without an upstream
	modelEither    = "either"  // openai with the fallback anthropic
)

const (
	faultRate = 100 // one of so many requests has a fault that clients notice
	trapRate  = 25  // one of so many requests to the guest traps
)

// A response of bigParts parts of bigSize bytes exceeds all buffers between the provider and the client.
const (
	bigParts = 1024
	bigSize  = 8 << 10
)

// NewPlan returns the plan of a request.
func NewPlan(seed, seq uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, seq))
	p := &Plan{Seq: seq, Stream: r.IntN(10) < 7, text: r.Uint64()}
	p.parts, p.size = 1+r.IntN(40), 1+r.IntN(60)
	switch n := r.IntN(100); {
	case n < 5: // several seconds, so that the configuration is reloaded several times
		p.parts, p.gap = 20+r.IntN(60), time.Duration(50+r.IntN(100))*time.Millisecond
	case n < 35:
		p.gap = time.Duration(1+r.IntN(20)) * time.Millisecond
	}
	p.prompt, p.completion = 1+r.Int64N(5000), int64(p.parts)
	switch n := r.IntN(1000); {
	case n < 20:
		p.Kind = models
	case n < 25:
		p.Kind = noKey
	case n < 30:
		p.Kind = wrongKey
	case n < 35:
		p.Kind = unknownModel
	case n < 40:
		p.Kind = invalidJSON
	case n < 42:
		p.Kind = notHTTP
	}
	if p.Kind != completion {
		if p.Behaviour = Polite; r.IntN(4) == 0 {
			p.Behaviour = Closing
		}
		return p
	}
	switch n := r.IntN(100); {
	case n < 40:
		p.Model = modelOpenAI
	case n < 65:
		p.Model = modelAnthropic
	case n < 85:
		p.Model = modelGuest
	case n < 95:
		p.Model = modelEither
	default:
		p.Model = modelDemo
	}
	p.Behaviour = chooseBehaviour(r.IntN(1000))
	if p.Model == modelDemo {
		// The demo responds before a client could disconnect.
		p.Behaviour = min(p.Behaviour, Closing)
		return p
	}
	switch p.Behaviour {
	case LeavesReading, ResetsReading:
		p.Stream, p.parts = true, p.parts+2
		p.gap = max(p.gap, time.Millisecond)
	case Slow:
		p.Stream, p.size = true, 1+r.IntN(1500)
	case Stalled:
		p.Stream, p.parts, p.size, p.gap = true, bigParts, bigSize, 0
		p.completion = int64(p.parts)
	}
	p.chooseFault(r)
	return p
}

// chooseBehaviour maps n, from 0 to 999, to a behaviour.
func chooseBehaviour(n int) Behaviour {
	switch {
	case n < 550:
		return Polite
	case n < 800:
		return Closing
	case n < 830:
		return HalfClosed
	case n < 880:
		return Slow
	case n < 881:
		return Stalled
	case n < 910:
		return LeavesSent
	case n < 935:
		return LeavesWaiting
	case n < 970:
		return LeavesReading
	}
	return ResetsReading
}

// chooseFault chooses the fault. The provider has none if the client disconnects or stalls, so that the expected result
// is known.
func (p *Plan) chooseFault(r *rand.Rand) {
	switch {
	case p.leaves() || p.Behaviour == Stalled:
	case p.Model == modelGuest && r.IntN(trapRate) == 0:
		p.Fault = Traps
	case r.IntN(faultRate) == 0:
		p.Fault = Refused + Fault(r.IntN(int(Traps-Refused)))
	case r.IntN(faultRate/3) == 0:
		p.Fault = StaleConn + Fault(r.IntN(int(harmless)))
	}
	switch {
	case p.Fault == Refused:
		p.Model = modelRefused
	case p.Model == modelGuest && p.Fault >= Status500 && p.Fault <= Status429:
		// The plugin does not handle error responses.
		p.Fault = ResetsAtOnce
	case p.Model == modelGuest && p.Fault == InvalidData:
		// The plugin accepts any event as text.
		p.Fault = Ends
	case p.Fault == Incomplete && !p.upstreamStreams():
		p.Fault = InvalidData
	}
	if p.Fault > harmless && !p.Fault.beforeResponse() {
		// The fault occurs halfway, after at least one part.
		p.parts += 2
	}
	p.completion = int64(p.parts)
}

// upstreamStreams reports whether the provider responds with a stream. The guest's provider always does.
func (p *Plan) upstreamStreams() bool { return p.Stream || p.Model == modelGuest }

// partsBeforeLeaving returns the number of parts after which a client disconnects.
func (p *Plan) partsBeforeLeaving() int { return 1 + int(p.text%uint64(p.parts)) }

// Part returns part n of the response's text. For the guest it has no newlines, because it is the data of an event.
func (p *Plan) Part(n int) string {
	r := rand.New(rand.NewPCG(p.text, uint64(n)))
	words := "ab \"\\\n/<é☂𝄞\t"
	if p.Model == modelGuest {
		words = "ab \"\\/<é☂𝄞"
	}
	letters := []rune(words)
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%d:", p.Seq, n)
	for b.Len() < p.size {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	b.WriteByte(';')
	return b.String()
}

// Text returns the whole text of the response.
func (p *Plan) Text() string {
	var b strings.Builder
	for n := range p.parts {
		b.WriteString(p.Part(n))
	}
	return b.String()
}

// id returns the request's ID, which is also its prompt.
func (p *Plan) id() string { return fmt.Sprintf("%s%d", idPrefix, p.Seq) }

const idPrefix = "soak-"

// String describes the plan in messages.
func (p *Plan) String() string {
	return fmt.Sprintf("request %d: kind %d, model %s, stream %t, behaviour %d, fault %s, %d parts of %d bytes, one per %s", p.Seq, p.Kind, p.Model, p.Stream, p.Behaviour, p.Fault, p.parts, p.size, p.gap)
}
