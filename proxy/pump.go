package proxy

import (
	"context"
	"errors"
	"io"
	"runtime/debug"

	"github.com/sluice-gateway/sluice/proxy/chat"
)

// pump is the body of a streamed answer. fasthttp calls WriteTo after it has flushed the head; each Write becomes one
// chunk and one system call. One goroutine reads from the provider, translates and writes.
type pump struct{ x *exchange }

// SupportsBodyWriteTo makes fasthttp use WriteTo.
func (p *pump) SupportsBodyWriteTo() bool { return true }

// Read is never called, since SupportsBodyWriteTo says so.
func (p *pump) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// errPanic says nothing of the panic's value, which may hold anything.
var errPanic = errors.New("panic in a stream")

// WriteTo writes the stream to its end. An error makes fasthttp close the connection without the end of the body.
func (p *pump) WriteTo(w io.Writer) (n int64, err error) {
	x := p.x
	defer func() {
		if r := recover(); r != nil {
			x.server.panicked(x.record.RequestID, r, debug.Stack())
			e := failedByItself(nil)
			x.machine.Fail(e)
			n, err = p.lastWords(w, n, e)
		}
		x.record.Bytes = n
		if err != nil && x.departed {
			// It has left: the access log says so, and there is nobody to tell.
			err = errDeparted
		}
		x.conclude()
	}()
	x.committed = true
	x.written = x.server.now()
	for {
		if out := x.machine.Output(); len(out) > 0 {
			m, err := w.Write(out)
			n += int64(m)
			if err != nil {
				x.departed = true
				return n, err
			}
			x.machine.Take()
			x.written = x.server.now()
		}
		failed := x.machine.Failed()
		if failed != nil && n == 0 {
			// The machine takes it for an answer that has not begun, and keeps the failure for a status.
			m, err := w.Write(chat.AppendErrorFrame(nil, failed))
			if n = int64(m); err != nil {
				x.departed = true
				return n, err
			}
		}
		if x.machine.Complete() || failed != nil {
			x.drain()
			return n, nil
		}
		if err := x.read(context.Background()); err != nil {
			if x.departed {
				return n, err
			}
			x.machine.Fail(clientError(err))
		}
	}
}

// lastWords tells the client of a panic. What the machine may have rendered before it is left out.
func (p *pump) lastWords(w io.Writer, n int64, e *chat.Error) (_ int64, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	m, err := w.Write(chat.AppendErrorFrame(nil, e))
	return n + int64(m), err
}

// Close ends an exchange whose stream could not be written, or was. fasthttp calls it on every way out.
func (p *pump) Close() error {
	if !p.x.finished {
		p.x.departed = true
	}
	p.x.conclude()
	return nil
}
