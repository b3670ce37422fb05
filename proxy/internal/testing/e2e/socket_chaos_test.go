package e2e_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// rawSocket is a connection that has been upgraded by hand, so that a test controls each byte.
type rawSocket struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func openRawSocket(t *testing.T, g *proxytest.Gateway) *rawSocket {
	t.Helper()
	c, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		t.Fatal(err)
	}
	s := &rawSocket{t, c, bufio.NewReader(c)}
	s.write("GET /v1/responses HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			return s
		}
	}
}

func (s *rawSocket) write(p string) {
	s.t.Helper()
	if _, err := io.WriteString(s, p); err != nil {
		s.t.Fatal(err)
	}
}

// frame reads a frame of the gateway.
func (s *rawSocket) frame() (first byte, payload []byte) {
	s.t.Helper()
	var head [10]byte
	read := func(p []byte) {
		s.t.Helper()
		if _, err := io.ReadFull(s.r, p); err != nil {
			s.t.Fatal(err)
		}
	}
	read(head[:2])
	n := uint64(head[1])
	switch n {
	case 126:
		read(head[2:4])
		n = uint64(binary.BigEndian.Uint16(head[2:4]))
	case 127:
		read(head[2:10])
		n = binary.BigEndian.Uint64(head[2:10])
	}
	payload = make([]byte, n)
	read(payload)
	return head[0], payload
}

// awaitEvent reads frames until a text contains part.
func (s *rawSocket) awaitEvent(part string) {
	s.t.Helper()
	for {
		first, payload := s.frame()
		switch {
		case first == 0x81 && strings.Contains(string(payload), part):
			return
		case first == 0x88:
			s.t.Fatalf("closed with %q", payload)
		}
	}
}

// clientFrame returns a frame with an empty mask. first is its first byte.
func clientFrame(first byte, payload string) string {
	switch n := len(payload); {
	case n < 126:
		return string([]byte{first, 0x80 | byte(n), 0, 0, 0, 0}) + payload
	case n < 1<<16:
		return string(append(binary.BigEndian.AppendUint16([]byte{first, 0x80 | 126}, uint16(n)), 0, 0, 0, 0)) + payload
	}
	return string(append(binary.BigEndian.AppendUint64([]byte{first, 0x80 | 127}, uint64(len(payload))), 0, 0, 0, 0)) + payload
}

// TestSocketBytes sends a message in fragments and writes of one byte, with pings in between.
func TestSocketBytes(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	s := openRawSocket(t, g)
	message := `{"type":"response.create","model":"m","input":"κόσμε"}`
	sent := ""
	for i := range len(message) {
		first := byte(0)
		if i == 0 {
			first = 1
		}
		sent += clientFrame(first, message[i:i+1])
		if i%10 == 0 {
			sent += clientFrame(0x89, "p")
		}
	}
	sent += clientFrame(0x80, "")
	for i := range len(sent) {
		s.write(sent[i : i+1])
	}
	s.awaitEvent("response.completed")
	if body := string(provider.Requests()[0].Body); !strings.Contains(body, "κόσμε") {
		t.Errorf("the provider gets %s", body)
	}
	s.write(clientFrame(0x81, message))
	s.awaitEvent("response.completed")
}

// TestSocketLargeFrame sends frames of 64 MiB: beyond the limit, where the header alone is rejected, and within it.
func TestSocketLargeFrame(t *testing.T) {
	const size = 64 << 20
	config := anthropicWire.gatewayConfig("http://127.0.0.1:1")
	s := openRawSocket(t, proxytest.Start(t, config))
	s.write(clientFrame(0x81, strings.Repeat("x", size))[:14])
	if first, payload := s.frame(); first != 0x88 || binary.BigEndian.Uint16(payload) != 1009 {
		t.Errorf("%x %q", first, payload)
	}
	if testing.Short() {
		t.Skip("sends 64 MiB")
	}
	// A process without the race detector, under which parsing it takes long.
	g := binarytest.Start(t, binarytest.Options{Config: strings.Replace(config, `max_body  = "1MiB"`, "max_body = \"65MiB\"\nmax_body_memory = \"1GiB\"\nread_timeout = \"1h\"", 1)})
	s = openRawSocket(t, &proxytest.Gateway{Addr: g.Addr})
	if err := s.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	message := `{"type":"response.create","model":"nothing","input":"`
	s.write(clientFrame(0x81, message+strings.Repeat("x", size-len(message)-2)+`"}`))
	s.awaitEvent("model_not_found")
	s.write(clientFrame(0x81, `{"type":"response.create","model":"another","input":"x"}`))
	s.awaitEvent("another")
}

