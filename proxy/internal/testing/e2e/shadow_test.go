package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// shadowedModel returns a model whose requests are served by the provider "live", and copied to the targets.
func shadowedModel(id string, share float64, targets ...string) string {
	var shadows []string
	for _, t := range targets {
		shadows = append(shadows, fmt.Sprintf("{ target = %q, share = %g }", t, share))
	}
	return fmt.Sprintf("[[models]]\nid = %q\npricing = { input = 1, output = 2 }\nretry = { attempts = 1 }\nshadow = [%s]\ntargets = [{ provider = \"live\", model = \"m\" }]\n", id, strings.Join(shadows, ", "))
}

// openAI returns a provider with the plugin openai.
func openAI(name, url string) string {
	return fmt.Sprintf("[providers.%s]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n", name, url)
}

// newLiveProvider starts a provider that responds "live" to every request, streaming or not.
func newLiveProvider(t *testing.T) *up.Server {
	return up.New(t, up.Script{up.Loop(up.ReadRequest(), func(c *up.Conn) error {
		if strings.Contains(string(c.Last().Body), `"stream":true`) {
			return respondStream("live")(c)
		}
		return respond("live")(c)
	})})
}

// generatedMembers matches the IDs and times that the gateway generates for each response.
var generatedMembers = regexp.MustCompile(`"(id|item_id|responseId|encrypted_content)":"[^"]*"|"(created|created_at|completed_at)":[0-9]+`)

// awaitCopies waits until a number of a model's copies have ended, and returns the metrics.
func awaitCopies(t *testing.T, admin, model string, copies float64) proxytest.Metrics {
	t.Helper()
	return proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_shadow_requests_total", "model", model) == copies })
}

