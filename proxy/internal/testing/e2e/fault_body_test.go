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

// gzipBody is s as a gzip body of a stream of events.
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

// flood writes s again and again, up to most bytes, and counts what was taken.
func flood(s string, most int64, taken *atomic.Int64) upstreamtest.Step {
	return func(c *upstreamtest.Conn) error {
		for n := int64(0); n < most; n += int64(len(s)) {
			m, err := io.WriteString(c, s)
			taken.Add(int64(m))
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
		t.Skip("starts a gateway for each kind of damage")
	}
	t.Parallel()
	const mega = 1 << 20
	var line, head atomic.Int64
	inside := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	json := func(s string) func(*wire) []upstreamtest.Step {
		return steps(upstreamtest.Answer(200, "application/json", s))
	}
	with := func(contentType string, body func(*wire) string) func(*wire) []upstreamtest.Step {
		return func(w *wire) []upstreamtest.Step {
			return steps(upstreamtest.Answer(200, contentType, body(w)))(w)
		}
	}
	wholeAnswer := func(w *wire) string { return w.answer("Hal") }
	events := func(w *wire) string { return w.stream("Hal") }
	bomb := gzipBody(t, `{"id":"`+strings.Repeat("x", 32*mega)+`"}`)
	eventBomb := gzipBody(t, strings.Repeat(": a comment of no interest\n", mega))

	testFaults(t, []fault{
		{
			name: "a giant event", wantStream: fails(seenUnreadable, "Hal"), wantWhole: fails(seenUnreadable), // covers: F46
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+w.opening("Hal")+"data: "), flood(strings.Repeat(canary, mega/len(canary)), 64*mega, &line))(w)
			},
		},
		// covers: F47
		{name: "an endless header", stream: steps(upstreamtest.Write(okHead+"X-Endless: "), flood(strings.Repeat("x", mega), 64*mega, &head)), wantStream: fails(seenUnreadable)},
		{name: "10,000 headers", stream: raw(okHead + strings.Repeat("X-Header: value\r\n", 10_000) + "Content-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		// covers: F48
		{
			name: "100 and 103", wantStream: complete("Hal"), conn: kept,
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), upstreamtest.Answer(200, "application/json", w.answer("Hal")))(w)
			},
		},
		{name: "102 two hundred times", stream: raw(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 200) + okHead + "Content-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		// covers: F49
		{name: "101", stream: raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), wantStream: fails(seenUnreadable)},
		// covers: F50
		{name: "204", stream: raw("HTTP/1.1 204 No Content\r\n\r\n"), wantStream: fails(seenEmptyAnswer), conn: kept},
		{
			name: "304", stream: raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"), conn: kept,
			wantStream: fails(`{"error":{"message":"The provider's response is empty.","type":"server_error","param":null,"code":"upstream_empty","provider":"NAME","upstream_status":304}}`),
		},
		{name: "nothing", stream: json(""), wantStream: fails(seenEmptyAnswer), conn: kept},
		{name: "nothing in chunks", stream: ended(func(*wire) string { return "" }), wantStream: fails(seenEmptyAnswer), conn: kept},
		{name: "spaces", stream: json(" \r\n\t"), wantStream: fails(seenEmptyAnswer), conn: kept},
		// covers: F51
		{
			name: "a redirect to the inside", stream: raw("HTTP/1.1 302 Found\r\nLocation: " + inside.URL() + "/?key=" + canary + "\r\nContent-Length: 0\r\n\r\n"), conn: kept,
			wantStream: fails(seenRedirect),
		},
		// covers: F52
		{name: "a whole answer in the place of events", stream: with("application/json", wholeAnswer), wantStream: complete("Hal"), conn: kept},
		{name: "a whole answer that is called events", stream: with("text/event-stream", wholeAnswer), wantStream: complete("Hal"), conn: kept},
		{name: "a whole answer that is called text", stream: with("text/plain; charset=utf-8", wholeAnswer), wantStream: complete("Hal"), conn: kept},
		{name: "events that are called JSON", stream: with("application/json", events), wantStream: complete("Hal"), conn: kept},
		{name: "events of no type", stream: with("application/octet-stream", events), wantStream: complete("Hal"), conn: kept},
		{name: "a page", stream: with("text/html", func(*wire) string { return "<!doctype html>" + canary }), wantStream: fails(seenNeither), conn: either},
		{name: "text", stream: with("text/plain", func(*wire) string { return "no healthy upstream " + canary }), wantStream: fails(seenNeither), conn: either},
		// covers: F53
		{name: "a bomb", stream: raw(okHead + fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(bomb), bomb)), wantStream: fails(seenUnreadable)},
		{
			name:       "a bomb of events",
			stream:     raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(eventBomb), eventBomb)),
			wantStream: fails(seenUnreadable),
		},
		{
			name: "gzip as it should be", wantStream: complete("Hal"), conn: kept,
			stream: func(w *wire) []upstreamtest.Step {
				z := gzipBody(t, w.stream("Hal"))
				return raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(z), z))(w)
			},
		},
		// covers: F54
		{name: "gzip that is none", stream: raw(okHead + "Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n{\"choices\":[{}]}    "), wantStream: fails(seenUnreadable)},
		{name: "another coding", stream: raw(okHead + "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		// covers: F55
		{name: "JSON that breaks off", stream: json(`{"choices":[{"index":0`), wantStream: fails(seenNotJSON), conn: kept},
		{name: "no JSON", stream: json(`{choices: ` + canary + `}`), wantStream: fails(seenNotJSON), conn: kept},
		{name: "two documents", stream: with("application/json", func(w *wire) string { return w.answer("Hal") + w.answer("lo") }), wantStream: fails(seenNotJSON), conn: kept},
		{name: "an array", stream: json(`[]`), wantStream: fails(seenUnreadable), conn: kept},
		// covers: F60
		{name: "length and chunks", stream: raw(okHead + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		{name: "two lengths", stream: raw(okHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		{name: "an unknown coding", stream: raw(okHead + "Transfer-Encoding: x\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
		{name: "a folded line", stream: raw(okHead + "X: y\r\n Content-Length: 2\r\n\r\n{}"), wantStream: fails(seenUnreadable)},
	})
	if n := inside.Connections(); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
	// Four answers each, and what the kernel keeps of them on its way.
	if a, b := line.Load(), head.Load(); a > 4*16*mega || b > 4*16*mega {
		t.Errorf("%d bytes of the giant events were taken, and %d of the endless heads", a, b)
	}
}

// TestAmbiguousArguments checks that the provider is blamed for an object that the plugin passes on as the provider
// wrote it.
//
// covers: F55
func TestAmbiguousArguments(t *testing.T) {
	for name, input := range map[string]string{
		"a member twice": `{"a":1,"a":2}`, "a number that no float64 holds": `{"a":1e999}`,
	} {
		t.Run(name, func(t *testing.T) {
			const message = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c","name":"f","input":%s}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`
			provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", fmt.Sprintf(message, input)))})
			g := proxytest.Start(t, configuration("", provider.URL()))
			for _, stream := range []bool{false, true} {
				fails(seenUnreadable).check(t, g, g.Chat(t, askOf("claude", stream)), stream, false)
			}
		})
	}
}
