package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// wantOverloaded checks that what a client reads is the answer to one that there is no room for.
func wantOverloaded(t *testing.T, answer string) {
	t.Helper()
	for _, want := range []string{"HTTP/1.1 503 ", "\r\nContent-Type: application/json\r\n", "\r\nRetry-After: 1\r\n", "\r\nX-Request-Id: ", `"type":"service_unavailable_error"`, `"code":"gateway_overloaded"`} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %q in %q", want, answer)
		}
	}
}

// TestConnectionsAboveLimit checks that a hundred connections above the limit get an error and are closed, whatever
// they send, and that those within the limit are not affected.
//
// covers: F6
func TestConnectionsAboveLimit(t *testing.T) {
	const limit, beyond = 5, 100
	overBoth(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, strings.Replace(configuration("", ""), "[server]", fmt.Sprintf("[server]\nmax_conns = %d", limit), 1)+table)
		admin := g.Admin(t)
		var inside []*rawClient
		for i := range limit {
			c := dial(t, g)
			c.post(fmt.Sprint("inside-", i), hello)
			c.readUntil("}}")
			inside = append(inside, c)
		}
		var told sync.Map
		var all sync.WaitGroup
		for i := range beyond {
			c := dial(t, g)
			all.Go(func() {
				// The gateway does not read it, and may have closed the connection before it is written.
				_, _ = io.WriteString(c.w, postHead+sized(hello))
				answer, _ := io.ReadAll(c.r)
				told.Store(i, string(answer))
			})
		}
		all.Wait()
		n := 0
		told.Range(func(_, answer any) bool {
			if answer != "" {
				n++
				wantOverloaded(t, answer.(string))
				if !strings.Contains(answer.(string), "\r\nConnection: close\r\n") {
					t.Errorf("it is not said that the connection ends: %s", answer)
				}
			}
			return true
		})
		// So many are told at a time; one that comes meanwhile is only closed.
		if n < beyond/2 {
			t.Errorf("%d of %d were told", n, beyond)
		}
		m := proxytest.Scrape(t, admin)
		if shed := m.Sum("sluice_shed_total", "reason", "connections"); shed != beyond || m.Sum("sluice_client_connections") != limit {
			t.Errorf("%v turned away, %v open", shed, m.Sum("sluice_client_connections"))
		}
		for i, c := range inside {
			c.post(fmt.Sprint("again-", i), hello)
			if got := c.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
				t.Errorf("a connection within the limit got %s", got)
			}
		}
		inside[0].Close()
		proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_client_connections") == limit-1 })
		c := dial(t, g)
		c.post("later", hello)
		if got := c.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
			t.Errorf("a connection that came when there was room got %s", got)
		}
	})
}

// TestRequestsAboveLimit checks that requests above the limit get 503 before their body is read, and that the
// connection serves the next one.
//
// covers: F8
func TestRequestsAboveLimit(t *testing.T) {
	proceed := make(chan struct{})
	held := upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	}
	provider := upstreamtest.New(t, held)
	g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nmax_requests = 2", 1))
	admin := g.Admin(t)
	var streams []*rawClient
	for i := range 2 {
		c := dial(t, g)
		c.post(fmt.Sprint("held-", i), askStream)
		c.readUntil(`"Hel"},"finish_reason":null}]}`)
		streams = append(streams, c)
	}
	c := dial(t, g)
	for i := range 3 {
		c.post(fmt.Sprint("beyond-", i), ask)
		wantOverloaded(t, c.readUntil("}}"))
		if line := g.Log.Request(t, fmt.Sprint("beyond-", i)); line["status"] != "503" || line["code"] != "gateway_overloaded" || line["cause"] != "too many completions in flight" {
			t.Errorf("accounted as %v", line)
		}
	}
	// What takes nothing is answered as ever.
	if r := g.Do(t, "GET", "/v1/models", ""); r.Status != 200 {
		t.Errorf("the models: %d %s", r.Status, r.Body)
	}
	// One that has a large body, or asks first, is told before any of it is sent.
	for _, framing := range []string{"Content-Length: 1000000\r\n\r\n", "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		large := dial(t, g)
		large.send(postHead + framing)
		answer, err := io.ReadAll(large.r)
		if err != nil {
			t.Error(err)
		}
		wantOverloaded(t, string(answer))
	}
	if n := len(provider.Requests()); n != 2 {
		t.Errorf("%d requests to the provider", n)
	}
	m := proxytest.Scrape(t, admin)
	if m.Sum("sluice_shed_total", "reason", "requests") != 6 || m.Sum("sluice_completions_in_flight") != 2 || m.Sum("sluice_completions_max") != 2 {
		t.Errorf("%v turned away, %v in flight", m.Sum("sluice_shed_total", "reason", "requests"), m.Sum("sluice_completions_in_flight"))
	}
	close(proceed)
	for _, s := range streams {
		if rest := s.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
			t.Errorf("a stream in flight was disturbed: %s", rest)
		}
	}
	awaitNothingHeld(t, admin)
	c.post("recovered", ask)
	if got := c.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
		t.Errorf("when there was room again: %s", got)
	}
}

