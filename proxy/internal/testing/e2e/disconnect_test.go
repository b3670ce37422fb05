package e2e_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// withAndWithoutTLS runs a test over plain HTTP and over TLS. table is the table of the configuration for TLS, or "".
func withAndWithoutTLS(t *testing.T, test func(t *testing.T, table string)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, "") })
	if testing.Short() {
		return
	}
	t.Run("TLS", func(t *testing.T) { test(t, certtest.Valid(t).Table(t, t.TempDir())) })
}

// awaitReleased waits until requests hold no resources of the gateway.
func awaitReleased(t *testing.T, admin string) {
	t.Helper()
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_completions_in_flight")+m.Sum("sluice_requests_in_flight")+m.Sum("sluice_streams_in_flight")+
			m.Sum("sluice_body_memory_bytes")+m.Sum("sluice_target_in_flight")+m.Sum("sluice_upstream_connections", "state", "used")+
			m.Sum("sluice_plugin_whole_calls")+m.Sum("sluice_plugin_waiting")+m.Sum("sluice_plugin_instances", "state", "used") == 0
	})
}

// disconnect closes the client's connection with a FIN or a RST.
func (c *rawClient) disconnect(reset bool) {
	c.t.Helper()
	if reset {
		c.reset()
		return
	}
	c.Close()
}

// wantDisconnect checks the access log line of a request whose client disconnected.
func wantDisconnect(t *testing.T, g *proxytest.Gateway, id string, want map[string]string) {
	t.Helper()
	line := g.Log.Request(t, id)
	if line["status"] != "499" || line["code"] != "client_closed_request" || line["complete"] == "true" {
		t.Errorf("logged as %v", line)
	}
	for name, value := range want {
		if line[name] != value {
			t.Errorf("%s is %q, want %q: %v", name, line[name], value, line)
		}
	}
	lines := 0
	for line := range strings.Lines(g.Log.String()) {
		if strings.Contains(line, "request="+id+" ") && !strings.Contains(line, "level=DEBUG") {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("got %d log lines, want 1", lines)
	}
}

// TestClientDisconnectCancelsUpstream has clients disconnect in every phase of an upstream request, with a FIN and a
// RST, streaming and not. Each time, the provider's connection must be closed, all resources released, and the usage so
// far logged for an incomplete request.
//
// covers: S15 S16 F18 F19 F20
func TestClientDisconnectCancelsUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("disconnects from every kind of response")
	}
	t.Parallel()
	never := make(chan struct{})
	const half = `"lo"},"finish_reason":null}]}`
	stream := []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"), text("lo"))}
	promptOnly, withText := map[string]string{"prompt_tokens": "1", "completion_tokens": "", "usage_estimated": "true"}, map[string]string{"prompt_tokens": "1", "completion_tokens": "2", "usage_estimated": "true"}
	cases := []struct {
		name, body string
		script     []upstreamtest.Step // after the request
		wait       string              // text that the client reads before it disconnects
		reset      bool
		logged     map[string]string
	}{
		// covers: F18
		{"streaming, before the head, FIN", askStream, nil, "", false, promptOnly},
		{"streaming, before the head, RST", askStream, nil, "", true, promptOnly},
		{"non-streaming, before the head, FIN", ask, nil, "", false, promptOnly},
		{"non-streaming, before the head, RST", ask, nil, "", true, promptOnly},
		// covers: F19
		{"streaming, before the first event, FIN", askStream, []upstreamtest.Step{upstreamtest.EventStream()}, ": keep-alive\n", false, promptOnly},
		// covers: F20
		{"streaming, before the first event, RST", askStream, []upstreamtest.Step{upstreamtest.EventStream()}, ": keep-alive\n", true, promptOnly},
		{"streaming, in the middle of the stream, FIN", askStream, stream, half, false, withText}, // covers: F19
		{"streaming, in the middle of the stream, RST", askStream, stream, half, true, withText},  // covers: F20
		// covers: F19
		{"non-streaming, in the middle of a document, FIN", ask, []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", "Content-Length: 1000"), upstreamtest.Write(`{"id":`)}, "", false, promptOnly},
		// covers: F20
		{"non-streaming, in the middle of a document, RST", ask, []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", "Content-Length: 1000"), upstreamtest.Write(`{"id":`)}, "", true, promptOnly},
		{"non-streaming, in the middle of the upstream stream, FIN", ask, stream, "", false, withText}, // covers: F19
		{"non-streaming, in the middle of the upstream stream, RST", ask, stream, "", true, withText},  // covers: F20
		// covers: F19
		{"non-streaming, in the middle of an error, FIN", ask, []upstreamtest.Step{upstreamtest.Head(500, "Content-Type: application/json", "Content-Length: 1000"), upstreamtest.Write(`{"error":`)}, "", false, map[string]string{"prompt_tokens": "", "completion_tokens": "", "usage_estimated": ""}},
	}
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		begun := make([]chan struct{}, len(cases))
		var scripts []upstreamtest.Script
		for i, c := range cases {
			begun[i] = make(chan struct{})
			script := append(upstreamtest.Script{upstreamtest.ReadRequest()}, c.script...)
			scripts = append(scripts, append(script, upstreamtest.Signal(begun[i]), upstreamtest.AwaitClose(), upstreamtest.Wait(never)))
		}
		provider := upstreamtest.New(t, scripts...)
		g := proxytest.Start(t, configuration(provider.URL(), "")+table)
		admin := g.Admin(t)
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				id := fmt.Sprint("leaves-", i)
				client := dial(t, g)
				client.post(id, c.body)
				<-begun[i]
				if c.wait != "" {
					client.readUntil(c.wait)
				}
				left := time.Now()
				client.disconnect(c.reset)
				awaitEnd(t, provider)
				t.Logf("upstream connection closed after %v", time.Since(left))
				wantDisconnect(t, g, id, c.logged)
				awaitReleased(t, admin)
			})
		}
	})
}