// TestShadowChangesNothing checks for each API that a client's response is the same with and without a shadow, no
// matter how the shadow behaves.
func TestShadowChangesNothing(t *testing.T) {
	flood := func(c *up.Conn) error {
		if err := up.EventStream()(c); err != nil {
			return err
		}
		for err := up.Chunk("data: ")(c); err == nil; {
			err = up.Chunk(strings.Repeat("and so on ", 1600))(c)
		}
		return nil
	}
	type behaviour struct {
		name    string
		script  up.Script // nil if nothing listens
		hostile string    // target's model for the plugin hostile; "" for the plugin openai
		outcome string
		hangs   bool // whether the copy hangs until it is cancelled; it signals copied before
	}
	copied := make(chan struct{}, 1)
	cases := []behaviour{
		{name: "responds", script: up.Script{up.Loop(up.ReadRequest(), respond("shadow"))}, outcome: "answered"},
		{name: "hangs", script: up.Script{up.ReadRequest(), arrived(copied), up.AwaitClose()}, outcome: "cancelled", hangs: true},
		{name: "hangs after the head", script: up.Script{up.ReadRequest(), up.EventStream(), up.Chunk(text("x")), arrived(copied), up.AwaitClose()}, outcome: "cancelled", hangs: true},
		{name: "is down", outcome: "failed"},
		{name: "responds with garbage", script: up.Script{up.ReadRequest(), up.Answer(200, "text/html", "<html>")}, outcome: "failed"},
		{name: "responds with other JSON", script: up.Script{up.ReadRequest(), up.Answer(200, "application/json", `{"choices":3}`)}, outcome: "failed"},
		{name: "resets the connection", script: up.Script{up.ReadRequest(), up.EventStream(), up.Chunk(text("x")), up.Reset()}, outcome: "failed"},
		{name: "is overloaded", script: up.Script{up.ReadRequest(), up.Answer(429, "application/json", `{"error":{"message":"no"}}`, "Retry-After: 60")}, outcome: "failed"},
		{name: "sends an endless event", script: up.Script{up.ReadRequest(), flood}, outcome: "failed"},
		{name: "has a plugin that traps", hostile: "panic", outcome: "failed"},
		{name: "has a plugin that loops", hostile: "loop", outcome: "failed"},
		{name: "has a plugin that sends nothing", hostile: "nothing", outcome: "failed"},
		{name: "has a plugin that sets Authorization", hostile: "authorization", outcome: "failed"},
	}
	if testing.Short() { // the others build a plugin, and wait for a call that uses up its fuel
		cases = slices.DeleteFunc(cases, func(c behaviour) bool { return c.name != "hangs" && c.name != "is down" })
	}
	provider := newLiveProvider(t)
	toml := quietServer + openAI("live", provider.URL()) + shadowedModel("m", 1)
	if slices.ContainsFunc(cases, func(c behaviour) bool { return c.hostile != "" }) {
		toml += guest(t, "hostile", "key") + hostileProvider("hostile", provider.URL())
	}
	for i, c := range cases {
		target := "hostile/" + c.hostile
		if c.hostile == "" {
			url := orUnreachable("")
			if c.script != nil {
				url = up.New(t, c.script).URL()
			}
			target = fmt.Sprintf("s%d/m", i)
			toml += openAI(fmt.Sprintf("s%d", i), url) + "max_event = \"64KiB\"\n"
		}
		toml += shadowedModel(fmt.Sprintf("m%d", i), 1, target)
	}
	g := proxytest.Start(t, toml)
	admin := g.Admin(t)
	requests := 0.0
	for _, in := range ingresses {
		for _, stream := range []bool{false, true} {
			want := in.ask(t, g, "m", stream)
			if want.Status != 200 || want.Err != nil || in.text(want.Body, stream) != "live" {
				t.Fatalf("%s: %d %s", in.name, want.Status, want.Body)
			}
			requests++
			for i, c := range cases {
				got := in.ask(t, g, fmt.Sprintf("m%d", i), stream)
				if got.Err != nil || got.Status != want.Status || generatedMembers.ReplaceAllString(got.Body, "") != generatedMembers.ReplaceAllString(want.Body, "") {
					t.Errorf("%s, streamed %v, with a shadow that %s: %v, status %d\n%s\nwant\n%s", in.name, stream, c.name, got.Err, got.Status, got.Body, want.Body)
				}
				for name := range want.Header {
					if (name == "X-Gateway-Attempts" || name == "X-Gateway-Provider" || name == "Content-Type") && got.Header.Get(name) != want.Header.Get(name) || got.Header.Get(name) == "" {
						t.Errorf("%s, streamed %v, with a shadow that %s: header %s is %q, without %q", in.name, stream, c.name, name, got.Header.Get(name), want.Header.Get(name))
					}
				}
				if c.hangs {
					awaitCopy(t, copied)
				} else { // one copy at a time, because two could run out of plugin instances
					awaitCopies(t, admin, fmt.Sprintf("m%d", i), requests)
				}
			}
		}
	}
	for i, c := range cases {
		if model := fmt.Sprintf("m%d", i); !c.hangs {
			if m := awaitCopies(t, admin, model, requests); m.Sum("sluice_shadow_requests_total", "model", model, "outcome", c.outcome) != requests {
				t.Errorf("a shadow that %s: outcomes are not all %s", c.name, c.outcome)
			}
		}
	}
	g.Server.Drain()
	for i, c := range cases {
		if model := fmt.Sprintf("m%d", i); c.hangs {
			if m := awaitCopies(t, admin, model, requests); m.Sum("sluice_shadow_requests_total", "model", model, "outcome", c.outcome) != requests {
				t.Errorf("a shadow that %s: outcomes are not all %s", c.name, c.outcome)
			}
		}
	}
	m := proxytest.Scrape(t, admin)
	for i := range cases {
		if n := m.Sum("sluice_attempts_total", "provider", fmt.Sprintf("s%d", i)); n != 0 {
			t.Errorf("sluice_attempts_total counts %v attempts of a shadow, want none", n)
		}
	}
	if m.Sum("sluice_plugin_breaker") != 0 || m.Sum("sluice_attempts_total", "outcome", "failed") != 0 || m.Sum("sluice_panics_total") != 0 {
		t.Error("a shadow opened a circuit, counted as a failed attempt, or panicked")
	}
}

