package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// fault is a fault in a provider's response.
type fault struct {
	name             string
	stream           func(*wire) []upstreamtest.Step // response to a streaming request; nil skips it
	whole            func(*wire) []upstreamtest.Step // response to a non-streaming request; nil means stream
	wantStream       want
	wantWhole        want     // expected by a non-streaming client, if it differs from wantStream
	conn             connFate // of the connection
	needsMessageStop bool     // anthropic's response counts as truncated, because it lacks message_stop
	timeout          string
	headSentFirst    bool // the client gets the head of the stream before the fault
}

// connFate says whether the connection to the provider is reused after a fault.
type connFate uint8

const (
	dropped connFate = iota
	kept             // serves the next request
	either           // depends on when the provider's bytes arrive
)

func steps(s ...upstreamtest.Step) func(*wire) []upstreamtest.Step {
	return func(*wire) []upstreamtest.Step { return s }
}

// chunks writes a stream with a chunk for each part.
func chunks(parts func(*wire) []string, then ...upstreamtest.Step) func(*wire) []upstreamtest.Step {
	return func(w *wire) []upstreamtest.Step {
		return append([]upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(parts(w)...)}, then...)
	}
}

// ended writes a stream of one chunk and the end of the body in one piece, so that the gateway reads the end without
// waiting.
func ended(part func(*wire) string) func(*wire) []upstreamtest.Step {
	return func(w *wire) []upstreamtest.Step {
		p := part(w)
		if p != "" {
			p = fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
		}
		return []upstreamtest.Step{upstreamtest.Write(eventsHead + p + "0\r\n\r\n")}
	}
}

// raw writes a response as it is.
func raw(s string) func(*wire) []upstreamtest.Step { return steps(upstreamtest.Write(s)) }

const (
	eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	okHead     = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
)

// testFaults tests every fault in each dialect, with a streaming and a non-streaming request. max_conns is 1, so that a
// second request only gets a response if the gateway releases the first connection.
func testFaults(t *testing.T, faults []fault) {
	type testCase struct {
		fault  *fault
		wire   *wire
		stream bool
		model  string
		server *upstreamtest.Server
	}
	var cases []testCase
	config := quietServer
	for i := range faults {
		f := &faults[i]
		for _, w := range wires {
			for _, stream := range []bool{true, false} {
				script := f.stream
				if !stream && f.whole != nil {
					script = f.whole
				}
				if script == nil || testing.Short() && (w != wires[0] || !stream && f.whole == nil) {
					continue
				}
				p := testCase{f, w, stream, fmt.Sprintf("%s-%d-%v", w.plugin, i, stream), nil}
				p.server = upstreamtest.New(t,
					append(append(upstreamtest.Script{upstreamtest.ReadRequest()}, script(w)...), w.good()),
					upstreamtest.Script{w.good()})
				timeout := f.timeout
				if timeout == "" {
					timeout = `idle = "20s", first_byte = "20s"`
				}
				heartbeat := "0s"
				if f.headSentFirst {
					heartbeat = "10ms"
				}
				config += fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\nmax_conns = 1\ntimeout = { %s }\nheartbeat = %q\nbreaker = { enabled = false }\n", p.model, w.plugin, p.server.URL(), timeout, heartbeat)
				config += fmt.Sprintf("[[models]]\nid = %q\nmax_tokens = 1000\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", p.model)
				cases = append(cases, p)
			}
		}
	}
	g := proxytest.Start(t, config)
	t.Run("all", func(t *testing.T) {
		for _, p := range cases {
			t.Run(fmt.Sprintf("%s/%s/stream %v", p.fault.name, p.wire.plugin, p.stream), func(t *testing.T) {
				t.Parallel()
				expected := p.fault.wantStream
				if !p.stream && (p.fault.wantWhole.texts != nil || p.fault.wantWhole.failure != "") {
					expected = p.fault.wantWhole
				}
				if p.fault.needsMessageStop && p.wire.plugin == "anthropic" {
					expected = fails(seenTruncated)
					if p.stream {
						expected = fails(seenTruncated, "Hal")
					}
				}
				if own, ok := p.wire.seen[expected.failure]; ok {
					expected.failure = own
				}
				expected.failure = strings.ReplaceAll(expected.failure, "NAME", p.model)
				r := g.Chat(t, canaryRequest(p.model, p.stream))
				expected.check(t, g, r, p.stream, p.fault.headSentFirst && p.stream)
				if p.fault.headSentFirst && p.stream && !strings.HasPrefix(r.Body, ": keep-alive\n") {
					t.Errorf("no heartbeat before %s", r.Body)
				}
				next := g.Chat(t, canaryRequest(p.model, false))
				complete("good").check(t, g, next, false, false)
				n, requests := p.server.Connections(), len(p.server.Requests())
				if n == 1 && p.fault.conn == dropped || n == 2 && p.fault.conn == kept || n > 2 || requests != 2 {
					t.Errorf("got %d connections and %d requests", n, requests)
				}
			})
		}
	})
	if log := g.Log.String(); strings.Contains(log, canary) || strings.Contains(log, "sk-upstream") {
		t.Errorf("the log contains text of a client or a provider, or a credential:\n%s", log)
	}
}

