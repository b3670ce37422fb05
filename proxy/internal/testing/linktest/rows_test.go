//go:build linux && network

package linktest_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/linktest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// The gateway as it ships, on a host of its own between a client's and a provider's.

const key = "sk-linktest-0123456789"

var seed = flag.Uint64("seed", 0, "of what happens to packets; 0 for a new one")

// site is a gateway in a network.
type site struct {
	*linktest.Network
	*binarytest.Gateway
	t        *testing.T
	provider *loadtest.Provider
	lines    chan binarytest.Line // of requests
}

// build makes a site; nil where the machine allows none. server goes into [server], timeout into the provider's.
func build(t *testing.T, o linktest.Options, server, timeout string, answer func(*loadtest.Exchange) error) *site {
	t.Helper()
	if o.Seed = *seed; o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	n := network(t, o)
	if n == nil {
		return nil
	}
	t.Logf("the packets' fate is that of -seed=%d", o.Seed)
	ln, err := n.Upstream.Listen(n.UpstreamAddress + ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Network: n, t: t, provider: loadtest.Serve(ln, answer), lines: make(chan binarytest.Line, 1024)}
	t.Cleanup(s.provider.Close)
	s.Gateway = binarytest.Start(t, binarytest.Options{
		Config: fmt.Sprintf(`[server]
%s
[[keys]]
name   = "link"
secret = %q
[providers.openai]
plugin   = "openai"
base_url = "http://%s"
timeout  = { %s }
[[models]]
id      = "m"
targets = [{ provider = "openai", model = "m" }]
`, server, key, ln.Addr(), timeout),
		Listen: n.GatewayAddress + ":0",
		Start:  n.Gateway.Do,
		Dial:   n.Gateway.Dial,
		Line: func(l *binarytest.Line) {
			if l.Message == "request" {
				s.lines <- *l
			}
		},
	})
	return s
}

