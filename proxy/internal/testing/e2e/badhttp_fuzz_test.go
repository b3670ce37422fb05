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

// memory is a listener in memory that a gateway serves.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
}

// newMemory has a gateway serve it until the test ends. Its providers are not there, but for the demo.
func newMemory(tb testing.TB) *memory {
	tb.Helper()
	g := proxytest.Start(tb, unlimited(configuration("", "")))
	m := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
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
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error {
	close(m.closed)
	return nil
}

// Addr implements net.Listener.
func (m *memory) Addr() net.Addr { return nowhere{} }

type nowhere struct{}

func (nowhere) Network() string { return "memory" }
func (nowhere) String() string  { return "memory" }

// sender is the connection of a client that has sent all that it will, and has closed its sending side.
type sender struct {
	in   []byte
	most int // bytes of a read
	out  bytes.Buffer
	once sync.Once
	done chan struct{} // closed when the gateway has closed the connection
}

func (c *sender) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.most)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *sender) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c *sender) Close() error {
	c.once.Do(func() { close(c.done) })
	return nil
}

func (c *sender) LocalAddr() net.Addr              { return nowhere{} }
func (c *sender) RemoteAddr() net.Addr             { return nowhere{} }
func (c *sender) SetDeadline(time.Time) error      { return nil }
func (c *sender) SetReadDeadline(time.Time) error  { return nil }
func (c *sender) SetWriteDeadline(time.Time) error { return nil }

// answer sends in to the gateway, at most that many bytes at a time, and returns all that comes back.
func (m *memory) answer(t testing.TB, in []byte, most int) []byte {
	t.Helper()
	c := &sender{in: in, most: max(most, 1), done: make(chan struct{})}
	m.conns <- c
	timer := time.NewTimer(proxytest.EventTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		t.Fatalf("the gateway hangs at %.2000q", in)
	}
	if err := readable(c.out.Bytes(), bytes.Contains(in, []byte("HEAD "))); err != nil {
		t.Fatalf("%.2000q is answered %.2000q: %v", in, c.out.Bytes(), err)
	}
	return c.out.Bytes()
}

// readable checks that out is answers in HTTP, whole, and that those that are errors look like it. Where heads is set an
// answer may be one to HEAD, which has no body.
func readable(out []byte, heads bool) error {
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
			err = proper(resp, body, method)
		}
		if err == nil {
			behind, _ := io.ReadAll(r)
			if resp.Close && len(behind) > 0 {
				err = fmt.Errorf("%d bytes behind the last answer", len(behind))
			} else {
				err = readable(behind, heads)
			}
		}
		if err == nil {
			return nil
		}
		failed = err
	}
	return failed
}

// proper checks one answer.
func proper(resp *http.Response, body []byte, method string) error {
	switch {
	case resp.StatusCode == http.StatusContinue:
		return nil
	case resp.Header.Get("X-Request-Id") == "":
		return fmt.Errorf("no x-request-id")
	case resp.StatusCode >= 400 && method != "HEAD":
		var e map[string]map[string]*string
		if err := json.Unmarshal(body, &e); err != nil || len(e["error"]) != 4 || e["error"]["message"] == nil || e["error"]["type"] == nil {
			return fmt.Errorf("the body of an error is %s", body)
		}
	}
	if resp.StatusCode == http.StatusInternalServerError || resp.StatusCode < 400 && resp.StatusCode != http.StatusOK {
		// The former is what a panic is answered.
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// everyVector is all that the vectors send, without what is long for the sake of being long, and what is right.
func everyVector() [][]byte {
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
	m := newMemory(t)
	seeds := everyVector()
	for _, s := range seeds {
		m.answer(t, s, len(s))
		m.answer(t, s, 1)
	}
	random := rand.New(rand.NewPCG(113, 0))
	for range scale(20_000, 2_000) {
		s := changed(random, seeds)
		m.answer(t, s, 1+random.IntN(len(s)+1))
	}
}

// BenchmarkRandomBytes does the same for as long as wanted:
//
//	go test ./proxy/internal/testing/e2e -run '^$' -bench RandomBytes -benchtime 10000000x
func BenchmarkRandomBytes(b *testing.B) {
	m := newMemory(b)
	seeds := everyVector()
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for b.Loop() {
		s := changed(random, seeds)
		m.answer(b, s, 1+random.IntN(len(s)+1))
	}
}

// changed is a vector with parts taken out, repeated, put elsewhere, replaced and mixed with other vectors.
func changed(random *rand.Rand, seeds [][]byte) []byte {
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

// FuzzServer sends bytes to the whole gateway, which must respond with HTTP.
//
// covers: F113
func FuzzServer(f *testing.F) {
	m := newMemory(f)
	for _, s := range everyVector() {
		f.Add(s, uint16(len(s)))
	}
	f.Fuzz(func(t *testing.T, in []byte, most uint16) {
		if len(in) < 256<<10 {
			m.answer(t, in, int(most))
		}
	})
}
