package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// memoryListener is an in-memory listener that a gateway serves.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

// serveInMemory returns a listener that a gateway serves until the test ends. Of its providers, only the demo is
// available.
func serveInMemory(tb testing.TB) *memoryListener {
	tb.Helper()
	g := proxytest.Start(tb, unlimited(configuration("", "")))
	m := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(m) }()
	tb.Cleanup(func() {
		if err := errors.Join(g.Stop(proxytest.EventTimeout), <-served); err != nil {
			tb.Error(err)
		}
	})
	return m
}

// Accept implements net.Listener.
func (m *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memoryListener) Close() error {
	close(m.closed)
	return nil
}

// Addr implements net.Listener.
func (m *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// halfClosedConn is the connection of a client that sends in and then closes its sending side.
type halfClosedConn struct {
	in      []byte
	maxRead int // maximum number of bytes per read
	out     bytes.Buffer
	once    sync.Once
	done    chan struct{} // closed when the gateway has closed the connection
}

func (c *halfClosedConn) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.maxRead)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *halfClosedConn) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c *halfClosedConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

func (c *halfClosedConn) LocalAddr() net.Addr              { return memoryAddr{} }
func (c *halfClosedConn) RemoteAddr() net.Addr             { return memoryAddr{} }
func (c *halfClosedConn) SetDeadline(time.Time) error      { return nil }
func (c *halfClosedConn) SetReadDeadline(time.Time) error  { return nil }
func (c *halfClosedConn) SetWriteDeadline(time.Time) error { return nil }

// exchange sends in to the gateway, which reads at most maxRead bytes at a time, and returns the checked responses.
func (m *memoryListener) exchange(t testing.TB, in []byte, maxRead int) []byte {
	t.Helper()
	c := &halfClosedConn{in: in, maxRead: max(maxRead, 1), done: make(chan struct{})}
	m.conns <- c
	timer := time.NewTimer(proxytest.EventTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		t.Fatalf("the gateway does not close the connection after %.2000q", in)
	}
	if err := checkResponses(c.out.Bytes(), bytes.Contains(in, []byte("HEAD "))); err != nil {
		t.Fatalf("%v in the response to %.2000q: %.2000q", err, in, c.out.Bytes())
	}
	return c.out.Bytes()
}

// checkResponses checks that out consists of complete, valid responses. If heads is set, each of them may be the
// response to a HEAD request, which has no body.
func checkResponses(out []byte, heads bool) error {
	if len(out) == 0 {
		return nil
	}
	methods := []string{"GET"}
	if heads {
		methods = append(methods, "HEAD")
	}
	var failed error
	for _, method := range methods {
		r := bufio.NewReader(bytes.NewReader(out))
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		if err == nil {
			err = checkResponse(resp, body, method)
		}
		if err == nil {
			remaining, _ := io.ReadAll(r)
			if resp.Close && len(remaining) > 0 {
				err = fmt.Errorf("%d bytes after the last response", len(remaining))
			} else {
				err = checkResponses(remaining, heads)
			}
		}
		if err == nil {
			return nil
		}
		failed = err
	}
	return failed
}

// checkResponse checks the status, the headers and, for errors, the body of a response.
func checkResponse(resp *http.Response, body []byte, method string) error {
	switch {
	case resp.StatusCode == http.StatusContinue:
		return nil
	case resp.Header.Get("X-Request-Id") == "":
		return fmt.Errorf("no x-request-id")
	case resp.StatusCode >= 400 && method != "HEAD":
		var e map[string]map[string]*string
		if err := json.Unmarshal(body, &e); err != nil || len(e["error"]) != 4 || e["error"]["message"] == nil || e["error"]["type"] == nil {
			return fmt.Errorf("invalid error body %s", body)
		}
	}
	if resp.StatusCode == http.StatusInternalServerError || resp.StatusCode < 400 && resp.StatusCode != http.StatusOK {
		// A status of 500 means that a request panicked.
		return fmt.Errorf("unexpected status %d", resp.StatusCode)
	}
	return nil
}

