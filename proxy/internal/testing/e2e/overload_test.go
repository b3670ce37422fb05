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

// wantOverloaded checks that a response is the error of an overloaded gateway.
func wantOverloaded(t *testing.T, response string) {
	t.Helper()
	for _, want := range []string{"HTTP/1.1 503 ", "\r\nContent-Type: application/json\r\n", "\r\nRetry-After: 1\r\n", "\r\nX-Request-Id: ", `"type":"service_unavailable_error"`, `"code":"gateway_overloaded"`} {
		if !strings.Contains(response, want) {
			t.Errorf("no %q in %q", want, response)
		}
	}
}

// TestConnectionsAboveLimit opens a hundred connections above the limit. They must be closed, at least half of them
// with an error, without an effect on the connections within the limit.
//
// covers: F6
func TestConnectionsAboveLimit(t *testing.T) {
	const limit, excess = 5, 100
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, strings.Replace(configuration("", ""), "[server]", fmt.Sprintf("[server]\nmax_conns = %d", limit), 1)+table)
		admin := g.Admin(t)
		var within []*rawClient
		for i := range limit {
			c := dial(t, g)
			c.post(fmt.Sprint("within-", i), hello)
			c.readUntil("}}")
			within = append(within, c)
		}
		var responses sync.Map
		var all sync.WaitGroup
		for i := range excess {
			c := dial(t, g)
			all.Go(func() {
				// The gateway does not read the request, and may have closed the connection before it is written.
				_, _ = io.WriteString(c.w, postHead+sized(hello))
				response, _ := io.ReadAll(c.r)
				responses.Store(i, string(response))
			})
		}
		all.Wait()
		n := 0
		responses.Range(func(_, response any) bool {
			if response != "" {
				n++
				wantOverloaded(t, response.(string))
				if !strings.Contains(response.(string), "\r\nConnection: close\r\n") {
					t.Errorf("no Connection: close in the response: %s", response)
				}
			}
			return true
		})
		// Only a limited number of responses are written at a time. Further connections are closed without one.
		if n < excess/2 {
			t.Errorf("%d of %d connections received a response", n, excess)
		}
		m := proxytest.Scrape(t, admin)
		if shed := m.Sum("sluice_shed_total", "reason", "connections"); shed != excess || m.Sum("sluice_client_connections") != limit {
			t.Errorf("%v connections rejected, %v open", shed, m.Sum("sluice_client_connections"))
		}
		for i, c := range within {
			c.post(fmt.Sprint("again-", i), hello)
			if got := c.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
				t.Errorf("connection within the limit: %s", got)
			}
		}
		within[0].Close()
		proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_client_connections") == limit-1 })
		c := dial(t, g)
		c.post("later", hello)
		if got := c.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
			t.Errorf("connection opened after another one was closed: %s", got)
		}
	})
}

// TestRequestsAboveLimit checks that requests above the limit get 503 before their body is read, and that their
// connection serves the next request if the body is small.
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
		c.post(fmt.Sprint("excess-", i), ask)
		wantOverloaded(t, c.readUntil("}}"))
		if line := g.Log.Request(t, fmt.Sprint("excess-", i)); line["status"] != "503" || line["code"] != "gateway_overloaded" || line["cause"] != "too many completions in flight" {
			t.Errorf("logged as %v", line)
		}
	}
	// The limit does not apply to requests that need no provider.
	if r := g.Do(t, "GET", "/v1/models", ""); r.Status != 200 {
		t.Errorf("GET /v1/models: %d %s", r.Status, r.Body)
	}
	// A request with a large or chunked body, or with Expect, is rejected before its body was sent.
	for _, framing := range []string{"Content-Length: 1000000\r\n\r\n", "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		large := dial(t, g)
		large.send(postHead + framing)
		response, err := io.ReadAll(large.r)
		if err != nil {
			t.Error(err)
		}
		wantOverloaded(t, string(response))
	}
	if n := len(provider.Requests()); n != 2 {
		t.Errorf("the provider received %d requests, want 2", n)
	}
	m := proxytest.Scrape(t, admin)
	if m.Sum("sluice_shed_total", "reason", "requests") != 6 || m.Sum("sluice_completions_in_flight") != 2 || m.Sum("sluice_completions_max") != 2 {
		t.Errorf("%v requests rejected, %v in flight", m.Sum("sluice_shed_total", "reason", "requests"), m.Sum("sluice_completions_in_flight"))
	}
	close(proceed)
	for _, s := range streams {
		if rest := s.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
			t.Errorf("stream in flight: %s", rest)
		}
	}
	awaitReleased(t, admin)
	c.post("recovered", ask)
	if got := c.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
		t.Errorf("request after the streams ended: %s", got)
	}
}