// TestClientDisconnectBeforeUpstream has clients disconnect while they send their request, and while it waits for a
// plugin. Nothing may be sent to a provider, and all resources must be released.
//
// covers: F18
func TestClientDisconnectBeforeUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("disconnects at every step")
	}
	t.Parallel()
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		for _, reset := range []bool{false, true} {
			how := map[bool]string{false: "FIN", true: "RST"}[reset]
			t.Run("in the middle of the request, "+how, func(t *testing.T) {
				provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
				g := proxytest.Start(t, configuration(provider.URL(), "")+table)
				admin := g.Admin(t)
				for i, framing := range []string{"Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n186a0\r\n"} {
					client := dial(t, g)
					client.send(strings.Replace(postHead, "\r\n", fmt.Sprintf("\r\nX-Request-Id: uploads-%d\r\n", i), 1) + framing + strings.Repeat(" ", 50_000))
					proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_completions_in_flight") == 1 })
					client.disconnect(reset)
					line := g.Log.Request(t, fmt.Sprint("uploads-", i))
					if status := line["status"]; status != "499" && (status != "400" || reset || table != "") {
						// Without TLS, a FIN may be a half-close, and the client gets an error for the incomplete body.
						t.Errorf("logged as %v", line)
					}
					awaitReleased(t, admin)
				}
				if n := provider.Connections(); n > 0 {
					t.Errorf("got %d connections to the provider, want 0", n)
				}
			})
			t.Run("waiting for a plugin, "+how, func(t *testing.T) {
				// Only one call with a body runs at a time, and each takes nearly the whole time limit.
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
				provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()})
				g := proxytest.StartWith(t, proxytest.Keys+guest(t, "hostile", "shared")+hostileProvider("p", provider.URL(), "slow")+table,
					func(o *proxy.Options) { o.PluginWait = proxytest.EventTimeout })
				ask := strings.Replace(canaryRequest("p/slow", false), canary, strings.Repeat("x", 500_000), 1)
				admin := g.Admin(t)
				const queued = 60
				var before []*rawClient
				for i := range queued { // each at once, because a connection without a request is closed after a while
					before = append(before, dial(t, g))
					before[i].post(fmt.Sprint("before-", i), ask)
				}
				// The queue is first come, first served, so the last request waits for all others.
				awaitReceived := func(n float64) {
					t.Helper()
					proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
						return m.Sum("sluice_completions_in_flight")+m.Sum("sluice_requests_total") >= n
					})
				}
				awaitReceived(queued)
				client := dial(t, g)
				client.post("waits", ask)
				awaitReceived(queued + 1)
				client.disconnect(reset)
				wantDisconnect(t, g, "waits", map[string]string{"prompt_tokens": ""})
				for _, c := range before {
					c.disconnect(reset)
				}
				awaitReleased(t, admin)
			})
		}
	})
}

