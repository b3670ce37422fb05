package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// completion is one chat completion in flight: a request, the attempts at its targets, and the answer.
//
// It lives from the handler to the last byte of the answer, on one goroutine. What belongs to the request (request,
// and the body in the RequestCtx) is given back when the answer's head is sent; the rest when finish ends it.
type completion struct {
	// What each event of a stream needs lies together: between two of them it has left the processor's caches.
	server    *Server
	conn      *clientConn
	provider  *provider
	response  *upstream.Response
	writer    *response.Writer // from the server's pool until finish
	*work                      // the same
	pump      pump
	stream    bool
	native    bool // the host reads the answer
	framed    bool // the answer's first bytes have come, and the framer knows how they are framed
	bodyEnd   bool // the answer's body has ended cleanly
	committed bool // the head of a streamed answer has been sent
	departed  bool
	finished  bool
	settled   bool      // the target's statistics know the outcome
	progress  time.Time // when the last whole event of a framed answer was there
	looked    time.Time // when the client's socket was last looked at
	written   time.Time // when the client was last sent something, once committed

	gen    *generation
	record telemetry.Record

	// Of the request; nil once the head of the answer is on its way.
	request *openai.Request
	model   *catalog.Model
	body    []byte // from the server's buffers
	random  uint64
	hops    int // gateways that the request has passed before this one
	http11  bool

	bodyRead bool // the client's body has been read to its end
	vigil    vigil

	// What the exchange is counted for, until leave.
	entered                 bool
	heldRequest, heldAnswer int64 // bytes

	key       *access.Key // nil until the client is known
	admission access.Admission
	admitted  time.Time
	ended     time.Time // when finish began

	// Of the attempt that is under way or has answered.
	target *routing.Target
	ticket breaker.Ticket
	sent   bool // the provider has been sent the request
	began  time.Time
}

// work is what attempts are made with. Its memory outlives an exchange: the server keeps it for another one.
type work struct {
	attempt plugin.Attempt
	framer  framer
	reader  openai.Reader
	batch   response.Batch
	asked   []*routing.Budget // of the providers that have been sent the request
	order   []int             // in which the targets are tried
	out     upstream.Request
	from    *upstream.Response // whose headers the plugin may read

	// Methods of what is above, made once.
	alias  func(name []byte) []byte
	header func(name []byte) []byte
}

func newWork() *work {
	w := new(work)
	w.alias = w.attempt.Alias
	w.header = func(name []byte) []byte { return w.from.Header(string(name)) }
	return w
}

// errDeparted ends a wait whose client has gone.
var errDeparted = errors.New("the client closed the connection")

// errCommit ends the wait for a first event that has lasted for a heartbeat: the answer's head goes out, so that the
// client sees a stream, and the wait goes on behind it.
var errCommit = commitError{}

type commitError struct{}

func (commitError) Error() string   { return "silence before the first event" }
func (commitError) Resumable() bool { return true }

// Pace asks for an early tick where a probe is on its way, or heartbeats are more frequent than ticks.
func (x *completion) Pace() time.Duration {
	x.vigil.rest()
	return x.pace()
}

func (x *completion) pace() time.Duration {
	if x.conn.probing {
		return probeWait
	}
	if p := x.provider; p != nil && x.stream && p.heartbeat < lookEvery {
		return p.heartbeat
	}
	return 0
}

// lookEvery is how often a client's socket is looked at while the provider keeps talking. Where it is silent the
// connection to it ticks at least as often.
const lookEvery = 250 * time.Millisecond

// look looks whether the client is still there, and the gateway has time.
func (x *completion) look(now time.Time) error {
	x.looked = now
	if x.conn.left(x.probe) {
		x.departed = true
		return errDeparted
	}
	if x.server.cut.Load() {
		return x.server.shutdownError()
	}
	return nil
}

// Tick is called by the connection to the provider while it waits, and by the exchange itself between events.
func (x *completion) Tick(_ upstream.Phase, _ time.Duration) error {
	x.vigil.rest()
	now := x.server.now()
	if err := x.look(now); err != nil {
		return err
	}
	if err := x.overdue(now); err != nil {
		return err
	}
	heartbeat := x.provider.heartbeat
	if !x.stream || heartbeat <= 0 {
		return nil
	}
	if !x.committed {
		if x.response != nil && now.Sub(x.written) >= heartbeat {
			return errCommit
		}
		return nil
	}
	if now.Sub(x.written) >= heartbeat {
		if _, err := x.conn.Write(heartbeatChunk); err != nil {
			x.departed = true
			return errDeparted
		}
		x.server.metrics.Heartbeat()
		x.written = now
	}
	return nil
}