// requestOfSize returns the body of a request, n bytes long.
func requestOfSize(n int) string {
	const head, tail = `{"model":"gpt","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

// TestBodyMemoryLimit has large requests, with a length and chunked, and large non-streaming responses reach the limit
// on memory for bodies: small ones are not affected, and released memory is available to the next one.
//
// covers: F8
func TestBodyMemoryLimit(t *testing.T) {
	const limit = 1 << 20
	proceed := make(chan struct{})
	whole := func(n int) upstreamtest.Step {
		return upstreamtest.Answer(200, "application/json", `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"`+strings.Repeat("y", n)+`"},"finish_reason":"stop"}]}`)
	}
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Wait(proceed), whole(5)},
		upstreamtest.Script{upstreamtest.ReadRequest(), whole(5)}, // small, beside it
		upstreamtest.Script{upstreamtest.ReadRequest(), whole(5)}, // large, when there is room
		upstreamtest.Script{upstreamtest.ReadRequest(), whole(8 * limit), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(slices.Repeat([]string{text(strings.Repeat("z", 64<<10))}, 20)...), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), whole(5)},
	)
	g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), `max_body  = "1MiB"`, `max_body = "1MiB"`+"\nmax_body_memory = \"1MiB\"", 1))
	admin := g.Admin(t)
	first := dial(t, g)
	first.post("first", requestOfSize(900_000))
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_body_memory_bytes") >= 800_000 && len(provider.Requests()) == 1
	})

	for name, send := range map[string]string{
		"the length says it":     fmt.Sprintf("Content-Length: %d\r\n\r\n", 900_000),
		"the client asks before": fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", 900_000),
		"chunks grow too large":  "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", 600_000, requestOfSize(600_000)),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, g)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, _ = io.WriteString(c.w, postHead+send)
			}()
			answer, err := io.ReadAll(c.r)
			if err != nil {
				t.Error(err)
			}
			<-sent
			wantOverloaded(t, string(answer))
			if !strings.Contains(string(answer), "\r\nConnection: close\r\n") {
				t.Errorf("the rest of the request would be read: %s", answer)
			}
		})
	}
	if r := g.Chat(t, ask); r.Status != 200 {
		t.Errorf("a small request: %d %s", r.Status, r.Body)
	}
	close(proceed)
	if got := first.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
		t.Errorf("the request in flight: %s", got)
	}
	awaitNothingHeld(t, admin)
	if r := g.Chat(t, requestOfSize(900_000)); r.Status != 200 {
		t.Errorf("a large request when there was room: %d %s", r.Status, r.Body)
	}
	for _, how := range []string{"a large document", "a stream that is gathered"} {
		t.Run(how, func(t *testing.T) {
			r := g.Chat(t, ask)
			wantError(t, r, 503, "service_unavailable_error", "gateway_overloaded", "")
			g.Log.Request(t, r.RequestID())
			awaitEnd(t, provider)
			awaitNothingHeld(t, admin)
		})
	}
	if r := g.Chat(t, ask); r.Status != 200 {
		t.Errorf("afterwards: %d %s", r.Status, r.Body)
	}
	if n := proxytest.Scrape(t, admin).Sum("sluice_shed_total", "reason", "bodies"); n != 5 {
		t.Errorf("%v turned away", n)
	}
}

// TestManyLargePrompts sends fifty prompts of 4 MiB at once through a gateway with default settings: all are answered,
// and the memory is released. Only the time limits are longer, for the race detector.
//
// covers: F11
func TestManyLargePrompts(t *testing.T) {
	const size = 4 << 20
	clients := scale(50, 5)
	together := make(chan struct{}) // closed when all of them have arrived, or have failed
	var arrived sync.WaitGroup
	arrived.Add(clients)
	go func() {
		arrived.Wait()
		close(together)
	}()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n < size {
			t.Errorf("the provider read %d bytes, %v", n, err)
		}
		arrived.Done()
		<-together
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)
	}))
	defer up.Close()
	toml := proxytest.Keys + fmt.Sprintf("[providers.up]\nplugin = \"openai\"\nbase_url = %q\n[[models]]\nid = \"gpt\"\ntargets = [{ provider = \"up\" }]\n", up.URL)
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.PluginWait = proxytest.EventTimeout })
	admin := g.Admin(t)
	heap := func() uint64 {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	prompt := requestOfSize(size)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			r := g.Chat(t, prompt)
			for deadline := time.Now().Add(proxytest.EventTimeout); r.Status == 503 && time.Now().Before(deadline); {
				// On a machine that is too slow for fifty plugin calls a second, some are told to come again.
				r = g.Chat(t, prompt)
			}
			if r.Status != 200 {
				t.Errorf("%d %s", r.Status, r.Body)
				arrived.Done()
			}
		})
	}
	<-together
	held := heap()
	all.Wait()
	awaitNothingHeld(t, admin)
	prompt = ""
	after := heap()
	t.Logf("heap %d MiB before, %d MiB with all of them, %d MiB after", before>>20, held>>20, after>>20)
	if after > before+16<<20 {
		t.Errorf("%d MiB stay", (after-before)>>20)
	}
}

// TestSlowClients checks that a client that sends its head or body too slowly gets an error at the deadline, and that
// no provider is involved.
//
// covers: F15 F16
func TestSlowClients(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for time-outs, or makes much load")
	}
	t.Parallel()
	overBoth(t, func(t *testing.T, table string) {
		provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nread_timeout = \"500ms\"", 1)+table)
		admin := g.Admin(t)
		for name, send := range map[string]string{
			// covers: F15
			"half a head":          "POST /v1/chat/completions HTTP/1.1\r\nHost: gate",
			"a header without end": postHead + "X-Slow: ",
			// covers: F16
			"no body":                   postHead + "Content-Length: 100\r\n\r\n",
			"half a body":               postHead + "Content-Length: 100\r\n\r\n" + ask[:30],
			"half a large body":         postHead + "Content-Length: 100000\r\n\r\n" + strings.Repeat(" ", 50_000),
			"chunks without an end":     postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n" + ask[:5] + "\r\n",
			"half a chunk":              postHead + "Transfer-Encoding: chunked\r\n\r\n50\r\n" + ask[:5],
			"within the chunk's length": postHead + "Transfer-Encoding: chunked\r\n\r\n5",
		} {
			t.Run(name, func(t *testing.T) {
				c := dial(t, g)
				c.send(send)
				answer, err := io.ReadAll(c.r)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), `"code":"request_timeout"`) || !strings.Contains(string(answer), "Connection: close\r\n") {
					t.Errorf("%v: %q", err, answer)
				}
			})
		}
		if n := provider.Connections(); n > 0 {
			t.Errorf("%d connections to the provider", n)
		}
		awaitNothingHeld(t, admin)
	})
}