// requestOfSize returns the body of a request, n bytes long.
func requestOfSize(n int) string {
	const head, tail = `{"model":"gpt","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

// TestBodyMemoryLimit reaches the limit on memory for bodies with large requests, with Content-Length and chunked, and
// with large non-streaming responses. Small bodies must not be affected, and released memory must be available to the
// next request.
//
// covers: F8
func TestBodyMemoryLimit(t *testing.T) {
	const limit = 1 << 20
	proceed := make(chan struct{})
	respond := func(n int) upstreamtest.Step {
		return upstreamtest.Answer(200, "application/json", `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"`+strings.Repeat("y", n)+`"},"finish_reason":"stop"}]}`)
	}
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Wait(proceed), respond(5)},
		upstreamtest.Script{upstreamtest.ReadRequest(), respond(5)}, // small request, while the first is in flight
		upstreamtest.Script{upstreamtest.ReadRequest(), respond(5)}, // large request, after the first has ended
		upstreamtest.Script{upstreamtest.ReadRequest(), respond(8 * limit), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(slices.Repeat([]string{text(strings.Repeat("z", 64<<10))}, 20)...), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), respond(5)},
	)
	g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), `max_body  = "1MiB"`, `max_body = "1MiB"`+"\nmax_body_memory = \"1MiB\"", 1))
	admin := g.Admin(t)
	first := dial(t, g)
	first.post("first", requestOfSize(900_000))
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_body_memory_bytes") >= 800_000 && len(provider.Requests()) == 1
	})

	for name, send := range map[string]string{
		"Content-Length": fmt.Sprintf("Content-Length: %d\r\n\r\n", 900_000),
		"Expect":         fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", 900_000),
		"chunked":        "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", 600_000, requestOfSize(600_000)),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, g)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, _ = io.WriteString(c.w, postHead+send)
			}()
			response, err := io.ReadAll(c.r)
			if err != nil {
				t.Error(err)
			}
			<-sent
			wantOverloaded(t, string(response))
			if !strings.Contains(string(response), "\r\nConnection: close\r\n") {
				t.Errorf("no Connection: close in the response: %s", response)
			}
		})
	}
	if r := g.Chat(t, ask); r.Status != 200 {
		t.Errorf("small request: %d %s", r.Status, r.Body)
	}
	close(proceed)
	if got := first.readUntil("}}"); !strings.Contains(got, "HTTP/1.1 200") {
		t.Errorf("first request: %s", got)
	}
	awaitReleased(t, admin)
	if r := g.Chat(t, requestOfSize(900_000)); r.Status != 200 {
		t.Errorf("large request after the first has ended: %d %s", r.Status, r.Body)
	}
	for _, response := range []string{"non-streaming response", "stream that is aggregated"} {
		t.Run(response, func(t *testing.T) {
			r := g.Chat(t, ask)
			wantError(t, r, 503, "service_unavailable_error", "gateway_overloaded", "")
			g.Log.Request(t, r.RequestID())
			awaitEnd(t, provider)
			awaitReleased(t, admin)
		})
	}
	if r := g.Chat(t, ask); r.Status != 200 {
		t.Errorf("small request and response at the end: %d %s", r.Status, r.Body)
	}
	if n := proxytest.Scrape(t, admin).Sum("sluice_shed_total", "reason", "bodies"); n != 5 {
		t.Errorf("%v bodies rejected, want 5", n)
	}
}

// TestManyLargePrompts sends fifty prompts of 4 MiB at once to a gateway with default settings. All must get a
// response, and the memory must be released. Only the limit on waiting for a plugin is longer, for the race detector.
//
// covers: F11
func TestManyLargePrompts(t *testing.T) {
	const size = 4 << 20
	clients := scale(50, 5)
	together := make(chan struct{}) // closed when all requests have reached the provider or failed
	var arrived sync.WaitGroup
	arrived.Add(clients)
	go func() {
		arrived.Wait()
		close(together)
	}()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n < size {
			t.Errorf("the provider read %d bytes, error %v", n, err)
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
				// A machine that is too slow for fifty plugin calls a second rejects some requests with Retry-After: 1.
				r = g.Chat(t, prompt)
			}
			if r.Status != 200 {
				t.Errorf("status %d: %s", r.Status, r.Body)
				arrived.Done()
			}
		})
	}
	<-together
	held := heap()
	all.Wait()
	awaitReleased(t, admin)
	prompt = ""
	after := heap()
	t.Logf("heap %d MiB before, %d MiB with all requests in flight, %d MiB after", before>>20, held>>20, after>>20)
	if after > before+16<<20 {
		t.Errorf("%d MiB were not released", (after-before)>>20)
	}
}

// TestSlowClients checks that a client that sends its head or body too slowly gets an error at the deadline, and that
// the provider receives no connection.
//
// covers: F15 F16
func TestSlowClients(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	t.Parallel()
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nread_timeout = \"500ms\"", 1)+table)
		admin := g.Admin(t)
		for name, send := range map[string]string{
			// covers: F15
			"half a head":        "POST /v1/chat/completions HTTP/1.1\r\nHost: gate",
			"header without end": postHead + "X-Slow: ",
			// covers: F16
			"no body":           postHead + "Content-Length: 100\r\n\r\n",
			"half a body":       postHead + "Content-Length: 100\r\n\r\n" + ask[:30],
			"half a large body": postHead + "Content-Length: 100000\r\n\r\n" + strings.Repeat(" ", 50_000),
			"no last chunk":     postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n" + ask[:5] + "\r\n",
			"half a chunk":      postHead + "Transfer-Encoding: chunked\r\n\r\n50\r\n" + ask[:5],
			"half a chunk size": postHead + "Transfer-Encoding: chunked\r\n\r\n5",
		} {
			t.Run(name, func(t *testing.T) {
				c := dial(t, g)
				c.send(send)
				response, err := io.ReadAll(c.r)
				if err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 408 ") || !strings.Contains(string(response), `"code":"request_timeout"`) || !strings.Contains(string(response), "Connection: close\r\n") {
					t.Errorf("error %v, response %q", err, response)
				}
			})
		}
		if n := provider.Connections(); n > 0 {
			t.Errorf("the provider received %d connections, want none", n)
		}
		awaitReleased(t, admin)
	})
}