// TestSocketCut cuts connections at each byte of a message, and checks that no request begins.
func TestSocketCut(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	frame := clientFrame(0x81, `{"type":"response.create","model":"m","input":"x"}`)
	for cut := 0; cut < len(frame); cut += scale(1, 7) {
		s := openRawSocket(t, g)
		s.write(frame[:cut])
		_ = s.Close()
	}
	s := openRawSocket(t, g)
	s.write(frame)
	s.awaitEvent("response.completed")
	if n := len(provider.Requests()); n != 1 {
		t.Errorf("%d requests to the provider, want 1", n)
	}
}

// TestSocketStalls checks that a message that does not arrive in time, and a client that does not read, end the socket.
func TestSocketStalls(t *testing.T) {
	t.Run("within a message", func(t *testing.T) {
		t.Parallel()
		config := strings.Replace(anthropicWire.gatewayConfig("http://127.0.0.1:1"), "[server]\n", "[server]\nread_timeout = \"100ms\"\n", 1)
		s := openRawSocket(t, proxytest.Start(t, config))
		s.write(clientFrame(0x81, strings.Repeat("x", 100))[:50])
		if first, payload := s.frame(); first != 0x88 || binary.BigEndian.Uint16(payload) != 1008 {
			t.Errorf("%x %q", first, payload)
		}
	})
	t.Run("slow reader", func(t *testing.T) {
		t.Parallel()
		provider := answeringProvider(t, upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.begin), upstreamtest.Loop(upstreamtest.Chunk(strings.Repeat(anthropicWire.says(strings.Repeat("on and on ", 500)), 10))))
		config := strings.Replace(anthropicWire.gatewayConfig(provider.URL()), "[server]\n", "[server]\nwrite_timeout = \"300ms\"\n", 1)
		g := proxytest.Start(t, config)
		s := openRawSocket(t, g)
		s.write(clientFrame(0x81, `{"type":"response.create","model":"m","input":"x"}`))
		if line := g.Log.Await(t, "path", "/v1/responses", "status", "499"); line["complete"] != "false" {
			t.Errorf("logged as %v", line)
		}
		<-provider.Ended()
	})
}

// TestSocketMemory checks that an idle socket takes at most the memory of a silent stream.
func TestSocketMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of connections")
	}
	const n = 400
	release := make(chan struct{})
	defer close(release)
	provider := answeringProvider(t, upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.opening("slow")), upstreamtest.Wait(release))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	openRawSocket(t, g)
	start := used()
	for range n {
		openRawSocket(t, g)
	}
	sockets := (used() - start) / n
	start = used()
	for range n {
		c := dial(t, g)
		c.post("slow", fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":10,"messages":[{"role":"user","content":%q}]}`, "x"))
		c.readUntil("slow\"")
	}
	streams := (used() - start) / n
	t.Logf("%d bytes for a socket, %d for a stream, both with their client", sockets, streams)
	if sockets > streams {
		t.Errorf("an idle socket takes %d bytes, and a stream %d", sockets, streams)
	}
}

// TestSocketsOfTwoKeys has sockets of two keys generate at the same time: each gets the responses to its own messages, and
// no byte of another's.
func TestSocketsOfTwoKeys(t *testing.T) {
	marker := regexp.MustCompile(`marker-\d+-\d+-`)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		all := marker.FindAll(body, -1)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, anthropicWire.begin)
		for range 20 {
			_, _ = io.WriteString(w, anthropicWire.says(string(all[len(all)-1])))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, anthropicWire.finish+anthropicWire.done)
	}))
	t.Cleanup(provider.Close)
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL)+"[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\nmodels = [\"*\"]\n")
	var all sync.WaitGroup
	for socket := range 12 {
		c := openSocket(t, g, []string{proxytest.Key, "sk-other-0123456789"}[socket%2])
		all.Go(func() {
			for turn := range 5 {
				own := fmt.Sprintf("marker-%d-%d-", socket, turn)
				if err := c.conn.Write(c.ctx, websocket.MessageText, fmt.Appendf(nil, `{"type":"response.create","model":"m","input":%q}`, own)); err != nil {
					t.Error(err)
					return
				}
				text := ""
				for !strings.Contains(text, `"type":"response.completed"`) {
					_, event, err := c.conn.Read(c.ctx)
					if err != nil {
						t.Error(err)
						return
					}
					text += string(event)
				}
				if foreign := strings.ReplaceAll(text, own, ""); strings.Contains(foreign, "marker-") || strings.Count(text, own) < 20 {
					t.Errorf("socket %d, turn %d: got %s", socket, turn, text)
				}
			}
		})
	}
	all.Wait()
}