// TestSlowAndTruncatedResponses covers late, stalled and truncated responses.
//
// covers: F34 F42
func TestSlowAndTruncatedResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel()
	const late, silent = `first_byte = "150ms"`, `idle = "1s"`
	opening := func(w *wire) []string { return []string{w.opening("Hal")} }
	incomplete := func(w *wire) upstreamtest.Step {
		return upstreamtest.Write(fmt.Sprintf(okHead+"Content-Length: 1000\r\n\r\n%.40s", w.answer("Hal")))
	}
	cut := func(end ...upstreamtest.Step) func(*wire) []upstreamtest.Step {
		return func(w *wire) []upstreamtest.Step { return append([]upstreamtest.Step{incomplete(w)}, end...) }
	}
	testFaults(t, []fault{
		// covers: F34
		{name: "no response", stream: steps(upstreamtest.AwaitClose()), wantStream: fails(seenTooLate), timeout: late},
		// covers: F35
		{
			name: "silence after the head", stream: steps(upstreamtest.EventStream(), upstreamtest.AwaitClose()),
			wantStream: fails(seenTooLate), timeout: silent, headSentFirst: true,
		},
		{
			name: "silence after an event", stream: chunks(opening, upstreamtest.AwaitClose()), whole: cut(upstreamtest.AwaitClose()),
			wantStream: fails(seenTooLate, "Hal"), wantWhole: fails(seenTooLate), timeout: silent,
		},
		// covers: F36
		{name: "FIN", stream: chunks(opening, upstreamtest.Close()), whole: cut(upstreamtest.Close()), wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated)},
		{
			name: "FIN in a chunk", wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated),
			stream: chunks(opening, upstreamtest.Write("100\r\ndata: {"), upstreamtest.Close()),
			whole:  chunks(func(w *wire) []string { return []string{w.answer("Hal")[:30]} }, upstreamtest.Close()),
		},
		{
			name: "FIN after the finish", wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated),
			stream: chunks(func(w *wire) []string { return []string{w.opening("Hal") + w.finish} }, upstreamtest.Close()),
			whole:  chunks(func(w *wire) []string { return []string{w.answer("Hal")} }, upstreamtest.Close()),
		},
		{name: "FIN before the head", stream: steps(upstreamtest.Close()), wantStream: fails(seenUnreachable)},
		{name: "FIN in the head", stream: steps(upstreamtest.Write("HTTP/1.1 200 OK\r\nX-"), upstreamtest.Close()), wantStream: fails(seenTruncated)},
		// covers: F37
		{name: "RST", stream: chunks(opening, upstreamtest.Reset()), whole: cut(upstreamtest.Reset()), wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated)},
	})
}