// dial connects from the client to the gateway.
func (s *site) dial() *loadtest.Conn {
	s.t.Helper()
	c, err := s.Client.Dial(s.t.Context(), "tcp", s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return loadtest.NewConn(c)
}

func ask(prompt string, stream bool) *loadtest.Request {
	return &loadtest.Request{Key: key, Body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%t}`, prompt, stream)}
}

// open begins a stream and reads its first text.
func (s *site) open(c *loadtest.Conn) *loadtest.Stream {
	s.t.Helper()
	stream, err := c.Open(ask("x", true))
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.Tail())
	}
	if text, err := stream.Text(); err != nil || string(text) != "0" {
		s.t.Fatalf("%q, %v", text, err)
	}
	return stream
}

// line waits for the line of the request in the log.
func (s *site) line() binarytest.Line {
	s.t.Helper()
	select {
	case l := <-s.lines:
		return l
	case <-time.After(2 * binarytest.EventTimeout):
		s.t.Fatalf("the request is not over:\n%s", s.Tail())
		return binarytest.Line{}
	}
}

// released waits until the provider's connection has been closed.
func (s *site) released() {
	s.t.Helper()
	if !binarytest.Await(func() bool { return s.provider.Answering() == 0 }) {
		s.t.Error("the provider still answers")
	}
}

// untilGone answers with a beginning, and waits until the connection is closed.
func untilGone(beginning string) func(*loadtest.Exchange) error {
	return func(e *loadtest.Exchange) error {
		if _, err := io.WriteString(e, beginning); err != nil {
			return err
		}
		_, _ = e.Read(make([]byte, 1))
		return io.EOF
	}
}

// vanishes is the write timeout of a gateway whose client vanishes, and late how much longer its end may take on a busy
// machine.
const (
	vanishes = 3 * time.Second
	late     = 6 * time.Second
)

// TestClientVanishes drops everything on the client's link in each phase of a request. No phase lasts longer than the
// write timeout, and the upstream request is cancelled.
//
// covers: F22
func TestClientVanishes(t *testing.T) {
	endless := func(e *loadtest.Exchange) error {
		if _, err := io.WriteString(e, loadtest.StreamHead+loadtest.Event("0")); err != nil {
			return err
		}
		for {
			if _, err := io.WriteString(e, loadtest.Event(strings.Repeat("x", 8<<10))); err != nil {
				return err
			}
		}
	}
	for _, c := range []struct {
		name, heartbeat string
		stream          bool
		answer          func(*loadtest.Exchange) error
	}{
		{"while the provider thinks", "0s", false, untilGone("")},
		{"in a stream that has heartbeats", "500ms", true, untilGone(loadtest.StreamHead + loadtest.Event("0"))},
		{"in a stream that is silent", "0s", true, untilGone(loadtest.StreamHead + loadtest.Event("0"))},
		{"in a stream without end", "0s", true, endless},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := build(t, linktest.Options{}, fmt.Sprintf("heartbeat = %q\nwrite_timeout = %q", c.heartbeat, vanishes), `idle = "10m", first_byte = "10m"`, c.answer)
			if s == nil {
				return
			}
			conn := s.dial()
			if c.stream {
				s.open(conn)
			} else {
				if err := conn.Send(ask("x", false)); err != nil {
					t.Fatal(err)
				}
				if !binarytest.Await(func() bool { return s.provider.Answering() == 1 }) {
					t.Fatal("the request does not come to the provider")
				}
			}
			s.ToClient.Set(linktest.Conditions{Down: true})
			began := time.Now()
			l := s.line()
			took := time.Since(began)
			t.Logf("noticed after %s", took)
			if l.Status != 499 || l.Code != "client_closed_request" || l.Complete {
				t.Errorf("%s", l.Text)
			}
			if took > vanishes+late {
				t.Errorf("it took %s, with a write timeout of %s", took, vanishes)
			}
			s.released()
			t.Logf("the provider was left after %s", time.Since(began))
		})
	}
}

// TestProviderLinkDown drops everything on the provider's link in each phase: the request ends at the deadline of that
// phase, the client gets an error, and nothing keeps waiting for the provider.
//
// covers: F64
func TestProviderLinkDown(t *testing.T) {
	const timeout = `connect = "1s", first_byte = "1500ms", idle = "1500ms"`
	t.Run("in a stream", func(t *testing.T) {
		t.Parallel()
		s := build(t, linktest.Options{}, "", timeout, untilGone(loadtest.StreamHead+loadtest.Event("0")))
		if s == nil {
			return
		}
		stream := s.open(s.dial())
		s.ToUpstream.Set(linktest.Conditions{Down: true})
		if text, err := stream.Text(); err == nil || !strings.Contains(err.Error(), `"upstream_timeout"`) {
			t.Errorf("the stream ends with %q, %v", text, err)
		}
		if l := s.line(); l.Status != 200 || l.Code != "upstream_timeout" || l.Complete {
			t.Error(l.Text)
		}
		s.noUpstream()
	})
	t.Run("while the provider thinks", func(t *testing.T) {
		t.Parallel()
		s := build(t, linktest.Options{}, "", timeout, untilGone(""))
		if s == nil {
			return
		}
		c := s.dial()
		if err := c.Send(ask("x", false)); err != nil {
			t.Fatal(err)
		}
		if !binarytest.Await(func() bool { return s.provider.Answering() == 1 }) {
			t.Fatal("the request does not come to the provider")
		}
		s.ToUpstream.Set(linktest.Conditions{Down: true})
		s.fails(c, 504, "upstream_timeout")
	})
	t.Run("before there is a connection", func(t *testing.T) {
		t.Parallel()
		s := build(t, linktest.Options{}, "", timeout, untilGone(""))
		if s == nil {
			return
		}
		s.ToUpstream.Set(linktest.Conditions{Down: true})
		c := s.dial()
		if err := c.Send(ask("x", false)); err != nil {
			t.Fatal(err)
		}
		s.fails(c, 504, "upstream_timeout")
	})
}

// fails reads an error.
func (s *site) fails(c *loadtest.Conn, status int, code string) {
	s.t.Helper()
	resp, err := c.Head()
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(body), `"code":"`+code+`"`) {
		s.t.Errorf("%d %s, %v", resp.StatusCode, body, err)
	}
	s.noUpstream()
}

// noUpstream waits until no connection to the provider is in use.
func (s *site) noUpstream() {
	s.t.Helper()
	if !binarytest.Await(func() bool {
		m := s.Metrics(s.t)
		return m.Sum("sluice_upstream_connections", "state", "used") == 0 && m.Sum("sluice_requests_in_flight") == 0
	}) {
		s.t.Error("a connection to the provider is still in use")
	}
}

// storyParts of storySize bytes are what the storyteller tells.
const (
	storyParts = 40
	storySize  = 200
)

// storyteller answers a request with a text of its own, which follows from the prompt.
func storyteller(e *loadtest.Exchange) error {
	prompt := promptOf(string(e.Body))
	if !strings.Contains(string(e.Body), `"stream":true`) {
		_, err := io.WriteString(e, loadtest.Whole(story(prompt)))
		return err
	}
	if _, err := io.WriteString(e, loadtest.StreamHead); err != nil {
		return err
	}
	for n := range storyParts {
		if _, err := io.WriteString(e, loadtest.Event(part(prompt, n))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(e, loadtest.StreamEnd)
	return err
}

func promptOf(body string) string {
	_, rest, _ := strings.Cut(body, `"content":"`)
	prompt, _, _ := strings.Cut(rest, `"`)
	return prompt
}

func part(prompt string, n int) string {
	return fmt.Sprintf("%.20s, part %d: %s. ", prompt, n, strings.Repeat(string(rune('a'+n%26)), storySize))
}

func story(prompt string) string {
	var b strings.Builder
	for n := range storyParts {
		b.WriteString(part(prompt, n))
	}
	return b.String()
}

// listen asks for a story and compares it.
func (s *site) listen(prompt string, stream bool) error {
	conn, err := s.Client.Dial(context.Background(), "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := loadtest.NewConn(conn)
	if !stream {
		status, body, err := c.Whole(ask(prompt, false))
		if err != nil || status != http.StatusOK || !strings.Contains(string(body), `"content":"`+story(prompt)+`"`) {
			return fmt.Errorf("status %d, %.300q: %w", status, body, err)
		}
		return nil
	}
	answer, err := c.Open(ask(prompt, true))
	if err != nil {
		return err
	}
	for n := range storyParts {
		if text, err := answer.Text(); err != nil || string(text) != part(prompt, n) {
			return fmt.Errorf("part %d is %q: %w", n, text, err)
		}
	}
	if text, err := answer.Text(); err != io.EOF {
		return fmt.Errorf("behind the last part: %q, %w", text, err)
	}
	return nil
}

// listeners has many clients listen at once; none may be told anything else.
func (s *site) listeners(n int, prompt string) {
	s.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := s.listen(fmt.Sprintf("%d %s", i, prompt), i%2 == 0); err != nil {
				s.t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	passed, lost := s.ToClient.Counts()
	beyond, lostBeyond := s.ToUpstream.Counts()
	s.t.Logf("client's link: %d packets, %d lost; provider's: %d, %d lost", passed, lost, beyond, lostBeyond)
	if s.t.Failed() {
		s.t.Log(s.Tail())
	}
}

// TestLossAndJitter uses links with 2 % loss and about 100 ms of delay, with all timeouts at their defaults.
//
// covers: F65
func TestLossAndJitter(t *testing.T) {
	s := build(t, linktest.Options{}, "", "", storyteller)
	if s == nil {
		return
	}
	bad := linktest.Conditions{Loss: 0.02, Delay: 100 * time.Millisecond, Jitter: 50 * time.Millisecond}
	s.ToClient.Set(bad)
	s.ToUpstream.Set(bad)
	s.listeners(20, "on a bad line")
}

// TestLowBandwidth has a client at 64 kbit/s request an endless response: backpressure reaches the provider, memory
// stays constant, and what arrives is correct.
//
// covers: F66
func TestLowBandwidth(t *testing.T) {
	var written atomic.Int64
	s := build(t, linktest.Options{}, "", "", func(e *loadtest.Exchange) error {
		if _, err := io.WriteString(e, loadtest.StreamHead); err != nil {
			return err
		}
		for n := 0; ; n++ {
			m, err := io.WriteString(e, loadtest.Event(part("thin", n)))
			written.Add(int64(m))
			if err != nil {
				return err
			}
		}
	})
	if s == nil {
		return
	}
	s.ToClient.Set(linktest.Conditions{Rate: 64 << 10 / 8, Queue: 16 << 10, Delay: 10 * time.Millisecond})
	stream, err := s.dial().Open(ask("x", true))
	if err != nil {
		t.Fatal(err)
	}
	// The kernel's buffers along the way may grow by megabytes at any time, so a window is sought in which they do not: a
	// gateway that reads on has none.
	const parts, windows = 100, 6
	for window := range windows {
		held := written.Load()
		before, err := binarytest.UsageOf(s.PID)
		if err != nil {
			t.Fatal(err)
		}
		for n := window * parts; n < (window+1)*parts; n++ {
			if text, err := stream.Text(); err != nil || string(text) != part("thin", n) {
				t.Fatalf("part %d is %q: %v", n, text, err)
			}
		}
		after, err := binarytest.UsageOf(s.PID)
		if err != nil {
			t.Fatal(err)
		}
		more, grown := written.Load()-held, after.RSS-before.RSS
		t.Logf("while the client read %d KB, the provider could write %d KB, and the gateway's memory grew by %d KB", parts*storySize>>10, more>>10, grown>>10)
		if window > 0 && grown > 8<<20 {
			t.Fatalf("the memory grows by %d KB", grown>>10)
		}
		if window > 0 && more < 256<<10 {
			return
		}
	}
	t.Errorf("the provider is not held back: it could write %d KB", written.Load()>>10)
}

// TestSmallMTU uses links that carry 576 bytes. If hosts learn that, everything works; if not, requests succeed or end
// in time.
//
// covers: F67
func TestSmallMTU(t *testing.T) {
	const small = 576
	long := strings.Repeat("A long story. ", 100<<10/14)
	t.Run("that hosts know of", func(t *testing.T) {
		t.Parallel()
		s := build(t, linktest.Options{MTU: small}, "", "", storyteller)
		if s == nil {
			return
		}
		s.listeners(10, long)
	})
	t.Run("to the provider, without an ICMP message", func(t *testing.T) {
		t.Parallel()
		s := build(t, linktest.Options{}, "", `first_byte = "2s", write = "2s"`, storyteller)
		if s == nil {
			return
		}
		s.ToUpstream.Set(linktest.Conditions{MTU: small})
		c := s.dial()
		status, body, err := c.Whole(ask(long, false))
		works := status == 200 && strings.Contains(string(body), story(long))
		ends := status == 504 && strings.Contains(string(body), `"upstream_timeout"`)
		if err != nil || !works && !ends {
			t.Errorf("%d %s %v", status, body, err)
		}
		t.Logf("status %d", status)
		s.noUpstream()
	})
	t.Run("to the client, without an ICMP message", func(t *testing.T) {
		t.Parallel()
		s := build(t, linktest.Options{}, fmt.Sprintf("idle_timeout = %q", vanishes), "", storyteller)
		if s == nil {
			return
		}
		s.ToClient.Set(linktest.Conditions{MTU: small})
		if err := s.dial().Send(ask("x", false)); err != nil {
			t.Fatal(err)
		}
		s.line() // the gateway has written all of it
		// It is one between two requests now.
		began := time.Now()
		if !binarytest.Await(func() bool { return s.Metrics(t).Sum("sluice_client_connections") == 0 }) {
			t.Error("the connection of the client is left")
		}
		took := time.Since(began)
		t.Logf("after %s the gateway has given the connection up", took)
		if took > vanishes+late {
			t.Errorf("a connection may be idle for %s", vanishes)
		}
	})
}

// TestReorderingAndDuplication uses links that reorder packets and repeat some.
//
// covers: F68
func TestReorderingAndDuplication(t *testing.T) {
	s := build(t, linktest.Options{}, "", "", storyteller)
	if s == nil {
		return
	}
	bad := linktest.Conditions{Duplicate: 0.05, Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond}
	s.ToClient.Set(bad)
	s.ToUpstream.Set(bad)
	s.listeners(50, "in a mess")
}
