package loadtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// Conn is a client's connection to the gateway.
type Conn struct {
	net.Conn
	r      *bufio.Reader
	method string // method of the request in flight
}

// readBuffer is the size of read buffers. It is small, because there may be ten thousand of them.
const readBuffer = 1 << 10

// NewConn returns a client that uses a connection.
func NewConn(c net.Conn) *Conn { return &Conn{Conn: c, r: bufio.NewReaderSize(c, readBuffer)} }

// Dial connects to the gateway.
func Dial(addr string) (*Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// Request is a client's request.
type Request struct {
	Method string // "" means POST with a body, else GET
	Path   string // "" means /v1/chat/completions
	Key    string // "" means none
	ID     string // x-request-id; "" means none
	Body   string
	Close  bool // send Connection: close
}

// Append appends the request's bytes.
func (r *Request) Append(b []byte) []byte {
	method, path := r.method(), r.Path
	if path == "" {
		path = "/v1/chat/completions"
	}
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: gateway\r\n", method, path)
	if r.Key != "" {
		b = append(b, "Authorization: Bearer "+r.Key+"\r\n"...)
	}
	if r.ID != "" {
		b = append(b, "X-Request-Id: "+r.ID+"\r\n"...)
	}
	if r.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	if r.Body != "" {
		b = append(b, "Content-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(r.Body))+"\r\n"...)
	}
	return append(append(b, "\r\n"...), r.Body...)
}

func (r *Request) method() string {
	switch {
	case r.Method != "":
		return r.Method
	case r.Body != "":
		return "POST"
	}
	return "GET"
}

// Send writes a request.
func (c *Conn) Send(r *Request) error {
	c.method = r.method()
	_, err := c.Write(r.Append(nil))
	return err
}

// ReadHead reads the head of the final response. The caller must read its Body before the next response.
func (c *Conn) ReadHead() (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.r, &http.Request{Method: c.method})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// Do sends a request and reads the response.
func (c *Conn) Do(r *Request) (status int, body []byte, err error) {
	if err := c.Send(r); err != nil {
		return 0, nil, err
	}
	resp, err := c.ReadHead()
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// Events reads a stream as the gateway writes it, which is a subset of the event stream format: each event is one line
// of data and an empty line, with heartbeats between events.
type Events struct {
	Heartbeats int
	r          *bufio.Reader
	line       []byte
}

// NewEvents returns a reader of the events of a body.
func NewEvents(body io.Reader) *Events { return &Events{r: bufio.NewReaderSize(body, readBuffer)} }

const heartbeat = ": keep-alive\n"

// ErrEvent is returned for a stream in another format.
var ErrEvent = errors.New("invalid stream")

// Next returns the data of the next event, which is valid until the next call. It returns io.EOF at the end of the
// body.
func (e *Events) Next() ([]byte, error) {
	for {
		line, err := e.read()
		if err != nil {
			if err == io.EOF && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if string(line) == heartbeat {
			e.Heartbeats++
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			return nil, fmt.Errorf("%w: line %q", ErrEvent, line)
		}
		end, err := e.r.ReadByte()
		if err != nil {
			return nil, errors.Join(io.ErrUnexpectedEOF, err)
		}
		if end != '\n' {
			return nil, fmt.Errorf("%w: %q after a line of data", ErrEvent, end)
		}
		return bytes.TrimSuffix(data, []byte("\n")), nil
	}
}

// read reads a line with its newline. It copies the line, because it may be longer than the reader's buffer.
func (e *Events) read() (line []byte, err error) {
	e.line = e.line[:0]
	for {
		line, err = e.r.ReadSlice('\n')
		e.line = append(e.line, line...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return e.line, err
		}
	}
}
