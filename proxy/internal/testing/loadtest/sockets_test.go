package loadtest_test

import (
	"encoding/binary"
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// maxSockets is the number of sockets from which on their memory is judged: with fewer, chance decides.
const maxSockets = 5000

// TestHeldSockets holds idle WebSockets of the Responses API open, and then stops the gateway. Each must answer a ping and
// be closed for the restart, and takes at most the memory of a silent stream.
func TestHeldSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	n := limitStreams(t, min(*held, maxSockets))
	provider := loadtest.StartProvider(t)
	start := func() (g *binarytest.Gateway, idle footprint) {
		g = binarytest.Start(t, binarytest.Options{Config: gatewayConfig(provider.URL, "max_conns = 10000")})
		warmUp(t, g)
		return g, memory(t, g)
	}
	g, idle := start()
	h := open(t, g.Addr, n, chatRequest("Hello", true))
	streams := memory(t, g).minus(idle)
	provider.End()
	h.finish()

	g, idle = start()
	sockets := make([]*loadtest.Conn, n)
	for i := range sockets {
		c, err := loadtest.Dial(g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sockets[i] = c
		if _, err := io.WriteString(c, "GET /v1/responses HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer "+key+
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if r, err := c.ReadHead(); err != nil || r.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("socket %d: %v, %v", i, r, err)
		}
	}
	used := memory(t, g).minus(idle)
	printf("%d idle sockets: %s; as many silent streams: %s", n, used.perStream(n), streams.perStream(n))
	if n == maxSockets && used.heap+used.stacks > streams.heap+streams.stacks {
		t.Error("a socket takes more memory than a stream")
	}
	var pong, closing [4]byte
	for i, c := range sockets {
		if _, err := c.Write([]byte{0x89, 0x80, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.Conn, pong[:2]); err != nil || pong[0] != 0x8a {
			t.Fatalf("socket %d responds to a ping with % x, %v", i, pong[:2], err)
		}
	}
	g.Signal(t, syscall.SIGTERM)
	for i, c := range sockets {
		if _, err := io.ReadFull(c.Conn, closing[:]); err != nil || closing[0] != 0x88 || binary.BigEndian.Uint16(closing[2:]) != 1012 {
			t.Fatalf("socket %d ends with % x, %v", i, closing, err)
		}
	}
	if exit := g.Wait(t, binarytest.EventTimeout); exit != 0 {
		t.Errorf("exit code %d, want 0", exit)
	}
}
