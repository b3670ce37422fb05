package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// foreign is a response that no request asked for.
const foreign = "HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\nanother key's text"

// startUnsolicited starts a server with TLS or without, and a client for it.
func startUnsolicited(t *testing.T, secure bool, scripts ...upstreamtest.Script) (*upstreamtest.Server, *Client) {
	t.Helper()
	// A server that asks for the client's certificate sends its session ticket after the handshake and not during it.
	cfg := Config{Ticks: Ticks{First: 10 * time.Millisecond, Slow: 20 * time.Millisecond}}
	var s *upstreamtest.Server
	if secure {
		s = upstreamtest.NewTLS(t, upstreamtest.TLS{ClientAuth: tls.RequestClientCert}, scripts...)
		cfg.TLS = s.ClientTLS()
	} else {
		s = upstreamtest.New(t, scripts...)
	}
	cfg.BaseURL = s.URL()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

// exchange sends a request and returns the whole response.
func exchange(c *Client, method, body string) (status int, text string, err error) {
	r, err := c.Do(context.Background(), &Request{Method: method, Path: "/", Body: []byte(body)}, nil)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	b, err := r.ReadAll(nil, 1<<20)
	return r.Status(), string(b), err
}

// idleConn returns the only idle connection.
func idleConn(t *testing.T, c *Client) *conn {
	t.Helper()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if len(c.pool.idle) != 1 {
		t.Fatalf("%d idle connections", len(c.pool.idle))
	}
	return c.pool.idle[0]
}

// awaitReadable waits until something can be read from a connection's socket.
func awaitReadable(t *testing.T, c *conn) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !c.poll.readable(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing has arrived")
		}
	}
}

func eachSecurity(t *testing.T, name string, test func(t *testing.T, secure bool)) {
	for _, secure := range []bool{false, true} {
		t.Run(name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
			t.Parallel()
			test(t, secure)
		})
	}
}

