// Package recording takes down what a provider's plugin is given while the gateway serves: the client's request as the plugin gets it,
// and the upstream's response, byte for byte.
//
// It does not know what becomes of a Tape: whoever made the Recorder takes them from it, redacts and writes them. A request is never
// delayed: a Tape that does not fit is dropped and counted.
//
// Concurrency: a Recorder is safe for concurrent use. A Tape belongs to the goroutine of its request until End, and then to whoever
// takes it.
package recording

import (
	"context"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxTapes is how many tapes wait to be written.
	maxTapes = 64
	// maxHeld bounds the bytes of all tapes, also of those that requests in flight are filling.
	maxHeld = 64 << 20
)

// Recorder records the traffic of a provider. A nil Recorder records nothing.
type Recorder struct {
	provider string
	ended    chan *Tape
	held     atomic.Int64
	dropped  atomic.Int64
}

// New returns a Recorder of a provider of the configuration.
func New(provider string) *Recorder {
	return &Recorder{provider: provider, ended: make(chan *Tape, maxTapes)}
}

// Dropped is how many attempts were not recorded, for want of room.
func (r *Recorder) Dropped() int64 { return r.dropped.Load() }

// Next returns the next tape, which its receiver gives back with Release. It waits for one until ctx ends, but returns those that are there
// already also after that.
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

// Start begins to record an attempt at a provider. It returns nil, which takes down nothing, where it is not the one that is recorded.
func (r *Recorder) Start(provider string) *Tape {
	if r == nil || r.provider != provider {
		return nil
	}
	return &Tape{recorder: r}
}

// How an attempt ended.
type Ending uint8

// The endings.
const (
	Ended        Ending = iota // with all that the gateway wanted of the response, or without one
	Truncated                  // the response was cut off
	Disconnected               // the client had left
)

// Request is what a plugin learns of a client's request.
type Request struct {
	Form, ClientForm string // APIs, by the names of forms
	Betas            []string
	Target           string
	MaxTokens        int64 // limits of the model
	DefaultMaxTokens int64
	Options          []byte // of the target, over those of the provider
	Stream           bool
	Body             []byte
}

// Header is a header of a response; its name is in lower case.
type Header struct{ Name, Value string }

// Tape is one attempt. Its text holds credentials and keys of clients as they came: Redact takes them out.
type Tape struct {
	Request Request
	Status  int // 0 if there was no response
	Headers []Header
	Body    []byte
	Framing abi.Framing // of Body
	Ending  Ending

	// Redact takes credentials and keys of clients out of a text. It may be called from any goroutine.
	Redact func([]byte) []byte

	recorder *Recorder
	held     int64
	full     bool
}

// SetRequest copies a request.
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

// SetHead begins a response.
func (t *Tape) SetHead(status int, headers func(yield func(name, value []byte))) {
	if t == nil {
		return
	}
	t.Status = status
	headers(func(name, value []byte) {
		if t.hold(len(name) + len(value)) {
			t.Headers = append(t.Headers, Header{lower(name), string(value)})
		}
	})
}

// SetFraming says how the gateway splits the body into events.
func (t *Tape) SetFraming(f abi.Framing) {
	if t != nil {
		t.Framing = f
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

// Write copies a part of the response's body.
func (t *Tape) Write(p []byte) {
	if t != nil && t.hold(len(p)) {
		t.Body = append(t.Body, p...)
	}
}

// hold reserves room, which a tape that is full has none of.
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
	t.held, t.Headers, t.Body, t.Request = 0, nil, nil, Request{}
}

// End hands the tape over, or drops it where there is no room.
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

// Release gives back a tape's room.
func (t *Tape) Release() { t.free() }
