package upstream

import (
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Response is an answer whose head has come. It must be closed. It belongs to one goroutine.
type Response struct {
	client *Client
	conn   *conn // nil once closed
	status int
	body   body
	zip    *inflater // nil for a body that is not compressed
	end    error     // what Next returns when nothing is left to hand out; nil while the body goes on
}

// Status is the HTTP status. Redirects are not followed: they are a status like others.
func (r *Response) Status() int { return r.status }

// Header returns the value of the first header of a name, in any case; nil if there is none. It is valid until Close. Location cannot
// be read.
func (r *Response) Header(name string) []byte {
	if r.conn == nil {
		return nil
	}
	return r.conn.header.get(name)
}

// SetWatcher makes w watch what is waited for from here on; nil is nobody.
func (r *Response) SetWatcher(w Watcher) {
	if r.conn != nil {
		r.conn.watch(w)
	}
}

// Buffered reports, between two calls of Next, that the next one returns without waiting: what it returns can leave with
// what this one returned.
func (r *Response) Buffered() bool { return r.end != nil || r.conn == nil || r.body.done }

// Await waits until Next has something to say. Whoever waits here and not in Next has less on its stack meanwhile. The error
// is of kind Paused; what else happens, Next says.
func (r *Response) Await() error {
	if r.conn == nil || r.end != nil || r.zip != nil || r.body.done || r.conn.r < r.conn.w {
		return nil
	}
	if err := r.conn.fill(); err != nil {
		if err = r.readFailed(err); r.end == nil {
			return err
		}
	}
	return nil
}

// Next returns the next bytes of the body, decoded, as soon as there are any. They lie in the connection's buffer, are
// valid until the next call, and may be changed by the caller. At the clean end of the body the error is io.EOF. Every
// other error is an *Error; all but those of kind Paused have closed the connection, and stay.
func (r *Response) Next() ([]byte, error) {
	if r.zip == nil || r.conn == nil {
		return r.raw()
	}
	for {
		p, err := r.zip.take()
		switch {
		case len(p) > 0:
			return p, nil
		case err != nil:
			return nil, r.zipEnd(err)
		}
		switch p, err = r.raw(); {
		case err == io.EOF:
			r.zip.eof = true
		case err != nil:
			return nil, err
		default:
			r.zip.feed(p)
		}
	}
}

// zipEnd says what the end of the decoder means for the body. It ends well only behind the clean end of what it read.
func (r *Response) zipEnd(err error) error {
	if err == io.EOF {
		return err
	}
	if e, ok := r.end.(*Error); ok {
		return e
	}
	kind := BadAnswer
	if errors.Is(err, io.ErrUnexpectedEOF) {
		kind = Truncated
	}
	return r.fail(&Error{Kind: kind, Phase: PhaseBody, Reason: "gzip", Cause: err})
}

// raw returns the next bytes of the body with its framing off and its content coding on.
func (r *Response) raw() ([]byte, error) {
	for {
		if r.conn == nil && (r.end == nil || r.end == io.EOF) {
			return nil, r.client.describe(&Error{Kind: Closed, Phase: PhaseBody}, nil)
		}
		if r.end != nil {
			return nil, r.end
		}
		c := r.conn
		if r.body.done {
			r.end = io.EOF
			continue
		}
		if c.r == c.w {
			if err := c.fill(); err != nil {
				return nil, r.readFailed(err)
			}
		}
		n, used, objection := r.body.decode(c.buf[c.r:c.w])
		p := c.buf[c.r : c.r+n : c.r+n]
		c.r += used
		if objection != "" {
			r.fail(&Error{Kind: BadAnswer, Phase: PhaseBody, Reason: objection})
		}
		if n > 0 {
			return p, nil
		}
	}
}

// ReadAll reads the rest of the body behind dst, which may be nil, and returns it all. More than limit bytes, dst's
// included, are an error of kind TooLarge. With any error it returns what had come until then; after one of kind Paused
// ReadAll may be called again with that.
func (r *Response) ReadAll(dst []byte, limit int) ([]byte, error) {
	return r.ReadAllWithin(dst, limit, nil)
}

// ReadAllWithin is ReadAll where there may be no room for a body that is within the limit: room is told how many bytes
// there are, again and again, and an error of it comes back as it is.
func (r *Response) ReadAllWithin(dst []byte, limit int, room func(bytes int) error) ([]byte, error) {
	for {
		if room != nil {
			if err := room(len(dst)); err != nil {
				return dst, err
			}
		}
		if r.end == nil && r.conn != nil && r.zip == nil && r.conn.r == r.conn.w && r.body.plain() > 0 {
			n, err := r.readInto(&dst, limit)
			dst = dst[:len(dst)+n]
			if err != nil {
				return dst, err
			}
			continue
		}
		p, err := r.Next()
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
		if len(dst)+len(p) > limit {
			return dst, r.tooLarge()
		}
		dst = append(dst, p...)
	}
}

// readInto reads bytes that need no decoding straight into dst's free room. It grows dst by what has come, not by what a
// header promises.
func (r *Response) readInto(dst *[]byte, limit int) (int, error) {
	plain := r.body.plain()
	room := limit - len(*dst)
	if r.body.framing != untilClose && plain > int64(room) {
		return 0, r.tooLarge()
	}
	// One byte more than fits tells a body that is too long from one that ends just there.
	want := int(min(plain, int64(room)+1))
	if cap(*dst)-len(*dst) < min(want, 1<<10) {
		*dst = slices.Grow(*dst, min(want, max(4<<10, len(*dst))))
	}
	p := (*dst)[len(*dst):cap(*dst)]
	n, err := r.conn.read(r.conn.rw, p[:min(len(p), want)])
	if err != nil {
		if err = r.readFailed(err); err == io.EOF {
			err = nil
		}
		return 0, err
	}
	if n > room {
		return 0, r.tooLarge()
	}
	r.body.consume(n)
	return n, nil
}

func (r *Response) tooLarge() error {
	return r.fail(&Error{Kind: TooLarge, Phase: PhaseBody})
}

// readFailed says what an error of the connection means for the body, and returns it as Next does.
func (r *Response) readFailed(err error) error {
	e, known := errors.AsType[*Error](err)
	switch {
	case known && e.Kind == Paused:
		return r.client.describe(e, r.conn)
	case known:
	case err == io.EOF && r.body.framing == untilClose && !(r.conn.tls && r.conn.cut):
		r.body.done, r.end = true, io.EOF
		r.conn.spoilt = true
		return io.EOF
	default:
		e = &Error{Kind: Truncated, Phase: PhaseBody, Cause: err}
	}
	return r.fail(e)
}

// fail ends the answer with an error, and the connection.
func (r *Response) fail(e *Error) error {
	r.end = r.client.describe(e, r.conn)
	r.conn.close()
	return r.end
}

// Close ends the answer, wherever it is; until then its connection counts as in use. The connection is kept for another request only if the body has been read to
// its end and nothing came behind it. It may be called again, and Next then returns an error.
func (r *Response) Close() {
	c := r.conn
	if c == nil {
		return
	}
	r.conn = nil
	if r.zip != nil {
		r.zip.stop()
	}
	if c.closed || c.spoilt || !r.body.done || c.r != c.w || c.header.last() {
		c.close()
		r.client.pool.discard()
		return
	}
	c.end()
	c.giveBack()
	r.client.pool.release(c)
}

// newResponse makes the response for a head that was read.
func (c *Client) newResponse(cn *conn, method string, h headScan) (*Response, error) {
	r := &Response{client: c, conn: cn, status: h.status, body: newBody(h.framing, h.length)}
	if method == http.MethodHead || h.status == http.StatusNoContent || h.status == http.StatusNotModified {
		r.body = newBody(empty, 0)
		return r, nil
	}
	switch enc := cn.header.get("content-encoding"); {
	case len(enc) == 0, httpfield.EqualFold(enc, "identity"):
	case httpfield.EqualFold(enc, "gzip"), httpfield.EqualFold(enc, "x-gzip"):
		r.zip = newInflater()
		// They were true of the bytes on the wire, and nobody sees those.
		cn.header.del("content-encoding")
		cn.header.del("content-length")
	default:
		return nil, &Error{Kind: BadAnswer, Phase: PhaseHead, Reason: "unknown content-encoding"}
	}
	return r, nil
}
