package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// covers: F80 F134
func TestReloadAppliesToNewRequests(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	first := configuration(provider.URL(), "")
	g := proxytest.Start(t, first)
	c := dial(t, g)
	c.post("old", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)

	// The next configuration has neither the model nor the key of the open stream.
	next := strings.NewReplacer(`id           = "gpt"`, `id           = "gpt-renamed"`, proxytest.Key, "sk-next-0123456789").Replace(first)
	if err := g.Reload(t, next); err != nil {
		t.Fatal(err)
	}
	if r := g.Chat(t, ask); r.Status != 401 {
		t.Errorf("old key: status %d: %s", r.Status, r.Body)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-next-0123456789"); !strings.Contains(r.Body, "gpt-renamed") {
		t.Errorf("new key: models %s, want gpt-renamed", r.Body)
	}
	close(proceed)
	if rest := c.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %q", rest)
	}
}

// covers: F81
func TestFailedReloadKeepsConfiguration(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	err := g.Reload(t, strings.Replace(configuration("", ""), `strategy = "priority"`, `strategy = "by whim"`, 1))
	var build *proxy.BuildError
	if !errors.As(err, &build) || !strings.Contains(err.Error(), "router") {
		t.Errorf("reload: %v, want a BuildError that names the router", err)
	}
	if r := g.Chat(t, hello); r.Status != 200 {
		t.Errorf("request after the reload: status %d: %s", r.Status, r.Body)
	}
}

const reloads = 40

// pacedProvider speaks chat completions and Messages. A stream with the prompt "held" gets a word after each reload.
// Any other stream gets all words at once.
type pacedProvider struct {
	*httptest.Server
	reloaded [reloads]chan struct{} // the test closes one after each reload
}

func newPacedProvider(t *testing.T) *pacedProvider {
	p := &pacedProvider{}
	for i := range p.reloaded {
		p.reloaded[i] = make(chan struct{})
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		held := strings.Contains(string(body), `"held"`)
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(name, data string) {
			if name != "" {
				fmt.Fprintf(w, "event: %s\n", name)
			}
			fmt.Fprintf(w, "data: %s\n\n", data)
			_ = http.NewResponseController(w).Flush()
		}
		anthropic := strings.HasSuffix(r.URL.Path, "/messages")
		if anthropic {
			event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`)
			event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		}
		for i := range reloads {
			if held {
				select {
				case <-p.reloaded[i]:
				case <-r.Context().Done():
					return
				}
			}
			if anthropic {
				event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w%d "}}`, i))
			} else {
				event("", fmt.Sprintf(`{"id":"up-1","model":"m","choices":[{"index":0,"delta":{"content":"w%d "}}]}`, i))
			}
		}
		if anthropic {
			event("content_block_stop", `{"type":"content_block_stop","index":0}`)
			event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`)
			event("message_stop", `{"type":"message_stop"}`)
			return
		}
		event("", `{"id":"up-1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		event("", `[DONE]`)
	}))
	t.Cleanup(p.Close)
	return p
}

// uniqueMembers matches the members of a chunk that differ between responses.
var uniqueMembers = regexp.MustCompile(`"id":"chatcmpl-[0-9a-f]+"|"created":[0-9]+`)

// TestReloadsUnderLoad reloads as fast as possible while short streams start and end, and others stay open from the
// first configuration to the last. Each stream must have the same bytes as without reloads. In the end, all resources
// of the old configurations must be released.
//
// covers: F80 F83
func TestReloadsUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of streams")
	}
	provider := newPacedProvider(t)
	// Without heartbeats, all streams have the same bytes.
	toml := strings.Replace(configuration(provider.URL, provider.URL), `heartbeat = "40ms"`, `heartbeat = "1h"`, 1)
	g := proxytest.Start(t, toml)
	admin := g.Admin(t)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	stream := func(model, prompt string) (string, error) {
		body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, model, prompt)
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Authorization", "Bearer "+proxytest.Key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != 200 {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		return uniqueMembers.ReplaceAllString(string(b), ""), err
	}
	want := map[string]string{}
	for _, model := range []string{"gpt", "claude"} {
		var err error
		if want[model], err = stream(model, "short"); err != nil || !strings.HasSuffix(want[model], "data: [DONE]\n\n") || !strings.Contains(content(want[model]), "w39 ") {
			t.Fatalf("%s: %v %s", model, err, want[model])
		}
	}
	client.CloseIdleConnections()
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_client_connections") == 0 })
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors(t)

	var streams sync.WaitGroup
	var short atomic.Int64
	compare := func(model, got string, err error) {
		if err != nil || got != want[model] {
			t.Errorf("%s: %v, want (-), got (+):\n%s", model, err, cmp.Diff(want[model], got))
		}
	}
	for i := range 20 {
		model := []string{"gpt", "claude"}[i%2]
		streams.Go(func() {
			got, err := stream(model, "held")
			compare(model, got, err)
		})
	}
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_requests_in_flight") == 20 })
	stop := make(chan struct{})
	for i := range 4 {
		model := []string{"gpt", "claude"}[i%2]
		streams.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := stream(model, "short")
				compare(model, got, err)
				short.Add(1)
			}
		})
	}
	for i := range reloads {
		if err := g.Reload(t, toml+fmt.Sprintf("\n[[keys]]\nname = \"k%d\"\nsecret = \"sk-reload-%d-0123456789\"\nmodels = [\"*\"]\n", i, i)); err != nil {
			t.Fatal(err)
		}
		close(provider.reloaded[i])
	}
	close(stop)
	streams.Wait()
	if short.Load() == 0 {
		t.Error("no short stream was sent")
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-reload-39-0123456789"); r.Status != 200 {
		t.Errorf("key of the last configuration: status %d, want 200", r.Status)
	}
	client.CloseIdleConnections()
	m := proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_config_generations_open") == 1 && m.Sum("sluice_requests_in_flight") == 0
	})
	if n := m.Sum("sluice_config_generation"); n != reloads+1 {
		t.Errorf("sluice_config_generation is %g, want %d", n, reloads+1)
	}
	t.Logf("%d short streams", short.Load())
	settled := func() bool {
		return runtime.NumGoroutine() <= goroutines+slack && openDescriptors(t) <= descriptors+slack
	}
	for deadline := time.Now().Add(proxytest.EventTimeout); !settled(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d file descriptors, before the reloads %d and %d", runtime.NumGoroutine(), openDescriptors(t), goroutines, descriptors)
		}
	}
}