// TestUnusualStreams covers streams with unusual ends or framing, and responses that are not streams.
//
// covers: F38 F46
func TestUnusualStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each stream")
	}
	t.Parallel()
	whole := func(w *wire) string { return w.stream("Hal", "lo") }
	body := func(edit func(string) string) func(*wire) []upstreamtest.Step {
		return ended(func(w *wire) string { return edit(whole(w)) })
	}
	lines := func(end string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(s, "\n", end) }
	}
	faults := []fault{
		// covers: F38
		{
			name:       "end of the body without a finish reason",
			stream:     ended(func(w *wire) string { return w.opening("Hal") }),
			wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated), conn: kept,
		},
		{
			name:       "end of the body after the finish reason",
			stream:     ended(func(w *wire) string { return w.opening("Hal") + w.finish }),
			wantStream: complete("Hal"), conn: kept, needsMessageStop: true,
		},
		{
			name: "body ends with the connection",
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+whole(w)), upstreamtest.Close())(w)
			},
			wantStream: complete("Hal", "lo"),
		},
		// covers: F39
		{
			name:       "events after the end",
			stream:     chunks(func(w *wire) []string { return []string{whole(w), w.says("more"), w.says("and more")} }, upstreamtest.AwaitClose()),
			wantStream: complete("Hal", "lo"),
		},
		{
			// More than fits into the connection's buffer, so the gateway must read the end of the body separately.
			name:       "many comments after the end",
			stream:     ended(func(w *wire) string { return whole(w) + strings.Repeat(": it was a pleasure\n\n", 400) }),
			wantStream: complete("Hal", "lo"), conn: kept,
		},
		{
			name: "bytes after the body",
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s%s", len(whole(w)), whole(w), "HTTP/1.1 200 OK\r\n")), upstreamtest.AwaitClose())(w)
			},
			wantStream: complete("Hal", "lo"),
		},
		{
			name: "body shorter than its length", // covers: F40
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10000\r\n\r\n%s", w.opening("Hal"))), upstreamtest.Close())(w)
			},
			whole: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Write(fmt.Sprintf(okHead+"Content-Length: 100\r\n\r\n%.60s", w.answer("Hal"))), upstreamtest.Close())(w)
			},
			wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated),
		},
		{
			name: "byte by byte", // covers: F42
			stream: func(w *wire) []upstreamtest.Step {
				return steps(upstreamtest.Bytes(strings.TrimSuffix(eventsHead, "\r\n\r\n") + "\r\nConnection: close\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(whole(w)), whole(w))))(w)
			},
			whole: func(w *wire) []upstreamtest.Step {
				a := w.answer("Hallo")
				return steps(upstreamtest.Bytes(fmt.Sprintf(okHead+"Connection: close\r\nContent-Length: %d\r\n\r\n%s", len(a), a)))(w)
			},
			wantStream: complete("Hal", "lo"),
		},
		// covers: F43
		{name: "CRLF", stream: body(lines("\r\n")), wantStream: complete("Hal", "lo"), conn: kept},
		{name: "CR", stream: body(lines("\r")), wantStream: complete("Hal", "lo"), conn: kept},
		{name: "mixed line endings and a byte order mark", stream: body(func(s string) string {
			return "\ufeff" + strings.Replace(strings.Replace(s, "\n\n", "\r\n\n", 1), "\n\n", "\r\r", 2)
		}), wantStream: complete("Hal", "lo"), conn: kept},
		// covers: F44
		{name: "all fields, and events without data", stream: body(func(s string) string {
			return "retry: 10\n\n: hello\n\nevent: ping\n\nid: 1\n\n" + strings.ReplaceAll(s, "data: ", ": comment\nid: 7\nretry: 1\nunknown: x\ndata:") + ": bye\n\n"
		}), wantStream: complete("Hal", "lo"), conn: kept},
		{name: "data in several lines", stream: body(func(s string) string {
			return strings.ReplaceAll(strings.ReplaceAll(s, "{\"id\":\"up-1\",", "{\"id\":\"up-1\",\ndata: "), "{\"type\":", "{\ndata: \"type\":")
		}), wantStream: complete("Hal", "lo"), conn: kept},
		// covers: F45
		{
			name:       "HTML after an event",
			stream:     ended(func(w *wire) string { return w.opening("Hal") + "<html>\n<body>" + canary + "</body>\n\n" }),
			wantStream: fails(seenTruncated, "Hal"), wantWhole: fails(seenTruncated), conn: kept,
		},
		{
			name:       "data that is not JSON",
			stream:     ended(func(w *wire) string { return w.opening("Hal") + "data: <html>" + canary + "\n\n" }),
			wantStream: fails(seenNotJSON, "Hal"), wantWhole: fails(seenNotJSON), conn: either,
		},
		{name: "binary", stream: ended(func(*wire) string { return "\x00\x01\xff\xfe\n\n\x00" }), wantStream: fails(seenNothing), conn: kept},
		{name: "lines without a colon", stream: ended(func(*wire) string { return "hello\n\n" + canary + "\n\n" }), wantStream: fails(seenNothing), conn: kept},
		{name: "HTML", stream: steps(upstreamtest.Answer(200, "text/html", "<html>"+canary)), wantStream: fails(seenNeither), conn: either},
		// covers: F59
		{
			name:       "error after an event",
			stream:     ended(func(w *wire) string { return w.opening("Hal") + w.failed }),
			wantStream: fails(seenBusy, "Hal"), wantWhole: fails(seenBusy), conn: either,
		},
		{name: "error as the first event", stream: ended(func(w *wire) string { return w.failed }), wantStream: fails(seenBusy), conn: either},
	}
	testFaults(t, faults)
}