// TestBytesBehindResponse has the provider send bytes behind a complete response in the same segment. They are not
// taken for the response to the next request.
//
// covers: F39 F60 F63
func TestBytesBehindResponse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ method, response string }{
		"a response":                  {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
		"a long response":             {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("x", 6000)},
		"a chunked response":          {"POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"},
		"a length that is too short":  {"POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi, and more"},
		"a HEAD response with a body": {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"},
		"a 204 with a body":           {"POST", "HTTP/1.1 204 No Content\r\n\r\nhi"},
		"a 304 with a body":           {"POST", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nhi"},
		"an error":                    {"POST", "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nhi"},
	} {
		eachSecurity(t, name, func(t *testing.T, secure bool) {
			read := upstreamtest.ReadRequest()
			s, client := startUnsolicited(t, secure,
				upstreamtest.Script{read, upstreamtest.Write(c.response + foreign), upstreamtest.AwaitClose()},
				upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
			if _, got, err := exchange(client, c.method, map[string]string{"POST": "one"}[c.method]); err != nil || strings.Contains(got, "another") {
				t.Fatalf("got %q, error %v", got, err)
			}
			for range 2 {
				if status, got, err := exchange(client, "POST", "two"); err != nil || status != 200 || got != "two" {
					t.Fatalf("got status %d, %q, error %v", status, got, err)
				}
			}
			if st := client.Stats(); st.Unsolicited != 1 || st.Dialled != 2 || st.Stale+st.Retried != 0 || len(s.Requests()) != 3 {
				t.Errorf("stats %+v, %d requests", st, len(s.Requests()))
			}
		})
	}
}

// TestBytesOnIdleConnection has the provider send something, or close, while a connection is idle. Only bytes count as
// unsolicited.
//
// covers: F62
func TestBytesOnIdleConnection(t *testing.T) {
	t.Parallel()
	const timeout = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		steps       []upstreamtest.Step
		unsolicited uint64
	}{
		"a response":               {[]upstreamtest.Step{upstreamtest.Write(foreign)}, 1},
		"a timeout":                {[]upstreamtest.Step{upstreamtest.Write(timeout)}, 1},
		"a timeout and a FIN":      {[]upstreamtest.Step{upstreamtest.Write(timeout), upstreamtest.Close()}, 1},
		"garbage":                  {[]upstreamtest.Step{upstreamtest.Write("\x00garbage\r\n")}, 1},
		"one byte":                 {[]upstreamtest.Step{upstreamtest.Write("\n")}, 1},
		"a FIN":                    {[]upstreamtest.Step{upstreamtest.Close()}, 0},
		"a FIN without TLS' alert": {[]upstreamtest.Step{upstreamtest.CloseRaw()}, 0},
		"a RST":                    {[]upstreamtest.Step{upstreamtest.Reset()}, 0},
	} {
		eachSecurity(t, name, func(t *testing.T, secure bool) {
			idle := make(chan struct{})
			first := append(upstreamtest.Script{upstreamtest.Echo(), upstreamtest.Wait(idle)}, c.steps...)
			s, client := startUnsolicited(t, secure, append(first, upstreamtest.AwaitClose()), upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
			if _, _, err := exchange(client, "POST", "one"); err != nil {
				t.Fatal(err)
			}
			cn := idleConn(t, client)
			// A deadline of an earlier wait that has passed must not hide the bytes.
			if err := cn.SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			close(idle)
			awaitReadable(t, cn)
			if _, got, err := exchange(client, "POST", "two"); err != nil || got != "two" {
				t.Fatalf("got %q, error %v", got, err)
			}
			if st := client.Stats(); st.Unsolicited != c.unsolicited || st.Unsolicited+st.Stale != 1 || st.Retried != 0 || st.Reused != 0 || len(s.Requests()) != 2 {
				t.Errorf("stats %+v, %d requests", st, len(s.Requests()))
			}
		})
	}
}

// TestSessionTicketOnIdleConnection checks that a session ticket of TLS 1.3, which the server sends after the handshake,
// is no reason to close a connection.
func TestSessionTicketOnIdleConnection(t *testing.T) {
	t.Parallel()
	_, client := startUnsolicited(t, true, upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
	if _, err := client.pool.acquire(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	cn, err := client.dial(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	awaitReadable(t, cn)
	client.pool.release(cn)
	if _, got, err := exchange(client, "POST", "one"); err != nil || got != "one" {
		t.Fatalf("got %q, error %v", got, err)
	}
	if st := client.Stats(); st.Reused != 1 || st.Stale+st.Unsolicited+st.Retried+st.Dialled != 0 {
		t.Errorf("stats: %+v", st)
	}
}

// TestBytesBeforeRequestIsWritten has the provider respond while a long request is being written. On a reused
// connection this may be a response to an earlier request, so the request is sent again on a new one. On a new
// connection it is a rejection, and cannot be a success.
//
// covers: F61 F63
func TestBytesBeforeRequestIsWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("sends more than socket buffers hold")
	}
	t.Parallel()
	const reject = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n{}"
	long := strings.Repeat("x", 24<<20)
	early := func(response string, then ...upstreamtest.Step) upstreamtest.Script {
		return append(upstreamtest.Script{upstreamtest.ReadHead(), upstreamtest.Write(response)}, then...)
	}
	own := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/plain", "own"), upstreamtest.AwaitClose()}
	for name, c := range map[string]struct {
		reused      bool
		first       upstreamtest.Script // serves the long request on its first connection
		second      upstreamtest.Script // on its second
		status      int                 // 0 is InvalidResponse
		unsolicited uint64
	}{
		"a response, then the rest is read": {true, early(foreign, upstreamtest.DropBody(), upstreamtest.AwaitClose()), own, 200, 1},
		"garbage":                           {true, early("garbage\r\n", upstreamtest.DropBody(), upstreamtest.AwaitClose()), own, 200, 1},
		"a rejection":                       {true, early(reject, upstreamtest.DropBody(), upstreamtest.AwaitClose()), early(reject, upstreamtest.DropBody(), upstreamtest.AwaitClose()), 413, 1},
		"new, a rejection":                  {false, early(reject, upstreamtest.DropBody(), upstreamtest.AwaitClose()), nil, 413, 0},
		"new, a success":                    {false, early(foreign, upstreamtest.DropBody(), upstreamtest.AwaitClose()), nil, 0, 0},
	} {
		eachSecurity(t, name, func(t *testing.T, secure bool) {
			first := c.first
			if c.reused {
				first = append(upstreamtest.Script{upstreamtest.Echo()}, first...)
			}
			s, client := startUnsolicited(t, secure, first, c.second)
			if c.reused {
				if _, _, err := exchange(client, "POST", "one"); err != nil {
					t.Fatal(err)
				}
			}
			status, got, err := exchange(client, "POST", long)
			e, failed := errors.AsType[*Error](err)
			if status != c.status || failed != (c.status == 0) || failed && e.Kind != InvalidResponse || strings.Contains(got, "another") {
				t.Errorf("got status %d, %q, error %v", status, got, err)
			}
			connections := 1
			if c.second != nil {
				connections = 2
			}
			if st := client.Stats(); st.Unsolicited != c.unsolicited || st.Stale+st.Retried != 0 || s.Connections() != connections || c.status != 200 && st.Open != 0 {
				t.Errorf("stats %+v, %d connections", st, s.Connections())
			}
		})
	}
}

// TestResponseToNewConnection checks that an error which a provider sends as soon as a connection is established is
// returned, and that a success is not.
func TestResponseToNewConnection(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 503} {
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Write(fmt.Sprintf("HTTP/1.1 %d Hello\r\nContent-Length: 4\r\n\r\nbusy", status)), upstreamtest.AwaitClose()})
		client, err := New(Config{BaseURL: s.URL(), Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			c, err := net.Dial(network, address)
			if err != nil {
				return nil, err
			}
			cn := newConn(c, Ticks{}, nil)
			awaitReadable(t, cn)
			return c, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		got, body, err := exchange(client, "POST", "one")
		if e, failed := errors.AsType[*Error](err); failed != (status == 200) || failed && e.Kind != InvalidResponse || !failed && (got != status || body != "busy") {
			t.Errorf("after a %d: got status %d, %q, error %v", status, got, body, err)
		}
		if st := client.Stats(); st.Open != 0 || st.Unsolicited != 0 || s.Connections() != 1 {
			t.Errorf("after a %d: stats %+v, %d connections", status, st, s.Connections())
		}
	}
}
