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

// withAndWithoutTLS runs a test over plain HTTP and over TLS; table is what the configuration needs for that.
func withAndWithoutTLS(t *testing.T, test func(t *testing.T, table string)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, "") })
	if testing.Short() {
		return
	}
	t.Run("TLS", func(t *testing.T) { test(t, certtest.Valid(t).Table(t, t.TempDir())) })
}

// awaitReleased waits until no request holds anything of the gateway.
func awaitReleased(t *testing.T, admin string) {
	t.Helper()
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_completions_in_flight")+m.Sum("sluice_requests_in_flight")+m.Sum("sluice_streams_in_flight")+
			m.Sum("sluice_body_memory_bytes")+m.Sum("sluice_target_in_flight")+m.Sum("sluice_upstream_connections", "state", "used")+
			m.Sum("sluice_plugin_whole_calls")+m.Sum("sluice_plugin_waiting")+m.Sum("sluice_plugin_instances", "state", "used") == 0
	})
}

// disconnect ends the client's connection with a FIN, or a reset.
func (c *rawClient) disconnect(reset bool) {
	c.t.Helper()
	if reset {
		c.reset()
		return
	}
	c.Close()
}

// wantDisconnect checks how a request was accounted whose client left.
func wantDisconnect(t *testing.T, g *proxytest.Gateway, id string, want map[string]string) {
	t.Helper()
	line := g.Log.Request(t, id)
	if line["status"] != "499" || line["code"] != "client_closed_request" || line["complete"] == "true" {
		t.Errorf("accounted as %v", line)
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
		t.Errorf("%d lines in the log", lines)
	}
}

// TestClientDisconnectCancelsUpstream has clients disconnect in every phase of an upstream request, with a FIN and with
// a reset, streaming and not: each time the provider's connection is closed, everything is released, and the usage up
// to then is recorded as incomplete.
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
	prompt, said := map[string]string{"prompt_tokens": "1", "completion_tokens": "", "usage_estimated": "true"}, map[string]string{"prompt_tokens": "1", "completion_tokens": "2", "usage_estimated": "true"}
	cases := []struct {
		name, body string
		script     []upstreamtest.Step // behind the request
		wait       string              // what the client reads before it leaves
		reset      bool
		accounted  map[string]string
	}{
		// covers: F18
		{"streamed, before the head, FIN", askStream, nil, "", false, prompt},
		{"streamed, before the head, RST", askStream, nil, "", true, prompt},
		{"whole, before the head, FIN", ask, nil, "", false, prompt},
		{"whole, before the head, RST", ask, nil, "", true, prompt},
		// covers: F19
		{"streamed, before the first event, FIN", askStream, []upstreamtest.Step{upstreamtest.EventStream()}, ": keep-alive\n", false, prompt},
		// covers: F20
		{"streamed, before the first event, RST", askStream, []upstreamtest.Step{upstreamtest.EventStream()}, ": keep-alive\n", true, prompt},
		{"streamed, in the middle of the stream, FIN", askStream, stream, half, false, said}, // covers: F19
		{"streamed, in the middle of the stream, RST", askStream, stream, half, true, said},  // covers: F20
		// covers: F19
		{"whole, in the middle of a document, FIN", ask, []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", "Content-Length: 1000"), upstreamtest.Write(`{"id":`)}, "", false, prompt},
		// covers: F20
		{"whole, in the middle of a document, RST", ask, []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", "Content-Length: 1000"), upstreamtest.Write(`{"id":`)}, "", true, prompt},
		{"whole, in the middle of a stream, FIN", ask, stream, "", false, said}, // covers: F19
		{"whole, in the middle of a stream, RST", ask, stream, "", true, said},  // covers: F20
		// covers: F19
		{"whole, in the middle of an error, FIN", ask, []upstreamtest.Step{upstreamtest.Head(500, "Content-Type: application/json", "Content-Length: 1000"), upstreamtest.Write(`{"error":`)}, "", false, prompt},
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
				t.Logf("the provider knew after %v", time.Since(left))
				wantDisconnect(t, g, id, c.accounted)
				awaitReleased(t, admin)
			})
		}
	})
}

