package soaktest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan is what happens to one request.
type Plan struct {
	Seq    uint64
	Asks   asks
	Model  string // for a completion
	Stream bool
	Conduct
	Fault Fault

	parts      int           // of the answer
	size       int           // of a part, in bytes
	gap        time.Duration // between two parts
	prompt     int64         // tokens, as the provider counts them
	completion int64
	text       uint64 // seed of the answer's text
}

// asks is what a client asks for.
type asks uint8

const (
	completion asks = iota
	models          // the list of models
	noKey
	wrongKey
	unknownModel
	brokenJSON
	noHTTP
)

// Conduct is how a client behaves.
type Conduct uint8

// The ways in which clients behave.
const (
	Polite        Conduct = iota // it keeps its connection
	Closing                      // Connection: close
	HalfClosed                   // it closes its sending side after the request
	Slow                         // it reads a little at a time
	Stalled                      // it stops reading an answer that is larger than all buffers
	LeavesSent                   // it closes its connection after the request
	LeavesWaiting                // it closes its connection while the provider thinks
	LeavesReading                // it closes its connection after an event
	ResetsReading                // the same, with a reset
)

// leaves tells whether the client goes before the end.
func (c Conduct) leaves() bool { return c >= LeavesSent }

// Fault is what is wrong with the provider's answer.
type Fault uint8

// The faults of providers. Those up to harmless are none that a client may notice.
const (
	None     Fault = iota
	Stale          // a pooled connection dies when the request comes
	Closes         // the connection is closed a moment after the answer
	Trails         // bytes after the answer's end
	Pauses         // silence that is shorter than every deadline
	Crumbs         // the answer comes in pieces of a few bytes
	harmless       = Crumbs

	Refused      Fault = iota // no connection
	ResetsAtOnce              // a reset before the head
	EndsAtOnce                // a FIN before the head
	Status500
	Status503
	Status429
	NoHTTP     // bytes that are not HTTP
	Page       // a page for a browser
	Mute       // silence before the head
	Resets     // a reset within the body
	Ends       // a FIN within the body
	Hangs      // silence within the body
	Garbles    // an event, or a document, that cannot be read
	Incomplete // a clean end without an end of the answer
	Traps      // the plugin traps
	faults
)

var faultNames = [...]string{
	None: "none", Stale: "stale connection", Closes: "connection closed after the answer", Trails: "bytes after the answer", Pauses: "pause",
	Crumbs: "crumbs", Refused: "refused", ResetsAtOnce: "reset before the head", EndsAtOnce: "FIN before the head", Status500: "status 500",
	Status503: "status 503", Status429: "status 429", NoHTTP: "no HTTP", Page: "a page", Mute: "silence before the head", Resets: "reset within the body",
	Ends: "FIN within the body", Hangs: "silence within the body", Garbles: "garbage", Incomplete: "no end", Traps: "trap",
}

// String names the fault.
func (f Fault) String() string { return faultNames[f] }

// early tells of a fault that comes before anything of the answer does.
func (f Fault) early() bool { return f >= Refused && f <= Mute }

// The models of a run, each with the provider of its name but for the one with two.
const (
	modelOpenAI    = "openai"
	modelAnthropic = "anthropic"
	modelGuest     = "guest"   // a plugin from a file
	modelRefused   = "refused" // a provider that nobody listens for
	modelDemo      = "demo"    // a plugin that answers by itself
	modelEither    = "either"  // openai, then anthropic
)

// faultRate is how many requests of a provider share one fault, trapRate how many of the guest one trap.
const (
	faultRate = 100
	trapRate  = 25
)

// bigParts of bigSize are more than all buffers between the provider and a client take.
const (
	bigParts = 1024
	bigSize  = 8 << 10
)

