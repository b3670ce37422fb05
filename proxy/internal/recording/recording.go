// Package recording records the input of a plugin while the gateway serves: for a provider the client's request as the
// plugin receives it, and the upstream's responses, byte for byte; for a router its document, and for a filter a text.
//
// The owner of a Recorder takes finished Tapes from it, and redacts and writes them. Recording never delays a request:
// a Tape that exceeds the memory bounds is dropped and counted.
//
// Concurrency: a Recorder is safe for concurrent use. A Tape belongs to the goroutine of its request until End, and
// then to the caller of Next.
package recording

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxTapes bounds the finished tapes that wait for Next.
	maxTapes = 64
	// maxHeld bounds the bytes of all tapes, including those of requests in flight.
	maxHeld = 64 << 20
)

// Recorder records the traffic of a provider, or the input of a router or filter. A nil Recorder records nothing.
type Recorder struct {
	provider string // "" if a router or filter is recorded
	plugin   string // the plugin of a router or filter; "" if a provider is recorded
	ended    chan *Tape
	held     atomic.Int64 // bytes of all tapes
	dropped  atomic.Int64
}

// New returns a Recorder for a provider of the configuration.
func New(provider string) *Recorder {
	return &Recorder{provider: provider, ended: make(chan *Tape, maxTapes)}
}

// NewInputs returns a Recorder for a plugin that is a router or a filter.
func NewInputs(plugin string) *Recorder {
	return &Recorder{plugin: plugin, ended: make(chan *Tape, maxTapes)}
}

// Plugin returns the name of the router or filter that is recorded, or "" if there is none.
func (r *Recorder) Plugin() string {
	if r == nil {
		return ""
	}
	return r.plugin
}

// AddInput records a copy of what a router or filter has received. redact is Tape.Redact.
func (r *Recorder) AddInput(in Input, redact func([]byte) []byte) {
	t := &Tape{recorder: r, Redact: redact}
	if t.hold(len(in.Document) + len(in.Text)) {
		in.Document, in.Text = bytes.Clone(in.Document), bytes.Clone(in.Text)
		t.Input = &in
	}
	t.End(Ended)
}

// Dropped returns how many attempts were not recorded because they exceeded the memory bounds.
func (r *Recorder) Dropped() int64 { return r.dropped.Load() }

// Next returns the next finished tape, which the caller must Release. It waits for one until ctx ends; tapes that are
// already finished are returned even after that.
func (r *Recorder) Next(ctx context.Context) (*Tape, error) {
	select {
	case t := <-r.ended:
		return t, nil
	default:
	}
	select {
	case t := <-r.ended:
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Start begins to record an attempt. It returns nil, a Tape that records nothing, if the Recorder does not record this
// provider.
func (r *Recorder) Start(provider string) *Tape {
	if r == nil || r.plugin != "" || r.provider != provider {
		return nil
	}
	return &Tape{recorder: r}
}

// Ending is how an attempt ended.
type Ending uint8

// The endings.
const (
	Ended        Ending = iota // the gateway read all that it needed, or there was no response
	Truncated                  // the response was cut off
	Disconnected               // the client disconnected
)

// Request is a client's request as a plugin receives it.
type Request struct {
	Form, ClientForm string // names of the API of Body and of the API that the client uses
	Betas            []string
	Target           string
	MaxTokens        int64 // limits of the model
	DefaultMaxTokens int64
	Options          []byte // the provider's options overridden by the target's
	Stream           bool
	Body             []byte
}

// Input is what a router or a filter receives.
type Input struct {
	Settings []byte // of the router or filter, a JSON object
	Document []byte // for a router: the document that describes the request and its targets

	// For a filter: a text, and the tags that it may set.
	What abi.What
	Text []byte
	Tags []string
}

// Header is a header of a response; its name is in lower case.
type Header struct{ Name, Value string }

// Response is a response of the upstream.
type Response struct {
	Status  int
	Headers []Header
	Body    []byte
	Framing abi.Framing // of Body
}

// Tape is the recording of one attempt, or of one input of a router or filter. It contains credentials and client keys in clear text, which Redact removes
// from a text.
type Tape struct {
	Request Request
	// Responses are the responses to the requests of the attempt: to the first one, and to those that the plugin asked for
	// after it. It is empty if there was none.
	Responses []Response
	Ending    Ending // of the last response

	Input *Input // of a router or filter, which has nothing of the above; nil for a provider

	// Redact removes credentials and client keys from a text. It is safe for concurrent use.
	Redact func([]byte) []byte

	recorder *Recorder
	held     int64 // bytes that count towards the Recorder's
	full     bool  // it exceeded maxHeld, and has been emptied
}

// SetRequest records a copy of a request.
func (t *Tape) SetRequest(q Request) {
	if t == nil {
		return
	}
	body, options := q.Body, q.Options
	q.Body, q.Options = nil, nil
	t.Request = q
	if t.hold(len(body) + len(options)) {
		t.Request.Body = append([]byte(nil), body...)
		t.Request.Options = append([]byte(nil), options...)
	}
}

// StartResponse records the status and headers of the next response.
func (t *Tape) StartResponse(status int, headers func(yield func(name, value []byte))) {
	if t == nil || t.full {
		return
	}
	t.Responses = append(t.Responses, Response{Status: status})
	headers(func(name, value []byte) {
		if t.hold(len(name) + len(value)) {
			r := t.last()
			r.Headers = append(r.Headers, Header{lower(name), string(value)})
		}
	})
}

// last returns the response that is being recorded, or nil if there is none.
func (t *Tape) last() *Response {
	if t == nil || len(t.Responses) == 0 {
		return nil
	}
	return &t.Responses[len(t.Responses)-1]
}

// SetFraming records how the gateway splits the body of the response into events.
func (t *Tape) SetFraming(f abi.Framing) {
	if r := t.last(); r != nil {
		r.Framing = f
	}
}

func lower(name []byte) string {
	text := make([]byte, len(name))
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		text[i] = c
	}
	return string(text)
}

// Write records a copy of the next part of the response's body.
func (t *Tape) Write(p []byte) {
	if r := t.last(); r != nil && t.hold(len(p)) {
		r.Body = append(r.Body, p...)
	}
}

// hold reserves n bytes, and reports whether the tape may grow by them. If they exceed maxHeld, the tape is full and
// gets emptied.
func (t *Tape) hold(n int) bool {
	if t.full {
		return false
	}
	t.held += int64(n)
	if t.recorder.held.Add(int64(n)) > maxHeld {
		t.full = true
		t.free()
	}
	return !t.full
}

func (t *Tape) free() {
	t.recorder.held.Add(-t.held)
	t.held, t.Responses, t.Request, t.Input = 0, nil, Request{}, nil
}

// End finishes the tape for Next, or drops it if it is full or too many others are waiting.
func (t *Tape) End(e Ending) {
	if t == nil {
		return
	}
	t.Ending = e
	if !t.full {
		select {
		case t.recorder.ended <- t:
			return
		default:
		}
		t.free()
	}
	t.recorder.dropped.Add(1)
}

// Release frees the tape's memory.
func (t *Tape) Release() { t.free() }
