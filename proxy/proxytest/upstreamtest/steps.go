package upstreamtest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// ErrClosed is returned by steps whose server is being stopped.
var ErrClosed = errors.New("upstreamtest: the test has ended")

// ReadRequest reads a complete request and records it.
func ReadRequest() Step { return readRequest }

func readRequest(c *Conn) error {
	r, err := c.readHead()
	if err != nil {
		return err
	}
	if r.Body, err = io.ReadAll(c.body(r)); err != nil {
		return c.reportEnd(err)
	}
	c.record(r)
	return nil
}

// ReadHead reads a request up to its body and records it, without the body.
func ReadHead() Step {
	return func(c *Conn) error {
		r, err := c.readHead()
		if err == nil {
			c.record(r)
		}
		return err
	}
}

// DropBody reads and discards the body of a request after ReadHead.
func DropBody() Step {
	return func(c *Conn) error {
		if _, err := io.Copy(io.Discard, c.body(c.last)); err != nil {
			return c.reportEnd(err)
		}
		return nil
	}
}

func (c *Conn) record(r Request) {
	c.last = r
	c.Server.mu.Lock()
	c.Server.requests = append(c.Server.requests, r)
	c.Server.mu.Unlock()
}

func (c *Conn) readHead() (Request, error) {
	var head bytes.Buffer
	for !bytes.HasSuffix(head.Bytes(), []byte("\r\n\r\n")) {
		line, err := c.r.ReadSlice('\n')
		head.Write(line)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return Request{}, c.reportEnd(err)
		}
	}
	hr, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head.Bytes())))
	if err != nil {
		return Request{}, fmt.Errorf("read request: %w", err)
	}
	return Request{
		Conn: c.Index, Head: strings.TrimSuffix(head.String(), "\r\n\r\n"),
		Method: hr.Method, Path: hr.RequestURI, Header: hr.Header,
	}, nil
}

func (c *Conn) body(r Request) io.Reader {
	var n int64
	fmt.Sscan(r.Header.Get("Content-Length"), &n)
	return io.LimitReader(c.r, n)
}

// reportEnd sends to Server.Ended how the client ended the connection, if it did, and returns err.
func (c *Conn) reportEnd(err error) error {
	how := FIN
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		how = RST
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	select {
	case c.Server.ended <- how:
	default:
	}
	return err
}

// Write writes s with one call of Write.
func Write(s string) Step {
	p := []byte(s)
	return func(c *Conn) error {
		if _, err := c.Conn.Write(p); err != nil {
			return c.reportEnd(err)
		}
		return nil
	}
}

// Bytes writes s byte by byte, each in its own segment.
func Bytes(s string) Step {
	return func(c *Conn) error {
		for i := range len(s) {
			if _, err := io.WriteString(c.Conn, s[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
}

// Cut writes s in pieces, cut at the ascending offsets.
func Cut(s string, offsets ...int) Step {
	return func(c *Conn) error {
		from := 0
		for _, to := range append(offsets, len(s)) {
			if _, err := io.WriteString(c.Conn, s[from:to]); err != nil {
				return err
			}
			from = to
		}
		return nil
	}
}

// Head writes a response header. Each header is "Name: value".
func Head(status int, headers ...string) Step {
	return Write(headText(status, headers))
}

func headText(status int, headers []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// Answer writes a complete response with a Content-Length in one piece.
func Answer(status int, contentType, body string, headers ...string) Step {
	headers = append([]string{"Content-Type: " + contentType, fmt.Sprintf("Content-Length: %d", len(body))}, headers...)
	return Write(headText(status, headers) + body)
}

// EventStream writes the header of a chunked event stream.
func EventStream() Step {
	return Head(http.StatusOK, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
}

// Chunk writes each part as a chunk.
func Chunk(parts ...string) Step {
	return func(c *Conn) error {
		for _, p := range parts {
			if _, err := fmt.Fprintf(c.Conn, "%x\r\n%s\r\n", len(p), p); err != nil {
				return c.reportEnd(err)
			}
		}
		return nil
	}
}

// LastChunk ends a chunked body.
func LastChunk() Step { return Write("0\r\n\r\n") }

// Signal closes ch.
func Signal(ch chan<- struct{}) Step {
	return func(*Conn) error {
		close(ch)
		return nil
	}
}

// Wait receives from ch, or waits until it is closed.
func Wait(ch <-chan struct{}) Step {
	return func(c *Conn) error {
		select {
		case <-ch:
			return nil
		case <-c.Server.done:
			return ErrClosed
		}
	}
}

// Idle sleeps for a random time below limit, like a provider that closes idle connections at unpredictable times.
func Idle(limit time.Duration) Step {
	return func(*Conn) error {
		time.Sleep(rand.N(limit))
		return nil
	}
}

// AwaitClose discards input until the client ends the connection; Server.Ended reports how.
func AwaitClose() Step {
	return func(c *Conn) error {
		_, err := io.Copy(io.Discard, c.r)
		if err == nil {
			err = io.EOF
		}
		return c.reportEnd(err)
	}
}

// Close ends the connection with a FIN.
func Close() Step {
	return func(c *Conn) error {
		// Closing with unread bytes would send a RST.
		for c.r.Buffered() > 0 {
			c.r.Discard(c.r.Buffered())
		}
		return c.Conn.Close()
	}
}

// CloseRaw ends a TLS connection with a FIN and no close_notify.
func CloseRaw() Step {
	return func(c *Conn) error { return c.tcp().Close() }
}

// HalfClose sends a FIN and leaves the connection open for reading.
func HalfClose() Step {
	return func(c *Conn) error { return c.tcp().CloseWrite() }
}

// Reset ends the connection with a RST.
func Reset() Step {
	return func(c *Conn) error {
		if err := c.tcp().SetLinger(0); err != nil {
			return err
		}
		return c.tcp().Close()
	}
}

// Loop repeats the steps until one fails.
func Loop(steps ...Step) Step {
	return func(c *Conn) error {
		for {
			for _, step := range steps {
				if err := step(c); err != nil {
					return err
				}
			}
		}
	}
}

// Echo responds with the body of the request, so that tests can match responses to requests.
func Echo() Step {
	return func(c *Conn) error {
		if err := readRequest(c); err != nil {
			return err
		}
		return Answer(http.StatusOK, "application/json", string(c.last.Body))(c)
	}
}

func (c *Conn) tcp() *net.TCPConn {
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.NetConn().(*net.TCPConn)
	}
	return c.Conn.(*net.TCPConn)
}
