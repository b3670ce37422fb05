package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// getStatus returns what the admin API has at /status.
func getStatus(t *testing.T, adminURL string) admin.Status {
	t.Helper()
	code, body := proxytest.Get(t, adminURL+"/status")
	var s admin.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 {
		t.Fatalf("status %d, %v: %s", code, err, body)
	}
	return s
}

// TestCountersSurviveReload checks that counters keep their values over reloads. Prometheus would take a counter that
// decreases for a restart, and count what it had counted before again.
func TestCountersSurviveReload(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`))})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	adminURL := g.Admin(t)
	sums := func(m proxytest.Metrics) []float64 {
		return []float64{
			m.Sum("sluice_requests_total"), m.Sum("sluice_attempts_total"), m.Sum("sluice_upstream_connects_total"), m.Sum("sluice_upstream_reuses_total"),
			m.Sum("sluice_plugin_calls_total"), m.Sum("sluice_plugin_fuel_total"),
		}
	}
	var before []float64
	for i := range 4 {
		for range 3 {
			g.Chat(t, ask)
		}
		if err := g.Reload(t, configuration(provider.URL(), "")); err != nil {
			t.Fatal(err)
		}
		m := proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool { return m.Sum("sluice_config_generations_open") == 1 })
		after := sums(m)
		for j := range before {
			if after[j] < before[j] {
				t.Errorf("sum %d decreases: %v before the reload, %v after", j, before, after)
			}
		}
		before = after
		if after[0] != float64(3*(i+1)) || m.Sum("sluice_attempts_total", "provider", "openai", "target", "gpt-upstream", "outcome", "answered") != after[0] {
			t.Errorf("after %d requests the sums are %v", 3*(i+1), after)
		}
		if after[2]+after[3] != after[0] {
			t.Errorf("%v connections and %v reuses for %v requests", after[2], after[3], after[0])
		}
	}
}

// TestGaugesReturnToZero has concurrent clients that receive responses, errors and truncated streams, or disconnect in
// any phase. Each request must be counted once, and all gauges must return to zero.
func TestGaugesReturnToZero(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many requests of every outcome")
	}
	hold := make(chan struct{})
	scripts := []upstreamtest.Script{
		{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk()},
		{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one")), upstreamtest.Reset()},
		{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one")), upstreamtest.Wait(hold)},
		{upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", `{"error":{"message":"no"}}`, "Connection: close")},
		{upstreamtest.ReadRequest(), upstreamtest.Wait(hold)},
		{upstreamtest.Reset()},
	}
	var all []upstreamtest.Script
	for range 200 {
		all = append(all, scripts...)
	}
	provider := upstreamtest.New(t, all...)
	g := proxytest.Start(t, strings.ReplaceAll(configuration(provider.URL(), ""), `first_byte = "3s", idle = "3s"`, `first_byte = "200ms", idle = "200ms"`))
	adminURL := g.Admin(t)
	const clients, each = 6, 20
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range each {
				c, err := net.Dial("tcp", g.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				body := askStream
				switch (i + j) % 5 {
				case 0:
					body = strings.Replace(askStream, "gpt", "demo", 1)
				case 1:
					body = ask
				case 2:
					body = "{"
				}
				_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX-Request-Id: storm-%d-%d\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", i, j, proxytest.Key, len(body), body)
				switch j % 4 {
				case 0: // resets the connection at once
					_ = c.(*net.TCPConn).SetLinger(0)
				case 1: // disconnects after the first byte
					_, _ = c.Read(make([]byte, 1))
				case 2: // disconnects in the middle of the response
					_, _ = io.CopyN(io.Discard, c, 300)
				default:
					// The gateway's timeouts end the requests whose provider waits.
					_, _ = io.Copy(io.Discard, c)
				}
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	close(hold)
	m := proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_requests_in_flight")+m.Sum("sluice_streams_in_flight")+m.Sum("sluice_client_connections")+m.Sum("sluice_target_in_flight")+
			m.Sum("sluice_upstream_connections", "state", "used")+m.Sum("sluice_plugin_instances", "state", "used") == 0
	})
	lines := 0
	for _, line := range g.Log.Lines() {
		if line["msg"] == "request" {
			lines++
		}
	}
	if n := m.Sum("sluice_requests_total"); int(n) != lines || lines == 0 || lines > clients*each {
		t.Errorf("sluice_requests_total is %v, the log has %d requests, and clients sent at most %d", n, lines, clients*each)
	}
	disconnects, failures := m.Sum("sluice_requests_total", "code", "client_closed_request"), m.Sum("sluice_requests_total", "code", "upstream_unreachable")+m.Sum("sluice_requests_total", "code", "upstream_error")
	if disconnects == 0 || failures == 0 || m.Sum("sluice_requests_total", "code", "") == 0 {
		t.Errorf("want disconnects, failures and successes: %v disconnects, %v failures", disconnects, failures)
	}
	if s := getStatus(t, adminURL); s.Requests.Total != int64(lines) || s.Requests.Disconnects != int64(disconnects) || s.Requests.InFlight != 0 || s.Requests.Streams != 0 {
		t.Errorf("/status has requests %+v", s.Requests)
	}
}

func TestStreamsAreInFlightUntilTheyEnd(t *testing.T) {
	hold := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one")), upstreamtest.Wait(hold), upstreamtest.Chunk(finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	adminURL := g.Admin(t)
	c := dial(t, g)
	c.post("held", askStream)
	c.readUntil(": keep-alive")
	// A heartbeat is counted after it was written.
	m := proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool { return m.Sum("sluice_heartbeats_total") > 0 })
	for name, want := range map[string]float64{
		"sluice_requests_in_flight": 1, "sluice_streams_in_flight": 1, "sluice_client_connections": 1, "sluice_target_in_flight": 1, "sluice_requests_total": 0,
	} {
		if got := m.Sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if n := m.Sum("sluice_upstream_connections", "provider", "openai", "state", "used"); n != 1 {
		t.Errorf("%v connections to the provider are in use, want 1", n)
	}
	close(hold)
	c.readUntil("0\r\n\r\n")
	g.Log.Request(t, "held")
	if s := getStatus(t, adminURL); s.Requests.CompletionsMax == 0 || s.Requests.BodiesMax == 0 || s.Clients.Max == 0 {
		t.Errorf("/status lacks a limit: %+v, %+v", s.Requests, s.Clients)
	}
	m = proxytest.Scrape(t, adminURL)
	if m.Sum("sluice_streams_in_flight") != 0 || m.Sum("sluice_requests_total", "model", "gpt", "provider", "openai", "stream", "true", "status", "2xx", "code", "") != 1 {
		t.Error("the completed stream is still in flight, or not counted as a request")
	}
}

// TestUnknownNamesMakeNoSeries requests unknown models, paths and methods. None of their names may become a label
// value.
func TestUnknownNamesMakeNoSeries(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	adminURL := g.Admin(t)
	g.Chat(t, canaryRequest("unknown-0", false))
	before := proxytest.Scrape(t, adminURL)
	for i := range 50 {
		g.Chat(t, canaryRequest(fmt.Sprintf("unknown-%d", i), i%2 == 0))
		g.Do(t, "GET", fmt.Sprintf("/v1/models/unknown-%d", i), "")
		g.Do(t, "GET", fmt.Sprintf("/unknown-%d", i), "")
		g.Do(t, fmt.Sprintf("UNKNOWN%d", i), "/v1/models", "")
	}
	after := proxytest.Scrape(t, adminURL)
	// At most four new series: model_not_found of streams, and the errors of the other three kinds of requests.
	if n := after.Series("sluice_requests_total") - before.Series("sluice_requests_total"); n > 4 {
		t.Errorf("200 requests created %d series, want at most 4", n)
	}
	for _, label := range []string{"model", "path", "code", "provider", "reason", "target"} {
		for value := range after.Values(label) {
			if strings.Contains(strings.ToLower(value), "unknown-") {
				t.Errorf("label %s has value %s", label, value)
			}
		}
	}
	if got := after.Sum("sluice_requests_total", "code", "model_not_found"); got != 101 {
		t.Errorf("%v requests with model_not_found, want 101", got)
	}
}

// TestRejectionsAreCountedByReason triggers one rejection of each kind that a single gateway can produce.
func TestRejectionsAreCountedByReason(t *testing.T) {
	g := proxytest.Start(t, strings.Replace(configuration("", ""), "[server]\n", "[server]\nmax_conns = 2\n", 1))
	adminURL := g.Admin(t)
	for key, reason := range map[string]string{
		"Bearer unknown-0123456789": "unknown", "Bearer sk-expired-0123456789": "expired", "Bearer sk-disabled-0123456789": "disabled", "Basic abc": "malformed", "": "missing",
		"Bearer a, Bearer b": "duplicate", "Bearer sk-narrow-0123456789": "model",
	} {
		g.Do(t, "POST", "/v1/chat/completions", ask, "Authorization: "+key)
		if m := proxytest.Scrape(t, adminURL); m.Sum("sluice_refusals_total", "reason", reason) != 1 {
			t.Errorf("Authorization %q is not counted as %s", key, reason)
		}
	}
	// Two connections reach the limit, and the third is rejected. The connections of the requests above must be closed
	// first.
	proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool { return m.Sum("sluice_client_connections") == 0 })
	var held []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	if response, _ := io.ReadAll(held[2]); !strings.Contains(string(response), "gateway_overloaded") {
		t.Errorf("third connection: response %q", response)
	}
	m := proxytest.Scrape(t, adminURL)
	if m.Sum("sluice_shed_total", "reason", "connections") != 1 || m.Sum("sluice_client_connections") != 2 || m.Sum("sluice_client_connections_max") != 2 {
		t.Errorf("%v rejected, %v of at most %v connections", m.Sum("sluice_shed_total"), m.Sum("sluice_client_connections"), m.Sum("sluice_client_connections_max"))
	}
}

// TestTargetAndPluginMetrics opens a target's circuit breaker and checks the metrics.
func TestTargetAndPluginMetrics(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", `{"error":{"message":"no"}}`, "Connection: close")})
	g := proxytest.Start(t, strings.ReplaceAll(configuration(provider.URL(), ""), "enabled = false }", "failures = 3, pause = \"1h\", max_pause = \"1h\" }"))
	adminURL := g.Admin(t)
	before := proxytest.Scrape(t, adminURL)
	if before.Sum("sluice_target_healthy", "provider", "openai", "target", "gpt-upstream") != 1 || before.Sum("sluice_target_breaker", "provider", "openai") != 0 {
		t.Error("the unused target is not healthy")
	}
	m := proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool {
		g.Chat(t, ask)
		return m.Sum("sluice_target_breaker", "provider", "openai", "target", "gpt-upstream") == 2
	})
	if m.Sum("sluice_target_healthy", "provider", "openai") != 0 || m.Sum("sluice_target_breaker_opened_total", "provider", "openai") != 1 ||
		m.Sum("sluice_attempts_total", "provider", "openai", "outcome", "failed") < 1 || m.Sum("sluice_target_error_ratio", "provider", "openai") <= 0 {
		t.Error("the metrics of the target do not show that its circuit is open")
	}
	s := getStatus(t, adminURL)
	for _, p := range s.Providers {
		if p.Name == "openai" && (len(p.Targets) != 1 || p.Targets[0].State != "open" || p.Targets[0].Until == nil || p.Targets[0].Failed < 1 || p.Dialled < 1) {
			t.Errorf("/status has provider %+v", p)
		}
	}
	if len(s.Providers) != 3 || len(s.Models) != 5 || len(s.Plugins) < 4 {
		t.Errorf("%d providers, %d models, %d plugins", len(s.Providers), len(s.Models), len(s.Plugins))
	}
	calls, used := m.Sum("sluice_plugin_calls_total", "plugin", "openai"), m.Sum("sluice_plugin_fuel_total", "plugin", "openai")
	if calls < 1 || used < calls || m.Sum("sluice_plugin_instances", "plugin", "openai") < 1 {
		t.Errorf("plugin openai has %v calls and %v units of fuel", calls, used)
	}
}

// TestAdminRespondsUnderFullLoad sends requests while all client connections are in use.
func TestAdminRespondsUnderFullLoad(t *testing.T) {
	g := proxytest.Start(t, strings.Replace(configuration("", ""), "[server]\n", "[server]\nmax_conns = 1\n", 1))
	adminURL := g.Admin(t)
	c, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool { return m.Sum("sluice_client_connections") == 1 })
	if code, _ := proxytest.Get(t, adminURL+"/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: status %d", code)
	}
}

// TestListedModelsShareOneSeries uses a configured model and two that a provider lists, whose label values are "other".
func TestListedModelsShareOneSeries(t *testing.T) {
	respond := upstreamtest.Answer(200, "application/json", `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", `{"object":"list","data":[{"id":"gpt-b","object":"model"},{"id":"gpt-c","object":"model"}]}`, "Connection: close")},
		upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), respond)})
	g := proxytest.Start(t, listedModelsConfig(provider.URL(), "http://127.0.0.1:1"))
	adminURL := g.Admin(t)
	for _, model := range []string{"gpt-b", "gpt-c", "gpt-a"} {
		if r := g.Chat(t, canaryRequest(model, false)); r.Status != 200 {
			t.Fatalf("%s: %d %s", model, r.Status, r.Body)
		}
	}
	// A request is counted after its response was written.
	m := proxytest.AwaitMetrics(t, adminURL, func(m proxytest.Metrics) bool { return m.Sum("sluice_requests_total", "provider", "openai") == 3 })
	for name, want := range map[string]float64{"gpt-a": 1, "other": 2} {
		if got := m.Sum("sluice_requests_total", "model", name, "provider", "openai"); got != want {
			t.Errorf("%v requests for %s, want %v", got, name, want)
		}
		if got := m.Sum("sluice_attempts_total", "target", name, "provider", "openai", "outcome", "answered"); got != want {
			t.Errorf("%v attempts at %s, want %v", got, name, want)
		}
	}
	if values := m.Values("target"); values["gpt-b"] || values["gpt-c"] {
		t.Errorf("label target has values %v, want no listed model", values)
	}
}