// slack allows for goroutines and descriptors that come and go: idle workers of fasthttp and idle connections to the
// provider. It is less than a leak per reload would add up to.
const slack = 12

// openDescriptors returns the number of the process's file descriptors, or 0 on systems without /proc.
func openDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(open)
}

// TestReplacedConfigurationHoldsNoInstances checks that a replaced configuration releases its plugin instances, even
// while an open stream still uses the configuration.
//
// covers: F80
func TestReplacedConfigurationHoldsNoInstances(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.AwaitClose(),
	})
	toml := strings.ReplaceAll(configuration(provider.URL(), ""), `idle = "3s"`, `idle = "30s"`)
	g := proxytest.Start(t, toml)
	admin := g.Admin(t)
	c := dial(t, g)
	c.post("held", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)
	before := proxytest.Scrape(t, admin).Sum("sluice_plugin_instances")
	for range 5 {
		if err := g.Reload(t, toml); err != nil {
			t.Fatal(err)
		}
	}
	// Background work of a replaced configuration may end a moment later.
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_config_generations_open") == 2 && m.Sum("sluice_plugin_instances") <= before
	})
	c.Close()
}

// TestReloadChangesServerLimits checks new limits on new connections and, for max_body, on an open one.
//
// covers: F80
func TestReloadChangesServerLimits(t *testing.T) {
	toml := configuration("", "")
	g := proxytest.Start(t, toml)
	set := func(members string) {
		t.Helper()
		if err := g.Reload(t, strings.Replace(toml, "max_body  = \"1MiB\"", members, 1)); err != nil {
			t.Fatal(err)
		}
	}
	open := dial(t, g)
	large := strings.Replace(hello, "Hello", strings.Repeat("x", 4000), 1)
	open.post("before", large)
	if answer := open.readUntil("\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Fatalf("4 KB request: %s, want status 200", answer)
	}
	open.readUntil("}}")

	set(`max_body = "2KiB"`)
	open.post("after", large)
	if answer := open.readUntil("\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 413 ") {
		t.Errorf("max_body: %s", answer)
	}

	set(`idle_timeout = "50ms"`)
	idle := dial(t, g)
	idle.post("idle", hello)
	if rest, err := io.ReadAll(idle.r); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 200 ") {
		t.Errorf("idle_timeout: %v %s", err, rest)
	}

	set(`read_timeout = "50ms"`)
	if rest, err := io.ReadAll(dial(t, g).r); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 408 ") {
		t.Errorf("read_timeout: %v %s", err, rest)
	}

	held := dial(t, g)
	held.post("held", hello)
	held.readUntil("}}")
	set(`max_conns = 1`)
	if rest, err := io.ReadAll(dial(t, g).r); err != nil || !strings.HasPrefix(string(rest), "HTTP/1.1 503 ") {
		t.Errorf("max_conns: %v %s", err, rest)
	}
}

// covers: F81
func TestLogNamesChangesThatNeedRestart(t *testing.T) {
	toml := configuration("", "")
	g := proxytest.Start(t, toml)
	next := strings.Replace(toml, "[server]\n", "[server]\nlisten = \"127.0.0.1:9\"\nread_timeout = \"9s\"\n", 1)
	for range 2 {
		if err := g.Reload(t, next); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Reload(t, toml); err != nil {
		t.Fatal(err)
	}
	var logged []string // changes, and with "! " members that need a restart
	for _, line := range g.Log.Lines() {
		switch line["msg"] {
		case "configuration reloaded":
			logged = append(logged, line["changed"])
		case "change requires a restart; keeping the old value":
			logged = append(logged, "! "+line["member"])
		}
	}
	want := []string{"server.listen, server.read_timeout", "! server.listen", "nothing", "! server.listen", "server.listen, server.read_timeout"}
	if diff := cmp.Diff(want, logged); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
