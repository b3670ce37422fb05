package e2e_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestRequestAfterStream checks that a request after a stream is parsed like the first request on a connection.
//
// covers: F24
func TestRequestAfterStream(t *testing.T) {
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, configuration("", "")+table)
		stream := strings.Replace(hello, "}]}", `}],"stream":true}`, 1)
		for name, c := range map[string]struct{ second, want string }{
			"long head":     {longHead(30<<10) + sized(hello), "HTTP/1.1 200 "},
			"too long head": {longHead(40<<10) + sized(hello), "HTTP/1.1 431 "},
			"invalid head":  {"GARBAGE\r\n\r\n", "HTTP/1.1 400 "},
			"stream":        {postHead + sized(stream), "HTTP/1.1 200 "},
		} {
			for _, pipelined := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/pipelined %t", name, pipelined), func(t *testing.T) {
					client := dial(t, g)
					first := postHead + sized(stream)
					if pipelined {
						first += c.second
					}
					client.send(first)
					if got := client.readUntil("0\r\n\r\n"); !strings.Contains(got, "[DONE]") {
						t.Fatalf("first response: %s", got)
					}
					if !pipelined {
						client.send(c.second)
					}
					if got := client.readUntil("\r\n\r\n"); !strings.HasPrefix(got, c.want) {
						t.Errorf("second response: got %s, want %s", got, c.want)
					}
				})
			}
		}
	})
}

// longHead returns the head of a request, of about n bytes.
func longHead(n int) string { return postHead + "X-Padding: " + strings.Repeat("x", n) + "\r\n" }

// TestSilenceAfterStream checks that an idle connection is closed after a stream without another response.
//
// covers: F24
func TestSilenceAfterStream(t *testing.T) {
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, strings.Replace(configuration("", "")+table, "[server]\n", "[server]\nidle_timeout = \"50ms\"\n", 1))
		for _, closing := range []string{"by the gateway", "by the client"} {
			client := dial(t, g)
			client.post(closing, strings.Replace(hello, "}]}", `}],"stream":true}`, 1))
			client.readUntil("0\r\n\r\n")
			if closing == "by the client" {
				if err := client.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if rest, err := io.ReadAll(client.r); err != nil || len(rest) > 0 {
				t.Errorf("closed %s: got %q, %v, want EOF", closing, rest, err)
			}
		}
		if log := g.Log.String(); strings.Contains(log, "request_timeout") || strings.Contains(log, "bad_request") {
			t.Errorf("the log has an error for an idle connection:\n%s", log)
		}
	})
}

// TestSilentStreamMemory checks that a request's buffers are released while its stream is silent. The gateway, the
// client and the provider of this test together must hold less than the buffer for a request head per stream. Streams
// of other APIs may hold only a few kilobytes more than chat completions, for the text that they repeat at the end.
//
// covers: F3
func TestSilentStreamMemory(t *testing.T) {
	var chat int64
	forEachIngress(t, func(t *testing.T, in *ingress) {
		const streams = 64
		end := make(chan struct{})
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(end),
			upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
		})
		g := proxytest.Start(t, configuration(provider.URL(), ""))
		open := func() *rawClient {
			c := dial(t, g)
			c.postTo(in.pathTo("gpt", true), "held", in.requestBody("gpt", "x", true))
			c.readUntil(in.deltaPrefix + "Hel\"")
			c.readUntil("\n\n\r\n")
			return c
		}
		clients := []*rawClient{open()}
		before := heapInUse()
		for range streams {
			clients = append(clients, open())
		}
		perStream := (heapInUse() - before) / streams
		t.Logf("%d bytes of heap per stream", perStream)
		if in.name == "chat" {
			chat = perStream
		}
		if chat > 26<<10 || perStream > chat+4<<10 {
			t.Errorf("a silent stream holds %d bytes of heap, a chat completions stream %d", perStream, chat)
		}
		close(end)
		for _, c := range clients {
			if got := c.readUntil("0\r\n\r\n"); !strings.Contains(got, in.done) {
				t.Errorf("got %s", got)
			}
		}
	})
}

// heapInUse returns the size of the live heap, without pooled objects.
func heapInUse() int64 {
	var m runtime.MemStats
	// A sync.Pool is emptied by two collections.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