// TestClientDisconnectDuringLargeResponse has clients disconnect, or stop reading, while a large response is written.
// It must not be logged as complete.
//
// covers: F17 F19
func TestClientDisconnectDuringLargeResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts, and puts load on the machine")
	}
	t.Parallel()
	large := `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("long ", 4<<20) +
		`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":5}}`
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", large))})
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nwrite_timeout = \"2s\"", 1)+table)
		admin := g.Admin(t)
		usage := map[string]string{"prompt_tokens": "3", "completion_tokens": "5"}
		for name, leave := range map[string]func(*rawClient){
			"reads nothing": func(*rawClient) {},                        // covers: F17
			"FIN":           func(c *rawClient) { c.disconnect(false) }, // covers: F19
			"RST":           func(c *rawClient) { c.disconnect(true) },  // covers: F20
		} {
			t.Run(name, func(t *testing.T) {
				client := dial(t, g)
				if err := client.SetReadBuffer(4 << 10); err != nil {
					t.Fatal(err)
				}
				id := strings.ReplaceAll(name, " ", "-")
				client.post(id, ask)
				client.readUntil("\r\n\r\n")
				leave(client)
				wantDisconnect(t, g, id, usage)
				awaitReleased(t, admin)
			})
		}
		// covers: F25
		t.Run("after the last byte", func(t *testing.T) {
			r := g.Do(t, "POST", "/v1/chat/completions", ask, "X-Request-Id: reads-all")
			if r.Status != 200 || len(r.Body) < 20<<20 {
				t.Fatalf("status %d, %d bytes", r.Status, len(r.Body))
			}
			if line := g.Log.Request(t, "reads-all"); line["status"] != "200" || line["complete"] != "true" || line["bytes"] != fmt.Sprint(len(r.Body)) {
				t.Errorf("logged as %v", line)
			}
		})
	})
}

// TestSlowReaderAppliesBackpressure checks that the gateway stops reading from the provider when a client does not
// read. The client is disconnected when it has read nothing for the write timeout, and not before.
//
// covers: F17
func TestSlowReaderAppliesBackpressure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts, and puts load on the machine")
	}
	t.Parallel()
	event := text(strings.Repeat("x", 32<<10))
	const limit = 64 << 20 // more than all buffers on the way hold
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		var sent atomic.Int64
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), func(c *upstreamtest.Conn) error {
				for sent.Load() < limit {
					if err := upstreamtest.Chunk(event)(c); err != nil {
						return err
					}
					sent.Add(int64(len(event)))
				}
				return nil
			}, upstreamtest.AwaitClose(),
		})
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nwrite_timeout = \"1s\"", 1)+table)
		admin := g.Admin(t)
		client := dial(t, g)
		client.post("slow", askStream)
		// It reads before the write timeout each time.
		for range 3 {
			if _, err := io.CopyN(io.Discard, client.r, 256<<10); err != nil {
				t.Fatal(err)
			}
		}
		wantDisconnect(t, g, "slow", nil)
		if n := sent.Load(); n >= limit {
			t.Errorf("no backpressure: the provider sent %d bytes", n)
		}
		awaitReleased(t, admin)
	})
}

// TestDisconnectAfterLastByteIsComplete closes the connection with the last byte of a stream.
//
// covers: F25
func TestDisconnectAfterLastByteIsComplete(t *testing.T) {
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		for _, last := range []struct {
			name   string
			script upstreamtest.Step
		}{
			// The response's body does not end: waiting for its end would mean noticing the disconnect first.
			{"upstream body open", upstreamtest.AwaitClose()},
			{"upstream body complete", upstreamtest.LastChunk()},
		} {
			t.Run(last.name, func(t *testing.T) {
				provider := upstreamtest.New(t, upstreamtest.Script{
					upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hello"), finish, "data: [DONE]\n\n"), last.script,
				})
				g := proxytest.Start(t, configuration(provider.URL(), "")+table)
				admin := g.Admin(t)
				for i := range 20 {
					id := fmt.Sprint("leaves-", i)
					client := dial(t, g)
					client.post(id, askStream)
					client.readUntil("data: [DONE]\n\n")
					client.disconnect(i%2 == 0)
					if line := g.Log.Request(t, id); line["status"] != "200" || line["complete"] != "true" || line["code"] != "" {
						t.Errorf("logged as %v", line)
					}
				}
				awaitReleased(t, admin)
			})
		}
	})
}
