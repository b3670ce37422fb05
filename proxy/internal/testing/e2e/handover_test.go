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

// TestRequestAfterStream checks that it is parsed by the same rules as a connection's first request.
//
// covers: F24
func TestRequestAfterStream(t *testing.T) {
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, configuration("", "")+table)
		stream := strings.Replace(hello, "}]}", `}],"stream":true}`, 1)
		for name, c := range map[string]struct{ behind, want string }{
			"a head that just fits":   {longHead(30<<10) + sized(hello), "HTTP/1.1 200 "},
			"a head that is too long": {longHead(40<<10) + sized(hello), "HTTP/1.1 431 "},
			"no head at all":          {"GARBAGE\r\n\r\n", "HTTP/1.1 400 "},
			"a stream":                {postHead + sized(stream), "HTTP/1.1 200 "},
		} {
			for _, together := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%t", name, together), func(t *testing.T) {
					client := dial(t, g)
					first := postHead + sized(stream)
					if together {
						first += c.behind
					}
					client.send(first)
					if got := client.readUntil("0\r\n\r\n"); !strings.Contains(got, "[DONE]") {
						t.Fatalf("first %s", got)
					}
					if !together {
						client.send(c.behind)
					}
					if got := client.readUntil("\r\n\r\n"); !strings.HasPrefix(got, c.want) {
						t.Errorf("then %s", got)
					}
				})
			}
		}
	})
}

// longHead is the head of a request, of about n bytes.
func longHead(n int) string { return postHead + "X-Padding: " + strings.Repeat("x", n) + "\r\n" }

// TestSilenceAfterStream checks that the connection ends without a response to a request that never came.
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
				t.Errorf("%s: %v %s", closing, err, rest)
			}
		}
		if log := g.Log.String(); strings.Contains(log, "request_timeout") || strings.Contains(log, "bad_request") {
			t.Errorf("the log says %s", log)
		}
	})
}

// TestSilentStreamMemory checks that the buffers of a request are released by the time its stream is silent: both sides
// of the gateway, the client and the provider of this test together hold less than the buffer for a request's head. No other API's stream
// holds more than one of chat completions, but for a few kilobytes of what it has to repeat at its end.
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
		each := (heapInUse() - before) / streams
		t.Logf("%d bytes of the heap a stream", each)
		if in.name == "chat" {
			chat = each
		}
		if chat > 26<<10 || each > chat+4<<10 {
			t.Errorf("a silent stream holds %d bytes of the heap, one of chat completions %d", each, chat)
		}
		close(end)
		for _, c := range clients {
			if got := c.readUntil("0\r\n\r\n"); !strings.Contains(got, in.done) {
				t.Errorf("got %s", got)
			}
		}
	})
}

// heapInUse is how many bytes of the heap are in use, those in pools not among them.
func heapInUse() int64 {
	var m runtime.MemStats
	// A pool lets go of its content at the second collection.
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
