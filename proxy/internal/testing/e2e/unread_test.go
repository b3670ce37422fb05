package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestUnreadResponseIsDropped has a client that stops reading a response larger than all buffers, and continues after
// the write timeout. The connection must have been reset, so that its queued data is dropped.
//
// covers: F17
func TestUnreadResponseIsDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the buffers of a connection")
	}
	event := fmt.Sprintf(`data: {"id":"up","model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", strings.Repeat("x", 64<<10))
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Loop(upstreamtest.Chunk(event)),
	})
	g := proxytest.Start(t, fmt.Sprintf(`
[server]
write_timeout = "300ms"
[providers.up]
plugin   = "openai"
base_url = %q
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, provider.URL()))
	c, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	const body = `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	g.Log.Await(t, "msg", "request", "status", "499")
	if err := c.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client read %d bytes, then %v, want a reset", n, err)
	}
}

// TestSlowClientGetsWholeResponse has a client with a small window read a response slowly, for several times the write
// timeout.
//
// covers: F17
func TestSlowClientGetsWholeResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel()
	const parts = 40
	event := text(strings.Repeat("x", 2<<10))
	var chunks []string
	for range parts {
		chunks = append(chunks, event)
	}
	hold := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(chunks...),
		upstreamtest.Wait(hold), upstreamtest.Chunk(finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	const timeout = 400 * time.Millisecond
	g := proxytest.Start(t, fmt.Sprintf(`
[server]
write_timeout = %q
[providers.up]
plugin   = "openai"
base_url = %q
[[models]]
id      = "gpt"
targets = [{ provider = "up", model = "m" }]
`, timeout, provider.URL()))
	c := dial(t, g)
	if err := c.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	c.post("slow", askStream)
	began := time.Now()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	var got strings.Builder
	buffer := make([]byte, 256)
	for !strings.HasSuffix(got.String(), "data: [DONE]\n\n\r\n0\r\n\r\n") {
		if hold != nil && time.Since(began) > 4*timeout {
			close(hold)
			hold = nil
		}
		if hold != nil {
			<-pace.C
		}
		n, err := c.Read(buffer)
		got.Write(buffer[:n])
		if err != nil {
			t.Fatalf("%v after %d bytes and %s", err, got.Len(), time.Since(began))
		}
	}
	if text := content(got.String()); len(text) != parts*2<<10 {
		t.Errorf("got %d bytes of text, want %d", len(text), parts*2<<10)
	}
}
