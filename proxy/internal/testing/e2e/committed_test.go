package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestSilenceBeforeFirstEvent covers streams whose head was sent to the client before the provider had sent any of its
// body. The body is then read like any other, and failures end in an error frame.
func TestSilenceBeforeFirstEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel()
	const nonStreaming = `{"id":"up-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"late"},"finish_reason":"stop"}]}`
	const events = "Content-Type: text/event-stream"
	cases := []struct {
		name, head string
		steps      []upstreamtest.Step
		text, code string // text that the client receives, and the code of the error at the end
	}{
		{"events", events, []upstreamtest.Step{upstreamtest.Chunk(text("late"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk()}, "late", ""},
		{"a non-streaming response", "Content-Type: application/json", []upstreamtest.Step{upstreamtest.Chunk(nonStreaming), upstreamtest.LastChunk()}, "late", ""},
		{"a non-streaming response instead of events", events, []upstreamtest.Step{upstreamtest.Chunk(nonStreaming), upstreamtest.LastChunk()}, "late", ""},
		{"HTML", "Content-Type: text/html", []upstreamtest.Step{upstreamtest.Chunk("<html>"), upstreamtest.LastChunk()}, "", "upstream_bad_answer"},
		{"nothing", events, []upstreamtest.Step{upstreamtest.LastChunk()}, "", "upstream_empty"},
		{"FIN", events, nil, "", "upstream_stream_truncated"},                                       // covers: S10 F36
		{"RST", events, []upstreamtest.Step{upstreamtest.Reset()}, "", "upstream_stream_truncated"}, // covers: S10 F37
		// covers: S14 F59
		{"an error first", events, []upstreamtest.Step{upstreamtest.Chunk("data: {\"error\":{\"message\":\"busy\",\"type\":\"server_error\",\"code\":null}}\n\n"), upstreamtest.LastChunk()}, "", "upstream_stream_error"},
		{"garbage", events, []upstreamtest.Step{upstreamtest.Chunk("data: <html>\n\n")}, "", "upstream_bad_answer"}, // covers: F45
		// covers: S10
		{"a clean end with no events", events, []upstreamtest.Step{upstreamtest.Chunk(": hello\n\n"), upstreamtest.LastChunk()}, "", "upstream_bad_answer"},
		{"silence", events, []upstreamtest.Step{upstreamtest.AwaitClose()}, "", "upstream_timeout"}, // covers: F35
	}
	begun := make([]chan struct{}, len(cases))
	scripts := make([]upstreamtest.Script, len(cases))
	for i, c := range cases {
		begun[i] = make(chan struct{})
		scripts[i] = append(upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.Head(200, c.head, "Transfer-Encoding: chunked", "Connection: close"), upstreamtest.Wait(begun[i]),
		}, c.steps...)
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprint("silence-", i)
			client := dial(t, g)
			client.post(id, askStream)
			client.readUntil(": keep-alive\n\r\n")
			close(begun[i])
			rest := client.readUntil("0\r\n\r\n")
			if content(rest) != c.text {
				t.Errorf("got text %q, want %q: %s", content(rest), c.text, rest)
			}
			if done := strings.Contains(rest, "data: [DONE]\n\n"); done != (c.code == "") {
				t.Errorf("stream has [DONE]: %v, want %v: %s", done, c.code == "", rest)
			}
			line := g.Log.Request(t, id)
			if line["status"] != "200" || line["code"] != c.code || line["complete"] != fmt.Sprint(c.code == "") {
				t.Errorf("got log line %v", line)
			}
			if c.code == "" {
				return
			}
			frames := strings.Split(strings.TrimSuffix(rest, "\n\n\r\n0\r\n\r\n"), "\n")
			if last := frames[len(frames)-1]; !strings.HasPrefix(last, `data: {"error":{`) || !strings.Contains(last, `"code":"`+c.code+`"`) {
				t.Errorf("the stream ends with %q, want an error with code %s", last, c.code)
			}
		})
	}
}

// TestNoLeftoversInNextStream has a provider send bytes after the end of a stream. They must not appear in the next
// stream, which begins with silence.
func TestNoLeftoversInNextStream(t *testing.T) {
	begun := make(chan struct{})
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("mine") + finish + "data: [DONE]\n\n" + text("left-over"))},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Wait(begun), upstreamtest.Chunk(text("yours"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk()})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	// Both streams use one connection, so that the same goroutine serves them, most probably with the same buffers.
	client := dial(t, g)
	client.post("first", askStream)
	if got := client.readUntil("0\r\n\r\n"); content(got) != "mine" {
		t.Fatalf("got %s", got)
	}
	client.post("second", askStream)
	client.readUntil("\r\n\r\n")
	close(begun)
	if got := client.readUntil("0\r\n\r\n"); content(got) != "yours" {
		t.Errorf("got %s", got)
	}
}
