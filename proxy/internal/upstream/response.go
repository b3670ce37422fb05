package upstream

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Response is a response whose header has arrived. It must be closed, and belongs to one goroutine at a time.
type Response struct {
	client  *Client
	conn    *conn // nil once closed
	status  int
	account credential.Account
	body    body
	zip     *inflater // nil if the body is not compressed
	end     error     // returned by Next at the end of the body; nil until then
}

// Status returns the HTTP status. Redirects are not followed.
func (r *Response) Status() int { return r.status }

// Account returns the account that the request was made with.
func (r *Response) Account() credential.Account { return r.account }

// Header returns the value of the first header with a name, ignoring case, or nil if there is none. It is valid until
// Close. Location is available from Location alone.
func (r *Response) Header(name string) []byte {
	if r.conn == nil {
		return nil
	}
	return r.conn.header.get(name)
}

// Location returns the value of the header Location, or "" if there is none. It may contain a credential.
func (r *Response) Location() string {
	if r.conn == nil {
		return ""
	}
	h := &r.conn.header
	return string(h.text[h.target.value:h.target.valueEnd])
}

// EachHeader calls f with each header that Header can return. Names are spelled as the provider sent them. Both slices
// are valid only during the call.
func (r *Response) EachHeader(f func(name, value []byte)) {
	if r.conn == nil {
		return
	}
	h := &r.conn.header
	for _, at := range h.fields {
		f(h.text[at.name:at.nameEnd], h.text[at.value:at.valueEnd])
	}
}

// maxRetryAfter caps how long a provider may make clients wait.
const maxRetryAfter = time.Hour

// RetryAfter returns how long the provider wants no requests: retry-after-ms, or else retry-after in seconds or as a
// date (RFC 9110, section 10.2.3). It returns 0 if neither is present and valid.
func (r *Response) RetryAfter(now time.Time) time.Duration {
	wait := time.Duration(0)
	if v := string(r.Header("retry-after-ms")); v != "" {
		if ms, err := strconv.ParseFloat(v, 64); err == nil && ms > 0 {
			wait = time.Duration(min(ms, float64(maxRetryAfter.Milliseconds()))) * time.Millisecond
		}
	}
	if v := string(r.Header("retry-after")); wait == 0 && v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			if s > 0 {
				wait = time.Duration(min(s, maxRetryAfter.Seconds()) * float64(time.Second))
			}
		} else if t, err := http.ParseTime(v); err == nil {
			wait = t.Sub(now)
		}
	}
	return max(0, min(wait, maxRetryAfter))
}

// retryAfter is RetryAfter by the Client's clock.
func (r *Response) retryAfter() time.Duration { return r.RetryAfter(r.client.cfg.Now()) }

// RequestID returns the provider's ID of the request, or nil if the provider sent none that can be shown. It is valid
// until Close.
func (r *Response) RequestID() []byte {
	for _, name := range []string{"x-request-id", "request-id", "x-amzn-requestid", "x-generation-id"} {
		if v := r.Header(name); len(v) > 0 && len(v) <= abi.MaxName && httpfield.VisibleASCII(v) {
			return v
		}
	}
	return nil
}

// SetWatcher replaces the Watcher; nil removes it.
func (r *Response) SetWatcher(w Watcher) {
	if r.conn != nil {
		r.conn.watch(w)
	}
}

// Buffered reports whether all of the body has been read from the connection, so that Next does not wait and its result
// can be sent together with the last bytes.
func (r *Response) Buffered() bool { return r.end != nil || r.conn == nil || r.body.done }

// Await waits until Next can return without waiting. It needs less stack than Next. It returns only errors of kind
// Paused; other errors are returned by Next.
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

// Next returns the next decoded bytes of the body as soon as there are any. They are in the connection's buffer, are
// valid until the next call, and may be changed by the caller. At the end of a complete body the error is io.EOF. All
// other errors are *Errors. Unless its kind is Paused, an error means that the connection is closed, and later calls
// return the same error.
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