// fuzzSeeds returns the requests of all vectors except long ones, and some valid requests.
func fuzzSeeds() [][]byte {
	all := slices.Concat(framingVectors(), headVectors(), methodVectors(), pathVectors(), expectVectors(), bodyVectors(), mediaVectors(), keyVectors())
	seeds := [][]byte{
		[]byte(postHead + sized(hello)), []byte(postHead + chunked(hello)), []byte(getHead + "\r\n"), []byte(getHead + "\r\n" + postHead + sized(hello) + getHead + "\r\n"),
		[]byte(postHead + sized(strings.Replace(hello, "{", `{"stream":true,`, 1)) + strings.Replace(getHead, "GET", "HEAD", 1) + "\r\n"),
		[]byte(postHead + "Expect: 100-continue\r\n" + sized(hello)), []byte(postHead + sized(helloUpstream)), nil, []byte("\r\n\r\n"),
	}
	for _, v := range all {
		if len(v.send) < 8<<10 {
			seeds = append(seeds, []byte(v.send))
		}
	}
	return seeds
}

// TestRandomBytes sends all vectors at once and byte by byte, then random mutations of them.
//
// covers: F113
func TestRandomBytes(t *testing.T) {
	m := serveInMemory(t)
	seeds := fuzzSeeds()
	for _, s := range seeds {
		m.exchange(t, s, len(s))
		m.exchange(t, s, 1)
	}
	random := rand.New(rand.NewPCG(113, 0))
	for range scale(20_000, 2_000) {
		s := mutate(random, seeds)
		m.exchange(t, s, 1+random.IntN(len(s)+1))
	}
}

// BenchmarkRandomBytes is TestRandomBytes with any number of mutations:
//
//	go test ./proxy/internal/testing/e2e -run '^$' -bench RandomBytes -benchtime 10000000x
func BenchmarkRandomBytes(b *testing.B) {
	m := serveInMemory(b)
	seeds := fuzzSeeds()
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for b.Loop() {
		s := mutate(random, seeds)
		m.exchange(b, s, 1+random.IntN(len(s)+1))
	}
}

// mutate returns a random seed with some of its bytes removed, repeated or replaced, or with those of other seeds
// inserted.
func mutate(random *rand.Rand, seeds [][]byte) []byte {
	pieces := []string{"\r\n", "\n", "\r", "\r\n\r\n", " ", "\t", ":", "\x00", "\xff", "0", "-", "GET ", "HEAD ", "POST ", " HTTP/1.1", " HTTP/1.0", "Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n",
		"Expect: 100-continue\r\n", "Connection: close\r\n", "Connection: keep-alive\r\n", "0\r\n\r\n", "5\r\nhello\r\n", `"stream":true,`, "{", "}"}
	s := slices.Clone(seeds[random.IntN(len(seeds))])
	for range 1 + random.IntN(4) {
		from := random.IntN(len(s) + 1)
		to := from + random.IntN(min(len(s)-from, 40)+1)
		in := []byte(pieces[random.IntN(len(pieces))])
		switch random.IntN(5) {
		case 0:
			in = nil
		case 1:
			in = slices.Concat(s[from:to], s[from:to])
		case 2:
			in = slices.Clone(seeds[random.IntN(len(seeds))])
		case 3:
			in = append(in, s[from:to]...)
		}
		s = slices.Replace(s, from, to, in...)
	}
	return s
}

// FuzzServer sends any bytes to the gateway, which must respond with valid HTTP.
//
// covers: F113
func FuzzServer(f *testing.F) {
	m := serveInMemory(f)
	for _, s := range fuzzSeeds() {
		f.Add(s, uint16(len(s)))
	}
	f.Fuzz(func(t *testing.T, in []byte, maxRead uint16) {
		if len(in) < 256<<10 {
			m.exchange(t, in, int(maxRead))
		}
	})
}