// TestClientDisconnectBeforeUpstream has clients disconnect while they send their request and while it waits for a
// plugin: nothing is sent to a provider, and everything is released.
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
						// Without TLS, one that has closed its sending side may still read why that was too soon.
						t.Errorf("accounted as %v", line)
					}
					awaitReleased(t, admin)
				}
				if n := provider.Connections(); n > 0 {
					t.Errorf("%d connections to the provider", n)
				}
			})
			t.Run("waiting for a plugin, "+how, func(t *testing.T) {
				// One call with a body at a time, each nearly as long as it may be.
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
				provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()})
				g := proxytest.StartWith(t, proxytest.Keys+guest(t, "hostile", "shared")+hostileProvider("p", provider.URL(), "slow")+table,
					func(o *proxy.Options) { o.PluginWait = proxytest.EventTimeout })
				ask := strings.Replace(askOf("p/slow", false), canary, strings.Repeat("x", 500_000), 1)
				admin := g.Admin(t)
				const queued = 60
				var before []*rawClient
				for range queued {
					before = append(before, dial(t, g))
				}
				client := dial(t, g)
				for i, c := range before {
					c.post(fmt.Sprint("before-", i), ask)
				}
				// The queue is first come, first served: the request that waits comes after all others, and is known to be there.
				arrived := func(n float64) {
					t.Helper()
					proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
						return m.Sum("sluice_completions_in_flight")+m.Sum("sluice_requests_total") >= n
					})
				}
				arrived(queued)
				client.post("waits", ask)
				arrived(queued + 1)
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

// TestClientDisconnectDuringLargeResponse has clients disconnect, or stop reading, while a large response is written to
// them: it is not recorded as complete.
//
// covers: F17 F19
func TestClientDisconnectDuringLargeResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs, or makes much load")
	}
	t.Parallel()
	large := `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("long ", 4<<20) +
		`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":5}}`
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", large))})
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nwrite_timeout = \"2s\"", 1)+table)
		admin := g.Admin(t)
		counted := map[string]string{"prompt_tokens": "3", "completion_tokens": "5"}
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
				wantDisconnect(t, g, id, counted)
				awaitReleased(t, admin)
			})
		}
		// covers: F25
		t.Run("after the last byte", func(t *testing.T) {
			r := g.Do(t, "POST", "/v1/chat/completions", ask, "X-Request-Id: reads-all")
			if r.Status != 200 || len(r.Body) < 20<<20 {
				t.Fatalf("%d, %d bytes", r.Status, len(r.Body))
			}
			if line := g.Log.Request(t, "reads-all"); line["status"] != "200" || line["complete"] != "true" || line["bytes"] != fmt.Sprint(len(r.Body)) {
				t.Errorf("accounted as %v", line)
			}
		})
	})
}

// TestSlowReaderAppliesBackpressure checks that the gateway does not read from the provider what a client does not
// read. The client is disconnected once it has read nothing for the write timeout, and not before.
//
// covers: F17
func TestSlowReaderAppliesBackpressure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs, or makes much load")
	}
	t.Parallel()
	event := text(strings.Repeat("x", 32<<10))
	const far = 64 << 20 // beyond what all buffers on the way take
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		var sent atomic.Int64
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), func(c *upstreamtest.Conn) error {
				for sent.Load() < far {
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
		// It reads now and then, each time before its time is over.
		for range 3 {
			if _, err := io.CopyN(io.Discard, client.r, 256<<10); err != nil {
				t.Fatal(err)
			}
		}
		wantDisconnect(t, g, "slow", nil)
		if n := sent.Load(); n >= far {
			t.Errorf("%d bytes were taken from the provider", n)
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
			// The provider's connection stays as it is: whoever waits for its end would find the client gone.
			{"the provider goes on", upstreamtest.AwaitClose()},
			{"the provider has ended", upstreamtest.LastChunk()},
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
						t.Errorf("accounted as %v", line)
					}
				}
				awaitReleased(t, admin)
			})
		}
	})
}