// zipEnd maps the end of the decoder to the end of the body, which is complete only if the compressed body is.
func (r *Response) zipEnd(err error) error {
	if err == io.EOF {
		return err
	}
	if e, ok := r.end.(*Error); ok {
		return e
	}
	kind := InvalidResponse
	if errors.Is(err, io.ErrUnexpectedEOF) {
		kind = Truncated
	}
	return r.fail(&Error{Kind: kind, Phase: PhaseBody, Reason: "gzip", Cause: err})
}

// raw returns the next bytes of the body, with the framing removed and the content coding still applied.
func (r *Response) raw() ([]byte, error) {
	for {
		if r.conn == nil && (r.end == nil || r.end == io.EOF) {
			return nil, r.client.bodyError(&Error{Kind: Closed, Phase: PhaseBody}, nil)
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
			r.fail(&Error{Kind: InvalidResponse, Phase: PhaseBody, Reason: objection})
		}
		if n > 0 {
			return p, nil
		}
	}
}

// ReadAll appends the rest of the body to dst, which may be nil. If the result, including dst, exceeds limit bytes, the
// error is of kind TooLarge. ReadAll also returns what it has read if it fails; after an error of kind Paused it may be
// called again with that.
func (r *Response) ReadAll(dst []byte, limit int) ([]byte, error) {
	return r.ReadAllWithin(dst, limit, nil)
}

// ReadAllWithin is ReadAll under a memory budget: reserve is called before each read with the number of bytes so far,
// and its error ends ReadAllWithin. reserve may be nil.
func (r *Response) ReadAllWithin(dst []byte, limit int, reserve func(bytes int) error) ([]byte, error) {
	for {
		if reserve != nil {
			if err := reserve(len(dst)); err != nil {
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

// readInto reads bytes that need no decoding into dst's free capacity. It grows dst in proportion to what has arrived,
// not to the length that a header declares.
func (r *Response) readInto(dst *[]byte, limit int) (int, error) {
	plain := r.body.plain()
	room := limit - len(*dst)
	if r.body.framing != untilClose && plain > int64(room) {
		return 0, r.tooLarge()
	}
	// One byte more than allowed distinguishes a body that is too long from one that just fits.
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

// readFailed maps an error of the connection to one of the body, as returned by Next.
func (r *Response) readFailed(err error) error {
	e, known := errors.AsType[*Error](err)
	switch {
	case known && e.Kind == Paused:
		return r.client.bodyError(e, r.conn)
	case known:
	case err == io.EOF && r.body.framing == untilClose && !(r.conn.tls && r.conn.sawEOF):
		r.body.done, r.end = true, io.EOF
		r.conn.unusable = true
		return io.EOF
	default:
		e = &Error{Kind: Truncated, Phase: PhaseBody, Cause: err}
	}
	return r.fail(e)
}

// fail ends the response with an error and closes the connection.
func (r *Response) fail(e *Error) error {
	r.end = r.client.bodyError(e, r.conn)
	r.conn.close()
	return r.end
}

// Close ends the response. Until then its connection counts as in use. The connection is kept for reuse only if the
// body has been read to its end and no data followed it. After Close, Next returns an error. Close may be called again.
func (r *Response) Close() {
	c := r.conn
	if c == nil {
		return
	}
	r.conn = nil
	if r.zip != nil {
		r.zip.stop()
	}
	reusable := !c.closed && !c.unusable && r.body.done && !c.header.last()
	if !reusable || c.r != c.w {
		if reusable {
			r.client.pool.count(func(s *Stats) { s.Unsolicited++ })
		}
		c.close()
		r.client.pool.discard()
		return
	}
	c.endRequest()
	c.releaseBuffer()
	r.client.pool.release(c)
}

// newResponse returns the Response for a header that has been read.
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
		// These headers describe the compressed body.
		cn.header.del("content-encoding")
		cn.header.del("content-length")
	default:
		return nil, &Error{Kind: InvalidResponse, Phase: PhaseHead, Reason: "unknown content-encoding"}
	}
	return r, nil
}