// toolCallResponse returns a chat completion with tool calls, each of which is a name and arguments with a space
// between.
func toolCallResponse(finish string, prompt, completion int, calls ...string) string {
	var list []string
	for i, c := range calls {
		name, arguments, _ := strings.Cut(c, " ")
		list = append(list, fmt.Sprintf(`{"index":%d,"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}`, i, i, name, arguments))
	}
	return fmt.Sprintf(`{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x","tool_calls":[%s]},"finish_reason":%q}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		strings.Join(list, ","), finish, prompt, completion, prompt+completion)
}

// toolCallStream returns the same response as a stream, with the arguments in pieces.
func toolCallStream(finish string, prompt, completion int, calls ...string) string {
	const event = "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[%s]%s}\n\n"
	var b strings.Builder
	fmt.Fprintf(&b, event, `{"index":0,"delta":{"role":"assistant","content":"x"},"finish_reason":null}`, "")
	for i, c := range calls {
		name, arguments, _ := strings.Cut(c, " ")
		fmt.Fprintf(&b, event, fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c%d","type":"function","function":{"name":%q,"arguments":""}}]},"finish_reason":null}`, i, i, name), "")
		for _, piece := range []string{arguments[:len(arguments)/2], arguments[len(arguments)/2:]} {
			fmt.Fprintf(&b, event, fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%q}}]},"finish_reason":null}`, i, piece), "")
		}
	}
	fmt.Fprintf(&b, event, fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, finish), "")
	fmt.Fprintf(&b, event, "", fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, completion, prompt+completion))
	return b.String() + "data: [DONE]\n\n"
}

// TestShadowIsCompared has a shadow whose responses each differ in one way from the client's, for all client APIs, and
// checks the logged and counted differences.
func TestShadowIsCompared(t *testing.T) {
	type facts struct {
		status             int
		finish             string
		prompt, completion int
		calls              []string
	}
	base := facts{200, "tool_calls", 5, 2, []string{`f {"a":1,"b":[true,"é"]}`, `g {}`}}
	vary := func(change func(*facts)) facts {
		f := base
		f.calls = append([]string{}, base.calls...)
		change(&f)
		return f
	}
	cases := []struct {
		shadow      facts
		differences string
	}{
		{base, ""},
		{vary(func(f *facts) { f.calls[0] = `f { "b" : [ true, "\u00e9" ], "a" : 1.0 }` }), ""},
		{vary(func(f *facts) { f.status = 500 }), "status"},
		{vary(func(f *facts) { f.finish = "length" }), "finish_reason"},
		{vary(func(f *facts) { f.prompt = 6 }), "prompt_tokens"},
		{vary(func(f *facts) { f.completion = 3 }), "completion_tokens"},
		{vary(func(f *facts) { f.calls = f.calls[:1] }), "tool_calls"},
		{vary(func(f *facts) { f.calls[1] = `h {}` }), "tool_names"},
		{vary(func(f *facts) { f.calls[0] = `f {"a":2,"b":[true,"é"]}` }), "tool_arguments"},
		{vary(func(f *facts) { f.calls[0], f.prompt = `f {"a":1,"b":["é",true]}`, 7 }), "prompt_tokens,tool_arguments"},
	}
	var current atomic.Pointer[facts] // the shadow's response
	answer := func(get func() facts) up.Step {
		return func(c *up.Conn) error {
			f := get()
			switch {
			case f.status != 200:
				return up.Answer(f.status, "application/json", `{"error":{"message":"no"}}`)(c)
			case strings.Contains(string(c.Last().Body), `"stream":true`):
				return up.Answer(200, "text/event-stream", toolCallStream(f.finish, f.prompt, f.completion, f.calls...))(c)
			}
			return up.Answer(200, "application/json", toolCallResponse(f.finish, f.prompt, f.completion, f.calls...))(c)
		}
	}
	provider := up.New(t, up.Script{up.Loop(up.ReadRequest(), answer(func() facts { return base }))})
	shadow := up.New(t, up.Script{up.Loop(up.ReadRequest(), answer(func() facts { return *current.Load() }))})
	g := proxytest.Start(t, quietServer+openAI("live", provider.URL())+openAI("other", shadow.URL())+shadowedModel("m", 1, "other/n"))
	admin := g.Admin(t)
	compared, differing := 0.0, map[string]float64{}
	for _, c := range cases {
		current.Store(&c.shadow)
		for _, in := range ingresses {
			for _, stream := range []bool{false, true} {
				r := in.ask(t, g, "m", stream)
				if r.Status != 200 || r.Err != nil {
					t.Fatalf("status %d: %s", r.Status, r.Body)
				}
				line := g.Log.Await(t, "msg", "shadow compared", "request", r.RequestID())
				compared++
				for kind := range strings.SplitSeq(c.differences, ",") {
					differing[kind]++
				}
				if line["differences"] != c.differences || line["client_status"] != "200" || line["client_tool_calls"] != "2" || line["shadow_status"] == "200" && line["shadow_prompt_tokens"] != fmt.Sprint(c.shadow.prompt) {
					t.Errorf("%s, streamed %v: logged %v, want differences %q", in.name, stream, line, c.differences)
				}
				if strings.Contains(fmt.Sprint(line), "é") {
					t.Errorf("the log contains tool arguments: %v", line)
				}
			}
		}
	}
	m := awaitCopies(t, admin, "m", compared)
	delete(differing, "")
	for kind, n := range differing {
		if got := m.Sum("sluice_shadow_differences_total", "model", "m", "provider", "other", "target", "n", "kind", kind); got != n {
			t.Errorf("%v differences of kind %s, want %v", got, kind, n)
		}
	}
	if n := m.Sum("sluice_shadow_compared_total"); n != compared {
		t.Errorf("%v compared, want %v", n, compared)
	}
	if m.Sum("sluice_shadow_duration_seconds_total", "response", "client") <= 0 || m.Sum("sluice_shadow_tokens_total", "response", "shadow", "kind", "prompt") <= 0 {
		t.Error("the metrics have no durations or tokens of shadows")
	}
	if _, status := proxytest.Get(t, admin+"/status"); !strings.Contains(status, `"tool_arguments": 16`) || !strings.Contains(status, `"duration_ratio"`) {
		t.Errorf("status:\n%s", status)
	}
	if _, page := proxytest.Get(t, admin+"/"); !strings.Contains(page, "shadow other / n") || !strings.Contains(page, "tool_arguments 16") {
		t.Errorf("page:\n%s", page)
	}
}

// TestShadowIsChargedToItsProvider checks that copies count towards the limits and budgets of the shadow's provider,
// not those of the client's key and team, and that none is sent above the provider's limit.
func TestShadowIsChargedToItsProvider(t *testing.T) {
	provider, shadow, dir := newLiveProvider(t), newLiveProvider(t), t.TempDir()
	toml := "[store]\njournal = \"" + dir + "\"\n[[teams]]\nname = \"research\"\nbudgets = [{ usd = 5, per = \"day\" }]\n" +
		strings.Replace(proxytest.Keys, "models = ", "team = \"research\"\nbudgets = [{ usd = 1, per = \"day\" }]\nlimits = { requests_per_minute = 100 }\nmodels = ", 1) +
		openAI("live", provider.URL()) + openAI("other", shadow.URL()) + "limits = { requests_per_minute = 1 }\nbudgets = [{ usd = 1, per = \"day\" }]\n" + shadowedModel("m", 1, "other/n")
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir = dir })
	admin := g.Admin(t)
	var remaining []string
	for n := range 2 {
		r := g.Chat(t, askM)
		if r.Status != 200 {
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
		remaining = append(remaining, r.Header.Get("X-Ratelimit-Remaining-Requests"))
		g.Log.Request(t, r.RequestID())
		awaitCopies(t, admin, "m", float64(n+1))
	}
	if remaining[0] != "99" || remaining[1] != "98" {
		t.Errorf("remaining requests of the key: %v, want 99 and 98", remaining)
	}
	m := proxytest.Scrape(t, admin)
	if m.Sum("sluice_shadow_requests_total", "outcome", "answered") != 1 || m.Sum("sluice_shadow_requests_total", "outcome", "spent") != 1 || len(shadow.Requests()) != 1 {
		t.Errorf("%d copies were sent, want one sent and one above the provider's limit", len(shadow.Requests()))
	}
	if n := m.Sum("sluice_requests_total"); n != 2 {
		t.Errorf("sluice_requests_total is %v, want 2", n)
	}
	columns, err := proxy.ParseUsageColumns("key,team,provider,tags")
	if err != nil {
		t.Fatal(err)
	}
	u, err := g.Server.Usage(proxy.UsageQuery{By: columns})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range u.Rows {
		rows = append(rows, fmt.Sprintf("%s %d %s", strings.Join(r.Values, "/"), r.Requests, r.Cost))
	}
	if got, want := strings.Join(rows, "\n"), "//other/shadow 1 0.000009\ntests/research/live/ 2 0.000018"; got != want {
		t.Errorf("ledger\n%s\nwant\n%s", got, want)
	}
}

// TestDisconnectCancelsShadow checks that a copy is cancelled if the client disconnects before its response.
func TestDisconnectCancelsShadow(t *testing.T) {
	for _, stream := range []bool{false, true} {
		copied := make(chan struct{}, 1)
		provider := up.New(t, up.Script{up.ReadRequest(), up.AwaitClose()})
		shadow := up.New(t, up.Script{up.ReadRequest(), arrived(copied), up.AwaitClose()})
		g := proxytest.Start(t, quietServer+openAI("live", provider.URL())+openAI("other", shadow.URL())+shadowedModel("m", 1, "other/n"))
		admin := g.Admin(t)
		c := dial(t, g)
		c.post("left", strings.Replace(askM, `"model"`, fmt.Sprintf(`"stream":%v,"model"`, stream), 1))
		awaitCopy(t, copied)
		c.reset()
		awaitEnd(t, shadow)
		if m := awaitCopies(t, admin, "m", 1); m.Sum("sluice_shadow_requests_total", "outcome", "cancelled") != 1 || m.Sum("sluice_shadow_compared_total") != 0 {
			t.Errorf("streamed %v: the copy was not cancelled, or was compared", stream)
		}
	}
}

// arrived returns a step that sends on the channel.
func arrived(ch chan<- struct{}) up.Step {
	return func(*up.Conn) error { ch <- struct{}{}; return nil }
}

// awaitCopy waits until a copy signals that it has arrived at the shadow.
func awaitCopy(t *testing.T, copied <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(proxytest.EventTimeout)
	defer timer.Stop()
	select {
	case <-copied:
	case <-timer.C:
		t.Fatal("no copy arrived at the shadow")
	}
}

// TestShadowsAtReloadAndShutdown checks that copies in flight keep their configuration open after a reload, and that a
// shutdown cancels them first.
func TestShadowsAtReloadAndShutdown(t *testing.T) {
	copied := make(chan struct{}, 1)
	provider := newLiveProvider(t)
	shadow := up.New(t, up.Script{up.ReadRequest(), arrived(copied), up.AwaitClose()})
	toml := quietServer + openAI("live", provider.URL()) + openAI("other", shadow.URL())
	g := proxytest.Start(t, toml+shadowedModel("m", 1, "other/n"))
	admin := g.Admin(t)
	if r := g.Chat(t, askM); r.Status != 200 {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	awaitCopy(t, copied)
	if err := g.Reload(t, toml+shadowedModel("m", 1, "other/n2")); err != nil {
		t.Fatal(err)
	}
	if n := proxytest.Scrape(t, admin).Sum("sluice_config_generations_open"); n != 2 {
		t.Errorf("%v configurations are open while a copy is in flight, want 2", n)
	}
	g.Server.Drain()
	awaitEnd(t, shadow)
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_config_generations_open") == 1 })
	if r := g.Chat(t, askM); r.Status != 200 {
		t.Errorf("while draining: %d %s", r.Status, r.Body)
	}
	if m := awaitCopies(t, admin, "m", 1); m.Sum("sluice_shadow_requests_total", "outcome", "cancelled") != 1 || len(shadow.Requests()) != 1 {
		t.Error("a copy was sent while the gateway is draining")
	}
}

// TestShadowsAreBounded sends more requests than the limit on concurrent copies, with a shadow that hangs.
func TestShadowsAreBounded(t *testing.T) {
	const maxCopies, requests = 4, 12
	provider := newLiveProvider(t)
	copied := make(chan struct{}, 1)
	shadow := up.New(t, up.Script{up.ReadRequest(), arrived(copied), up.AwaitClose()})
	g := proxytest.Start(t, strings.Replace(quietServer, "[server]\n", "[server]\nmax_requests = 64\n", 1)+openAI("live", provider.URL())+openAI("other", shadow.URL())+shadowedModel("m", 1, "other/n"))
	admin := g.Admin(t)
	for n := range requests {
		if r := g.Chat(t, askM); r.Status != 200 {
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
		if n < maxCopies {
			awaitCopy(t, copied)
		}
	}
	m := proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_shadow_requests_total", "outcome", "dropped") == requests-maxCopies && m.Sum("sluice_completions_in_flight") == 0
	})
	if m.Sum("sluice_shadow_requests_total") != requests-maxCopies || m.Sum("sluice_body_memory_bytes") != 0 {
		t.Error("copies count towards the memory of request bodies, or have ended")
	}
}

// TestShadowShare checks that the share of copied requests is as configured, and that each request is copied if and
// only if the explanation says so.
func TestShadowShare(t *testing.T) {
	requests := scale(1000, 100)
	var copies atomic.Int64
	var random atomic.Uint64
	shadow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		copies.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(chatResponse("shadow")))
	}))
	defer shadow.Close()
	provider := newLiveProvider(t)
	toml := strings.Replace(quietServer, "models = ", "explain = true\nmodels = ", 1) + openAI("live", provider.URL()) + openAI("other", shadow.URL) + shadowedModel("m", 0.1, "other/n")
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.Random = func() uint64 { return random.Add(0x9e3779b97f4a7c15) } })
	admin := g.Admin(t)
	explained := 0
	for range requests {
		r := g.Do(t, "POST", "/v1/chat/completions", askM, "x-gateway-explain: 1")
		e, err := g.Server.Explain(t.Context(), &proxy.ExplainRequest{Model: "m", Key: "tests", Random: fmt.Sprintf("%016x", random.Load())})
		if err != nil {
			t.Fatal(err)
		}
		in := strings.Contains(string(e.JSON), `{"target":"other/n","share":0.1,"in":true}`)
		if in {
			explained++
		}
		if route := r.Header.Get("X-Gateway-Route"); strings.Contains(route, "; shadow other/n; ") != in || strings.Contains(string(e.Text), "shadow    other/n in (10%)") != in {
			t.Fatalf("explained as %s, but the route was %s", e.JSON, route)
		}
	}
	m := awaitCopies(t, admin, "m", float64(explained))
	if sent := m.Sum("sluice_shadow_requests_total", "outcome", "answered"); sent+m.Sum("sluice_shadow_requests_total", "outcome", "dropped") != float64(explained) || float64(copies.Load()) != sent {
		t.Errorf("%d copies arrived, %v got a response, want the %d that were explained", copies.Load(), sent, explained)
	}
	if share := float64(explained) / float64(requests); share < 0.05 || share > 0.15 {
		t.Errorf("%d of %d requests were copied, want about a tenth", explained, requests)
	}
}
