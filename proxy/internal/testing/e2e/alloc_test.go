//go:build !race

package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// maxAllocs is the maximum number of allocations of a non-streaming request through the plugin openai. It includes a
// few for the runtime's own work.
const maxAllocs = 14

// TestRequestAllocations measures the allocations of sequential requests over connections that stay open. The client
// and the provider do not allocate anything themselves.
func TestRequestAllocations(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const answer = `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	go serveFixedResponse(ln, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer))
	defer ln.Close()
	lines := telemetry.NewWriter(io.Discard)
	defer lines.Close(proxytest.EventTimeout)
	g := proxytest.StartWith(t, fmt.Sprintf("[server]\nauth = \"none\"\n[providers.p]\nplugin = \"openai\"\nbase_url = \"http://%s\"\nauth = { secret = \"sk-upstream-canary\" }\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n", ln.Addr()),
		func(o *proxy.Options) { o.Log = telemetry.NewLogger(lines, false, slog.LevelInfo) })
	c, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	in := make([]byte, 16<<10)
	ask := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(in[:n], []byte("}\n")) && !bytes.HasSuffix(in[:n], []byte("}}")); {
			m, err := c.Read(in[n:])
			if n += m; err != nil {
				t.Fatalf("%v: %s", err, in[:n])
			}
		}
		if !bytes.HasPrefix(in, []byte("HTTP/1.1 200 ")) {
			t.Fatalf("%s", in[:200])
		}
	}
	// A garbage collection would empty the pools.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 100 {
		ask()
	}
	const requests = 500
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range requests {
		ask()
	}
	runtime.ReadMemStats(&after)
	n := float64(after.Mallocs-before.Mallocs) / requests
	t.Logf("%.1f allocations and %d bytes per request", n, (after.TotalAlloc-before.TotalAlloc)/requests)
	if n > maxAllocs {
		t.Errorf("%.1f allocations per request, want at most %d", n, maxAllocs)
	}
}

// serveFixedResponse responds to every request with the same bytes, until the listener is closed.
func serveFixedResponse(ln net.Listener, answer []byte) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewReader(c); ; {
				length := 0
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						return
					}
					if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
						length = 0
						for _, d := range bytes.TrimSpace(n) {
							length = 10*length + int(d-'0')
						}
					}
					if len(line) == 2 {
						break
					}
				}
				if _, err := in.Discard(length); err != nil {
					return
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}
