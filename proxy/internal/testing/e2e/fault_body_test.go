package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// gzipBody returns s compressed with gzip.
func gzipBody(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// flood writes s repeatedly, up to limit bytes, and counts the written bytes.
func flood(s string, limit int64, written *atomic.Int64) upstreamtest.Step {
	return func(c *upstreamtest.Conn) error {
		for n := int64(0); n < limit; n += int64(len(s)) {
			m, err := io.WriteString(c, s)
			written.Add(int64(m))
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// TestUnreadableResponses covers heads and bodies that are invalid or ambiguous.
//
// covers: F46 F60
func TestUnreadableResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("sends dozens of invalid responses")
	}
	t.Parallel()
	const mega = 1 << 20
	var eventBytes, headBytes atomic.Int64
	redirectTarget := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	json := func(s string) func(*wire) []upstreamtest.Step {
		return steps(upstreamtest.Answer(200, "application/json", s))
	}
	with := func(contentType string, body func(*wire) string) func(*wire) []upstreamtest.Step {
		return func(w *wire) []upstreamtest.Step {
			return steps(upstreamtest.Answer(200, contentType, body(w)))(w)
		}
	}
	document := func(w *wire) string { return w.answer("Hal") }
	events := func(w *wire) string { return w.stream("Hal") }
	bomb := gzipBody(t, `{"id":"`+strings.Repeat("x", 32*mega)+`"}`)
	eventBomb := gzipBody(t, strings.Repeat(": a comment of no interest\n", mega))

	testFaults(t, []fault{
		{
			name: "huge event", wantStream: fails(seenUnreadable, "Hal"), wantWhole: fails(seenUnreadable), // covers: F46
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+w.opening("Hal")+"data: "), flood(strings.Repeat(canary, mega/len(canary)), 64*mega, &eventBytes))(w)
			},
		},
		// covers: F47
		{name: "endless header", stream: steps(upstreamtest.Write(okHead+"X-Endless: "), flood(strings.Repeat("x", mega), 64*mega, &headBytes)), wantStream: fails(seenUnreadable)},
		{name: "10,000 headers", stream: raw(okHead + strings.Repeat("X-Header: value\r\n", 10_000) + "Content-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		// covers: F48
		{
			name: "100 and 103", wantStream: complete("Hal"), conn: kept,
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), upstreamtest.Answer(200, "application/json", w.answer("Hal")))(w)
			},
		},
		{name: "200 times 102", stream: raw(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 200) + okHead + "Content-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		// covers: F49
		{name: "101", stream: raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), wantStream: fails(seenUnreadable)},
		// covers: F50
		{name: "204", stream: raw("HTTP/1.1 204 No Content\r\n\r\n"), wantStream: fails(seenEmptyAnswer), conn: kept},
		{
			name: "304", stream: raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"), conn: kept,
			wantStream: fails(`{"error":{"message":"The provider's response is empty.","type":"server_error","param":null,"code":"upstream_empty","provider":"NAME","upstream_status":304}}`),
		},
		{name: "empty body", stream: json(""), wantStream: fails(seenEmptyAnswer), conn: kept},
		{name: "empty chunked body", stream: ended(func(*wire) string { return "" }), wantStream: fails(seenEmptyAnswer), conn: kept},
		{name: "only whitespace", stream: json(" \r\n\t"), wantStream: fails(seenEmptyAnswer), conn: kept},
		// covers: F51
		{
			name: "redirect to a private address", stream: raw("HTTP/1.1 302 Found\r\nLocation: " + redirectTarget.URL() + "/?key=" + canary + "\r\nContent-Length: 0\r\n\r\n"), conn: kept,
			wantStream: fails(seenRedirect),
		},
		// covers: F52
		{name: "non-streaming response instead of a stream", stream: with("application/json", document), wantStream: complete("Hal"), conn: kept},
		{name: "non-streaming response declared as an event stream", stream: with("text/event-stream", document), wantStream: complete("Hal"), conn: kept},
		{name: "non-streaming response declared as text", stream: with("text/plain; charset=utf-8", document), wantStream: complete("Hal"), conn: kept},
		{name: "events declared as JSON", stream: with("application/json", events), wantStream: complete("Hal"), conn: kept},
		{name: "events declared as octet-stream", stream: with("application/octet-stream", events), wantStream: complete("Hal"), conn: kept},
		{name: "HTML page", stream: with("text/html", func(*wire) string { return "<!doctype html>" + canary }), wantStream: fails(seenNeither), conn: either},
		{name: "text", stream: with("text/plain", func(*wire) string { return "no healthy upstream " + canary }), wantStream: fails(seenNeither), conn: either},
		// covers: F53
		{name: "gzip bomb", stream: raw(okHead + fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(bomb), bomb)), wantStream: fails(seenUnreadable)},
		{
			name:       "gzip bomb of events",
			stream:     raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(eventBomb), eventBomb)),
			wantStream: fails(seenUnreadable),
		},
		{
			name: "valid gzip", wantStream: complete("Hal"), conn: kept,
			stream: func(w *wire) []upstreamtest.Step {
				z := gzipBody(t, w.stream("Hal"))
				return raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(z), z))(w)
			},
		},
		// covers: F54
		{name: "invalid gzip", stream: raw(okHead + "Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n{\"choices\":[{}]}    "), wantStream: fails(seenUnreadable)},
		{name: "unsupported content coding", stream: raw(okHead + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		// covers: F55
		{name: "truncated JSON", stream: json(`{"choices":[{"index":0`), wantStream: fails(seenNotJSON), conn: kept},
		{name: "invalid JSON", stream: json(`{choices: ` + canary + `}`), wantStream: fails(seenNotJSON), conn: kept},
		{name: "two JSON documents", stream: with("application/json", func(w *wire) string { return w.answer("Hal") + w.answer("lo") }), wantStream: fails(seenNotJSON), conn: kept},
		{name: "JSON array", stream: json(`[]`), wantStream: fails(seenUnreadable), conn: kept},
		// covers: F60
		{name: "Content-Length and chunked", stream: raw(okHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		{name: "two values of Content-Length", stream: raw(okHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		{name: "unknown transfer coding", stream: raw(okHead + "Transfer-Encoding: x\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		{name: "folded header line", stream: raw(okHead + "X: y\r\n Content-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
	})
	if n := redirectTarget.Connections(); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
	// Up to four responses each, including what is in kernel buffers.
	if a, b := eventBytes.Load(), headBytes.Load(); a > 4*16*mega || b > 4*16*mega {
		t.Errorf("the provider could write %d bytes of huge events and %d bytes of endless heads", a, b)
	}
}

// TestAmbiguousArguments checks that invalid tool arguments, which the plugin passes on unchanged, are an error of the
// provider.
//
// covers: F55
func TestAmbiguousArguments(t *testing.T) {
	for name, input := range map[string]string{
		"duplicate member": `{"a":1,"a":2}`, "number beyond float64": `{"a":1e999}`,
	} {
		t.Run(name, func(t *testing.T) {
			const message = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c","name":"f","input":%s}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`
			provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", fmt.Sprintf(message, input)))})
			g := proxytest.Start(t, configuration("", provider.URL()))
			for _, stream := range []bool{false, true} {
				fails(seenUnreadable).check(t, g, g.Chat(t, canaryRequest("claude", stream)), stream, false)
			}
		})
	}
}
