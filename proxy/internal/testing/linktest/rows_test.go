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

// These tests run the sluice binary on a host between a client's host and a provider's.

const key = "sk-linktest-0123456789"

var seed = flag.Uint64("seed", 0, "seed of the random decisions about packets; 0 for a random one")

// site is a network with a gateway and a provider.
type site struct {
	*linktest.Network
	*binarytest.Gateway
	t        *testing.T
	provider *loadtest.Provider
	lines    chan binarytest.Line // access log lines
}

// newSite creates a site, or returns nil if the machine does not support it. server is added to [server], and timeout
// to the provider's timeout. respond writes the provider's responses.
func newSite(t *testing.T, o linktest.Options, server, timeout string, respond func(*loadtest.Exchange) error) *site {
	t.Helper()
	if o.Seed = *seed; o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	n := network(t, o)
	if n == nil {
		return nil
	}
	t.Logf("seed: -seed=%d", o.Seed)
	ln, err := n.Upstream.Listen(n.UpstreamAddress + ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Network: n, t: t, provider: loadtest.Serve(ln, respond), lines: make(chan binarytest.Line, 1024)}
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

// chatRequest returns a chat completions request.
func chatRequest(prompt string, stream bool) *loadtest.Request {
	return &loadtest.Request{Key: key, Body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%t}`, prompt, stream)}
}

// open starts a stream and reads its first text.
func (s *site) open(c *loadtest.Conn) *loadtest.Stream {
	s.t.Helper()
	stream, err := c.Open(chatRequest("x", true))
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.Tail())
	}
	if text, err := stream.NextText(); err != nil || string(text) != "0" {
		s.t.Fatalf("first text: got %q, %v, want 0", text, err)
	}
	return stream
}

// awaitLine waits for the access log line of the request.
func (s *site) awaitLine() binarytest.Line {
	s.t.Helper()
	select {
	case l := <-s.lines:
		return l
	case <-time.After(2 * binarytest.EventTimeout):
		s.t.Fatalf("no access log line for the request:\n%s", s.Tail())
		return binarytest.Line{}
	}
}

// expectUpstreamClosed waits until the connection to the provider is closed.
func (s *site) expectUpstreamClosed() {
	s.t.Helper()
	if !binarytest.Await(func() bool { return s.provider.InFlight() == 0 }) {
		s.t.Error("the provider's connection is still open")
	}
}

// awaitUpstreamRequest waits until the provider has received the request.
func (s *site) awaitUpstreamRequest() {
	s.t.Helper()
	if !binarytest.Await(func() bool { return s.provider.InFlight() == 1 }) {
		s.t.Fatal("the provider received no request")
	}
}

// stallAfter writes the start of a response, and waits until the connection is closed.
func stallAfter(start string) func(*loadtest.Exchange) error {
	return func(e *loadtest.Exchange) error {
		if _, err := io.WriteString(e, start); err != nil {
			return err
		}
		_, _ = e.Read(make([]byte, 1))
		return io.EOF
	}
}

const (
	clientTimeout = 3 * time.Second // the gateway's write or idle timeout, when the client vanishes
	tolerance     = 6 * time.Second // how much longer it may take on a busy machine
)

// TestClientVanishes drops all packets on the client's link in each phase of a request. The request must end within the
// write timeout, and the upstream request must be cancelled.
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
		respond         func(*loadtest.Exchange) error
	}{
		{"before the response", "0s", false, stallAfter("")},
		{"in a stream with heartbeats", "500ms", true, stallAfter(loadtest.StreamHead + loadtest.Event("0"))},
		{"in a silent stream", "0s", true, stallAfter(loadtest.StreamHead + loadtest.Event("0"))},
		{"in an endless stream", "0s", true, endless},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, linktest.Options{}, fmt.Sprintf("heartbeat = %q\nwrite_timeout = %q", c.heartbeat, clientTimeout), `idle = "10m", first_byte = "10m"`, c.respond)
			if s == nil {
				return
			}
			conn := s.dial()
			if c.stream {
				s.open(conn)
			} else {
				if err := conn.Send(chatRequest("x", false)); err != nil {
					t.Fatal(err)
				}
				s.awaitUpstreamRequest()
			}
			s.ToClient.Set(linktest.Conditions{Down: true})
			began := time.Now()
			l := s.awaitLine()
			took := time.Since(began)
			t.Logf("request ended after %s", took)
			if l.Status != 499 || l.Code != "client_closed_request" || l.Complete {
				t.Errorf("want an incomplete request with client_closed_request: %s", l.Text)
			}
			if took > clientTimeout+tolerance {
				t.Errorf("the request ended after %s, with a write timeout of %s", took, clientTimeout)
			}
			s.expectUpstreamClosed()
			t.Logf("upstream connection closed after %s", time.Since(began))
		})
	}
}

// TestProviderLinkDown drops all packets on the provider's link in each phase. The request must end at the deadline of
// that phase, the client must get an error, and no connection may keep waiting for the provider.
//
// covers: F64
func TestProviderLinkDown(t *testing.T) {
	const timeout = `connect = "1s", first_byte = "1500ms", idle = "1500ms"`
	t.Run("in a stream", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, linktest.Options{}, "", timeout, stallAfter(loadtest.StreamHead+loadtest.Event("0")))
		if s == nil {
			return
		}
		stream := s.open(s.dial())
		s.ToUpstream.Set(linktest.Conditions{Down: true})
		if text, err := stream.NextText(); err == nil || !strings.Contains(err.Error(), `"upstream_timeout"`) {
			t.Errorf("the stream ends with %q, %v, want upstream_timeout", text, err)
		}
		if l := s.awaitLine(); l.Status != 200 || l.Code != "upstream_timeout" || l.Complete {
			t.Errorf("want an incomplete stream with upstream_timeout: %s", l.Text)
		}
		s.expectUpstreamUnused()
	})
	t.Run("before the response", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, linktest.Options{}, "", timeout, stallAfter(""))
		if s == nil {
			return
		}
		c := s.dial()
		if err := c.Send(chatRequest("x", false)); err != nil {
			t.Fatal(err)
		}
		s.awaitUpstreamRequest()
		s.ToUpstream.Set(linktest.Conditions{Down: true})
		s.expectError(c, 504, "upstream_timeout")
	})
	t.Run("before the connection", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, linktest.Options{}, "", timeout, stallAfter(""))
		if s == nil {
			return
		}
		s.ToUpstream.Set(linktest.Conditions{Down: true})
		c := s.dial()
		if err := c.Send(chatRequest("x", false)); err != nil {
			t.Fatal(err)
		}
		s.expectError(c, 504, "upstream_timeout")
	})
}

// expectError reads an error response, and waits until the request is over.
func (s *site) expectError(c *loadtest.Conn, status int, code string) {
	s.t.Helper()
	resp, err := c.ReadHead()
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(body), `"code":"`+code+`"`) {
		s.t.Errorf("got %d %s, %v, want %d %s", resp.StatusCode, body, err, status, code)
	}
	s.expectUpstreamUnused()
}

// expectUpstreamUnused waits until no request is in flight and no connection to the provider is in use.
func (s *site) expectUpstreamUnused() {
	s.t.Helper()
	if !binarytest.Await(func() bool {
		m := s.Metrics(s.t)
		return m.Sum("sluice_upstream_connections", "state", "used") == 0 && m.Sum("sluice_requests_in_flight") == 0
	}) {
		s.t.Error("a request is in flight, or a connection to the provider is still in use")
	}
}

// The size of a story.
const (
	storyParts = 40
	storySize  = 200 // approximate size of a part in bytes
)

// respondWithStory responds with a text that is derived from the prompt.
func respondWithStory(e *loadtest.Exchange) error {
	prompt := parsePrompt(string(e.Body))
	if !strings.Contains(string(e.Body), `"stream":true`) {
		_, err := io.WriteString(e, loadtest.Response(story(prompt)))
		return err
	}
	if _, err := io.WriteString(e, loadtest.StreamHead); err != nil {
		return err
	}
	for n := range storyParts {
		if _, err := io.WriteString(e, loadtest.Event(storyPart(prompt, n))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(e, loadtest.StreamEnd)
	return err
}

func parsePrompt(body string) string {
	_, rest, _ := strings.Cut(body, `"content":"`)
	prompt, _, _ := strings.Cut(rest, `"`)
	return prompt
}

func storyPart(prompt string, n int) string {
	return fmt.Sprintf("%.20s, part %d: %s. ", prompt, n, strings.Repeat(string(rune('a'+n%26)), storySize))
}

func story(prompt string) string {
	var b strings.Builder
	for n := range storyParts {
		b.WriteString(storyPart(prompt, n))
	}
	return b.String()
}

// checkStory requests a story and checks the response.
func (s *site) checkStory(prompt string, stream bool) error {
	conn, err := s.Client.Dial(context.Background(), "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := loadtest.NewConn(conn)
	if !stream {
		status, body, err := c.Do(chatRequest(prompt, false))
		if err != nil || status != http.StatusOK || !strings.Contains(string(body), `"content":"`+story(prompt)+`"`) {
			return fmt.Errorf("status %d, %.300q, want the story: %w", status, body, err)
		}
		return nil
	}
	answer, err := c.Open(chatRequest(prompt, true))
	if err != nil {
		return err
	}
	for n := range storyParts {
		if text, err := answer.NextText(); err != nil || string(text) != storyPart(prompt, n) {
			return fmt.Errorf("part %d is %q, want %q: %w", n, text, storyPart(prompt, n), err)
		}
	}
	if text, err := answer.NextText(); err != io.EOF {
		return fmt.Errorf("after the last part: %q, %w", text, err)
	}
	return nil
}

// checkStories has n clients request different stories concurrently, every other one as a stream.
func (s *site) checkStories(n int, prompt string) {
	s.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := s.checkStory(fmt.Sprintf("%d %s", i, prompt), i%2 == 0); err != nil {
				s.t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	passed, lost := s.ToClient.Counts()
	passedUpstream, lostUpstream := s.ToUpstream.Counts()
	s.t.Logf("client's link: %d packets delivered, %d lost; provider's: %d delivered, %d lost", passed, lost, passedUpstream, lostUpstream)
	if s.t.Failed() {
		s.t.Log(s.Tail())
	}
}

// TestLossAndJitter uses links with 2 % loss and about 100 ms of delay, with all timeouts at their defaults.
//
// covers: F65
func TestLossAndJitter(t *testing.T) {
	s := newSite(t, linktest.Options{}, "", "", respondWithStory)
	if s == nil {
		return
	}
	bad := linktest.Conditions{Loss: 0.02, Delay: 100 * time.Millisecond, Jitter: 50 * time.Millisecond}
	s.ToClient.Set(bad)
	s.ToUpstream.Set(bad)
	s.checkStories(20, "on a bad line")
}

// TestLowBandwidth has a client at 64 kbit/s request an endless response. Backpressure must reach the provider, memory
// must stay constant, and the received part must be correct.
//
// covers: F66
func TestLowBandwidth(t *testing.T) {
	var written atomic.Int64
	s := newSite(t, linktest.Options{}, "", "", func(e *loadtest.Exchange) error {
		if _, err := io.WriteString(e, loadtest.StreamHead); err != nil {
			return err
		}
		for n := 0; ; n++ {
			m, err := io.WriteString(e, loadtest.Event(storyPart("thin", n)))
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
	stream, err := s.dial().Open(chatRequest("x", true))
	if err != nil {
		t.Fatal(err)
	}
	// Kernel buffers may grow by megabytes at any time, so look for one window in which they do not. Without
	// backpressure, the provider writes more in every window.
	const parts, windows = 100, 6
	for window := range windows {
		writtenBefore := written.Load()
		before, err := binarytest.ReadUsage(s.PID)
		if err != nil {
			t.Fatal(err)
		}
		for n := window * parts; n < (window+1)*parts; n++ {
			if text, err := stream.NextText(); err != nil || string(text) != storyPart("thin", n) {
				t.Fatalf("part %d is %q, %v, want %q", n, text, err, storyPart("thin", n))
			}
		}
		after, err := binarytest.ReadUsage(s.PID)
		if err != nil {
			t.Fatal(err)
		}
		wrote, growth := written.Load()-writtenBefore, after.RSS-before.RSS
		t.Logf("while the client read %d KB, the provider wrote %d KB, and the gateway's memory grew by %d KB", parts*storySize>>10, wrote>>10, growth>>10)
		if window > 0 && growth > 8<<20 {
			t.Fatalf("the gateway's memory grew by %d KB, want at most 8 MB", growth>>10)
		}
		if window > 0 && wrote < 256<<10 {
			return
		}
	}
	t.Errorf("no backpressure: the provider wrote %d KB", written.Load()>>10)
}

// TestSmallMTU uses links with an MTU of 576 bytes. If the hosts know it, requests must succeed. If not, they must
// succeed or fail in time.
//
// covers: F67
func TestSmallMTU(t *testing.T) {
	const small = 576
	long := strings.Repeat("A long story. ", 100<<10/14)
	t.Run("known to the hosts", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, linktest.Options{MTU: small}, "", "", respondWithStory)
		if s == nil {
			return
		}
		s.checkStories(10, long)
	})
	t.Run("to the provider, without an ICMP message", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, linktest.Options{}, "", `first_byte = "2s", write = "2s"`, respondWithStory)
		if s == nil {
			return
		}
		s.ToUpstream.Set(linktest.Conditions{MTU: small})
		c := s.dial()
		status, body, err := c.Do(chatRequest(long, false))
		succeeded := status == 200 && strings.Contains(string(body), story(long))
		timedOut := status == 504 && strings.Contains(string(body), `"upstream_timeout"`)
		if err != nil || !succeeded && !timedOut {
			t.Errorf("got %d %s %v, want the story or upstream_timeout", status, body, err)
		}
		t.Logf("status %d", status)
		s.expectUpstreamUnused()
	})
	t.Run("to the client, without an ICMP message", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, linktest.Options{}, fmt.Sprintf("idle_timeout = %q", clientTimeout), "", respondWithStory)
		if s == nil {
			return
		}
		s.ToClient.Set(linktest.Conditions{MTU: small})
		if err := s.dial().Send(chatRequest("x", false)); err != nil {
			t.Fatal(err)
		}
		s.awaitLine() // the gateway has written the response
		// For the gateway, the connection is idle now.
		began := time.Now()
		if !binarytest.Await(func() bool { return s.Metrics(t).Sum("sluice_client_connections") == 0 }) {
			t.Error("the client's connection is still open")
		}
		took := time.Since(began)
		t.Logf("client's connection closed after %s", took)
		if took > clientTimeout+tolerance {
			t.Errorf("the client's connection was closed after %s, with an idle timeout of %s", took, clientTimeout)
		}
	})
}

// TestReorderingAndDuplication uses links that reorder packets and duplicate some.
//
// covers: F68
func TestReorderingAndDuplication(t *testing.T) {
	s := newSite(t, linktest.Options{}, "", "", respondWithStory)
	if s == nil {
		return
	}
	bad := linktest.Conditions{Duplicate: 0.05, Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond}
	s.ToClient.Set(bad)
	s.ToUpstream.Set(bad)
	s.checkStories(50, "in a mess")
}