// beat is a comment line: it dispatches no event. heartbeatChunk is the same as a chunk of a chunked body, which
// is how it is written between the chunks of fasthttp: it has flushed after the last one.
const beat = ": keep-alive\n"

var (
	heartbeatChunk = []byte("d\r\n" + beat + "\r\n")
	interimHead    = []byte("HTTP/1.1 100 Continue\r\n\r\n")
)

// probe writes something that a client must ignore.
func (x *completion) probe() bool {
	switch {
	case x.committed:
		_, err := x.conn.Write(heartbeatChunk)
		x.written = x.server.now()
		return err == nil
	case x.http11 && !x.conn.interim:
		x.conn.interim = true
		_, err := x.conn.Write(interimHead)
		return err == nil
	}
	return false
}

// finish accounts the exchange, once, on every way out, and gives back what it holds.
func (x *completion) finish() {
	if x.finished {
		return
	}
	x.finished = true
	x.conn.exchange = nil
	defer x.giveBack()
	x.ended = x.server.now()
	failed := x.writer.Failed()
	if failed != nil && x.committed && !x.departed {
		x.record.Code, x.record.Cause = failed.Code, failed.Cause
		if failed.Cause == nil && x.provider != nil {
			x.record.Cause = x.said()
		}
	}
	x.hangUp()
	switch {
	case x.target == nil:
	case x.departed:
		x.settle(routing.Neither, 0)
	case failed != nil:
		x.settle(outcome(failed))
	case x.writer.Complete():
		x.settle(routing.Answered, 0)
	default:
		// Only a panic ends an answer in any other way.
		x.settle(routing.Neither, 0)
	}
	r := &x.record
	r.Complete = x.writer.Complete() && !x.departed
	if x.writer.Started() || x.writer.Complete() || x.departed && x.sent {
		// What a client left behind it has cost the prompt and what there was of the answer, whole or streamed.
		u := x.writer.Usage()
		r.PromptTokens, r.CompletionTokens = u.Prompt, u.Completion
		r.CachedTokens, r.ReasoningTokens = u.Cached, u.Reasoning
		r.UsageEstimated = u.Estimated
	}
	r.Dropped = x.writer.Dropped()
	r.Fuel += x.attempt.Fuel
	if x.departed {
		r.Status, r.Code = 499, "client_closed_request"
	}
	x.admission.Settle(x.spent(), x.ended)
	r.Ended = x.ended
	x.server.account.Request(r)
	x.writer.Reset(response.Options{})
	x.server.writers.Put(x.writer)
	x.writer = nil
	x.attempt.Reset()
	x.batch.Reset()
	x.reader.Reset(openai.Options{})
	x.framer.reset(abi.FramingSSE)
	x.from = nil
	x.server.works.Put(x.work)
	x.work = nil
}

// giveBack gives back what others wait for, also where accounting the exchange has failed.
func (x *completion) giveBack() {
	x.server.metrics.Lose(&x.record)
	if x.pump.x != nil {
		x.server.metrics.StreamEnded()
	}
	x.leave()
	if x.gen != nil {
		defer x.gen.release()
	}
	x.hangUp()
	x.settle(routing.Neither, 0) // where it is not
}

// hangUp ends what there is with a provider.
func (x *completion) hangUp() {
	if r := x.response; r != nil {
		x.response = nil
		r.Close()
	}
}

// conclude finishes an exchange outside of its handler, where nobody else is left to meet a panic.
func (x *completion) conclude() {
	defer x.server.survive(x.record.RequestID)
	x.finish()
}

// releaseRequest gives back what only the request needed. After the head of an answer nothing of the request is kept.
func (x *completion) releaseRequest(ctx *fasthttp.RequestCtx) {
	if x.request != nil {
		x.request.Reset()
		x.server.requests.Put(x.request)
		x.request = nil
		x.attempt.Release()
	}
	x.server.bodies.put(x.body)
	x.body = nil
	x.drop(&x.heldRequest)
	if x.stream {
		ctx.Request.ReleaseBody(0)
	}
}