// PlanOf is the plan of a request.
func PlanOf(seed, seq uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, seq))
	p := &Plan{Seq: seq, Stream: r.IntN(10) < 7, text: r.Uint64()}
	p.parts, p.size = 1+r.IntN(40), 1+r.IntN(60)
	switch n := r.IntN(100); {
	case n < 5: // seconds, so that it sees many generations come and go
		p.parts, p.gap = 20+r.IntN(60), time.Duration(50+r.IntN(100))*time.Millisecond
	case n < 35:
		p.gap = time.Duration(1+r.IntN(20)) * time.Millisecond
	}
	p.prompt, p.completion = 1+r.Int64N(5000), int64(p.parts)
	switch n := r.IntN(1000); {
	case n < 20:
		p.Asks = models
	case n < 25:
		p.Asks = noKey
	case n < 30:
		p.Asks = wrongKey
	case n < 35:
		p.Asks = unknownModel
	case n < 40:
		p.Asks = brokenJSON
	case n < 42:
		p.Asks = noHTTP
	}
	if p.Asks != completion {
		if p.Conduct = Polite; r.IntN(4) == 0 {
			p.Conduct = Closing
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
	p.Conduct = conduct(r.IntN(1000))
	if p.Model == modelDemo {
		// It answers before anybody could leave.
		p.Conduct = min(p.Conduct, Closing)
		return p
	}
	switch p.Conduct {
	case LeavesReading, ResetsReading:
		p.Stream, p.parts = true, p.parts+2
		p.gap = max(p.gap, time.Millisecond)
	case Slow:
		p.Stream, p.size = true, 1+r.IntN(1500)
	case Stalled:
		p.Stream, p.parts, p.size, p.gap = true, bigParts, bigSize, 0
		p.completion = int64(p.parts)
	}
	p.fault(r)
	return p
}

func conduct(n int) Conduct {
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

// fault chooses what goes wrong. Whoever leaves has a provider that is well, so that it is known what is to come of it.
func (p *Plan) fault(r *rand.Rand) {
	switch {
	case p.leaves() || p.Conduct == Stalled:
	case p.Model == modelGuest && r.IntN(trapRate) == 0:
		p.Fault = Traps
	case r.IntN(faultRate) == 0:
		p.Fault = Refused + Fault(r.IntN(int(Traps-Refused)))
	case r.IntN(faultRate/3) == 0:
		p.Fault = Stale + Fault(r.IntN(int(harmless)))
	}
	switch {
	case p.Fault == Refused:
		p.Model = modelRefused
	case p.Model == modelGuest && p.Fault >= Status500 && p.Fault <= Status429:
		// What an error answer means, its plugin does not know.
		p.Fault = ResetsAtOnce
	case p.Model == modelGuest && p.Fault == Garbles:
		// To its plugin every event is a word.
		p.Fault = Ends
	case p.Fault == Incomplete && !p.streamed():
		p.Fault = Garbles
	}
	if p.Fault > harmless && !p.Fault.early() {
		// Something must have come before.
		p.parts += 2
	}
	p.completion = int64(p.parts)
}

// streamed tells whether the provider answers with a stream. The guest's always does.
func (p *Plan) streamed() bool { return p.Stream || p.Model == modelGuest }

// leavesAt is how many parts a client has had when it leaves.
func (p *Plan) leavesAt() int { return 1 + int(p.text%uint64(p.parts)) }

// Part is a piece of the answer's text. Those of the guest are one line of an event.
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

// Text is the whole answer.
func (p *Plan) Text() string {
	var b strings.Builder
	for n := range p.parts {
		b.WriteString(p.Part(n))
	}
	return b.String()
}

// id is the request's name in the gateway's log, and stands in its prompt.
func (p *Plan) id() string { return fmt.Sprintf("%s%d", idPrefix, p.Seq) }

const idPrefix = "soak-"

// String says what the plan is, for a message.
func (p *Plan) String() string {
	return fmt.Sprintf("request %d: asks %d, model %s, stream %t, conduct %d, fault %s, %d parts of %d each %s", p.Seq, p.Asks, p.Model, p.Stream, p.Conduct, p.Fault, p.parts, p.size, p.gap)
}