// TestRequestsAreCountedByKey uses keys whose requests succeed, exceed a limit or are rejected.
func TestRequestsAreCountedByKey(t *testing.T) {
	g := proxytest.Start(t, configuration("", "")+"[[keys]]\nname = \"limited\"\nsecret = \"sk-limited-0123456789\"\nmodels = [\"*\"]\nlimits = { requests_per_minute = 1 }\n"+
		"[[keys]]\nname = \"early\"\nsecret = \"sk-early-0123456789\"\nmodels = [\"*\"]\nnot_before = 2999-01-01\n")
	adminURL := g.Admin(t)
	const demo = `{"model":"demo","messages":[{"role":"user","content":"Hello, gateway"}]}`
	use := func(key, body string, status int) {
		t.Helper()
		r := g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789")
		if r.Status != status {
			t.Fatalf("key %s: status %d, want %d: %s", key, r.Status, status, r.Body)
		}
		g.Log.Request(t, r.RequestID())
	}
	use("limited", demo, 200)
	use("limited", demo, 429)
	use("limited", demo, 429)
	use("narrow", ask, 404)
	use("expired", demo, 401)
	use("disabled", demo, 401)
	use("early", demo, 401)
	use("unknown", demo, 401)
	m := proxytest.Scrape(t, adminURL)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{3, "sluice_key_requests_total", []string{"key", "limited"}},
		{1, "sluice_key_requests_total", []string{"key", "narrow"}},
		{0, "sluice_key_requests_total", []string{"key", "expired"}},
		{2, "sluice_key_rejected_total", []string{"key", "limited", "reason", "requests_per_minute"}},
		{1, "sluice_key_rejected_total", []string{"key", "narrow", "reason", "model"}},
		{1, "sluice_key_rejected_total", []string{"key", "expired", "reason", "expired"}},
		{1, "sluice_key_rejected_total", []string{"key", "disabled", "reason", "disabled"}},
		{1, "sluice_key_rejected_total", []string{"key", "early", "reason", "not_yet_valid"}},
		{6, "sluice_key_rejected_total", nil},
	} {
		if got := m.Sum(c.name, c.labels...); got != c.want {
			t.Errorf("%s %v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if m.Sum("sluice_key_tokens_total", "key", "limited") != m.Sum("sluice_tokens_total", "kind", "prompt")+m.Sum("sluice_tokens_total", "kind", "completion") || m.Sum("sluice_key_tokens_total") == 0 {
		t.Error("sluice_key_tokens_total and sluice_tokens_total differ")
	}
	s := getStatus(t, adminURL)
	found := map[string]bool{}
	for _, k := range s.Keys {
		found[k.Name] = true
		switch {
		case k.Name == "limited" && (k.Requests != 3 || k.Rejected["requests_per_minute"] != 2 || k.PromptTokens == 0 || k.State != ""),
			k.Name == "expired" && (k.State != "expired" || k.Rejected["expired"] != 1), k.Name == "disabled" && k.State != "disabled", k.Name == "early" && k.State != "not valid yet":
			t.Errorf("/status has key %+v", k)
		}
	}
	if len(found) != s.KeysTotal || !found["limited"] || !found["early"] || s.Requests.Statuses["200"] != 1 || s.Requests.Statuses["429"] != 2 {
		t.Errorf("%d keys, %v, statuses %v", s.KeysTotal, found, s.Requests.Statuses)
	}
}

// TestLastErrorOfTarget has a provider reject a request and quote it. The error must be in /status and on the status
// page, without the provider's message.
func TestLastErrorOfTarget(t *testing.T) {
	up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(404, "application/json", `{"error":{"message":"no such page, PROMPT","code":"made_up"}}`, "Connection: close")})
	g := proxytest.Start(t, configuration(up.URL(), ""))
	adminURL := g.Admin(t)
	r := g.Chat(t, ask)
	g.Log.Request(t, r.RequestID())
	for _, p := range getStatus(t, adminURL).Providers {
		if p.Name != "openai" {
			continue
		}
		want := "provider openai: POST " + up.URL() + "/chat/completions: status 404"
		if e := p.Targets[0].LastError; e == nil || e.Code != "upstream_not_found" || e.Text != want || e.At.IsZero() || p.Targets[0].Failures != 1 {
			t.Errorf("/status has target %+v with last error %+v", p.Targets[0], e)
		}
	}
	if _, page := proxytest.Get(t, adminURL+"/"); !strings.Contains(page, "upstream_not_found: provider openai: POST") || strings.Contains(page, "PROMPT") {
		t.Errorf("the status page lacks the error, or contains the provider's message: %s", page)
	}
}
