// Package recording records the input of a provider's plugin while the gateway serves: the client's request as the
// plugin receives it, and the upstream's response, byte for byte.
//
// The owner of a Recorder takes finished Tapes from it, and redacts and writes them. Recording never delays a request:
// a Tape that exceeds the memory bounds is dropped and counted.
//
// Concurrency: a Recorder is safe for concurrent use. A Tape belongs to the goroutine of its request until End, and
// then to the caller of Next.
package recording

import (
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

// Recorder records the traffic of a provider. A nil Recorder records nothing.
type Recorder struct {
	provider string
	ended    chan *Tape
	held     atomic.Int64 // bytes of all tapes
	dropped  atomic.Int64
}

// New returns a Recorder for a provider of the configuration.
func New(provider string) *Recorder {
	return &Recorder{provider: provider, ended: make(chan *Tape, maxTapes)}
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
	if r == nil || r.provider != provider {
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

// Header is a header of a response; its name is in lower case.
type Header struct{ Name, Value string }

// Tape is the recording of one attempt. It contains credentials and client keys in clear text, which Redact removes
// from a text.
type Tape struct {
	Request Request
	Status  int // 0 if there was no response
	Headers []Header
	Body    []byte
	Framing abi.Framing // of Body
	Ending  Ending

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

// SetHead records the status and headers of a response.
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

// SetFraming records how the gateway splits the body into events.
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

// Write records a copy of the next part of the response's body.
func (t *Tape) Write(p []byte) {
	if t != nil && t.hold(len(p)) {
		t.Body = append(t.Body, p...)
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
	t.held, t.Headers, t.Body, t.Request = 0, nil, nil, Request{}
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

// Drop empties the tape of an attempt that a tape cannot represent. It counts as dropped.
func (t *Tape) Drop() {
	if t != nil && !t.full {
		t.full = true
		t.free()
	}
}

// Release frees the tape's memory.
func (t *Tape) Release() { t.free() }
