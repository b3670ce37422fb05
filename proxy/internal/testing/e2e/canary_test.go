package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// canaryModel is a model with a canary, after proxytest.Keys; every is part of the canary's table.
func canaryModel(url, target, every string) string {
	return proxytest.Keys + fmt.Sprintf(`
[providers.p0]
plugin   = "openai"
base_url = %q

[providers.p1]
plugin   = "openai"
base_url = %q
breaker  = { enabled = false }

[[models]]
id      = "m"
retry   = { attempts = 1 }
canary  = { target = %q, steps = ["1%%", "50%%", "100%%"], every = %q, back_on = { errors = 0.2, traps = 1 } }
targets = [{ provider = "p0", model = "ok-a" }]
`, url+"/p0", url+"/p1", target, every)
}

// TestCanary follows a canary from its first step to its roll-back, over restarts, reloads and another table.
func TestCanary(t *testing.T) {
	provider, dir := newModelProvider(t), t.TempDir()
	var clock atomic.Int64
	start := time.Now()
	newGateway := func(toml string) *proxytest.Gateway {
		return proxytest.StartWith(t, toml, func(o *proxy.Options) {
			o.StateDir = dir
			o.Now = func() time.Time { return start.Add(time.Duration(clock.Load())) }
		})
	}
	// share sends requests of that many conversations, and returns how many tried the canary first. None of them fails.
	share := func(g *proxytest.Gateway, conversations int) (n int) {
		t.Helper()
		for i := range conversations {
			reply := g.Do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, fmt.Sprintf("x-session-id: conversation-%d", i))
			if reply.Status != 200 {
				t.Fatalf("%d %s", reply.Status, reply.Body)
			}
			g.Log.Request(t, reply.RequestID()) // it is counted
			if asked := provider.take(); strings.HasPrefix(asked[0], "p1/") {
				n++
			}
		}
		return n
	}
	g := newGateway(canaryModel(provider.URL, "p1/down-new", "10m"))
	if n := share(g, 20); n > 3 {
		t.Errorf("%d of 20 conversations are in the step of 1 %%", n)
	}
	clock.Add(int64(10 * time.Minute))
	n := share(g, 40)
	g.Log.Await(t, "msg", "canary step", "model", "m", "step", "2", "share", "0.5")
	g.Log.Await(t, "msg", "canary rolled back; change its table to begin again", "model", "m", "target", "p1/down-new")
	if n < 3 || n > 4 { // one may have been in the step before
		t.Errorf("rolled back after %d conversations, want 3", n)
	}
	admin := g.Admin(t)
	if _, status := proxytest.Get(t, admin+"/status"); !strings.Contains(status, `"reason": "errors: 3 of 3 attempts, rolled back above 20 %"`) {
		t.Errorf("status:\n%s", status)
	}
	if m := proxytest.Scrape(t, admin); m.Sum("sluice_canary_share") != 0 || m.Sum("sluice_canary_step", "model", "m") != 2 || m.Sum("sluice_attempts_total", "provider", "p1", "target", "down-new", "outcome", "failed") != 3 {
		t.Error("the metrics have another step, share or number of attempts")
	}
	if err := g.Reload(t, strings.Replace(canaryModel(provider.URL, "p1/down-new", "10m"), "ok-a", "ok-b", 1)); err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(24 * time.Hour))
	if n := share(g, 20); n != 0 {
		t.Errorf("after a reload %d conversations are in the canary", n)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}

	g = newGateway(canaryModel(provider.URL, "p1/down-new", "10m"))
	g.Log.Await(t, "msg", "canary stays rolled back; change its table to begin again")
	if n := share(g, 20); n != 0 {
		t.Errorf("after a restart %d conversations are in the canary", n)
	}
	if err := g.Reload(t, canaryModel(provider.URL, "p1/ok-new", "11m")); err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(12 * time.Minute))
	share(g, 1)
	clock.Add(int64(12 * time.Minute))
	if n := share(g, 10); n != 10 {
		t.Errorf("with another table %d of 10 conversations are in the last step", n)
	}
}

// A second gateway on the same folder works, and says that its canaries begin anew at a restart.
func TestCanaryFolderInUse(t *testing.T) {
	provider, dir := newModelProvider(t), t.TempDir()
	toml := canaryModel(provider.URL, "p1/ok-new", "10m")
	keep := func(o *proxy.Options) { o.StateDir = dir }
	proxytest.StartWith(t, toml, keep)
	second := proxytest.StartWith(t, toml, keep)
	if line := second.Log.Await(t, "msg", "canary states will not survive a restart"); !strings.Contains(line["error"], "is in use by") {
		t.Errorf("%v", line)
	}
}

// x-gateway-route is for keys that may ask for it. Nothing tells other clients that it exists.
func TestRouteHeader(t *testing.T) {
	provider := newModelProvider(t)
	toml := strings.Replace(canaryModel(provider.URL, "p1/down-new", "10m"), `targets = [{`, `targets = [{ provider = "p0", model = "down-a" }, {`, 1) +
		"\n[[models]]\nid = \"dead\"\nretry = { attempts = 1 }\ntargets = [{ provider = \"p0\", model = \"refuses-a\" }]\n"
	ask := func(g *proxytest.Gateway, model, more string, headers ...string) *proxytest.Reply {
		t.Helper()
		return g.Do(t, "POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"secret words"}]`+more+`}`, headers...)
	}
	const header, name = "x-gateway-explain: 1", "X-Gateway-Route"

	g := proxytest.Start(t, strings.Replace(toml, "models = ", "explain = true\nmodels = ", 1))
	for _, more := range []string{"", `,"stream":true`} {
		reply := ask(g, "m", more, header)
		if route := reply.Header.Get(name); reply.Status != 200 || !strings.Contains(route, "order p0/down-a, p0/ok-a") || !strings.Contains(route, "attempts p0/down-a 503 ") ||
			!strings.Contains(route, ", p0/ok-a 200 ") || strings.Contains(route, "secret") {
			t.Errorf("%d %q", reply.Status, route)
		}
	}
	if reply := ask(g, "dead", "", header); reply.Status != 400 || !strings.Contains(reply.Header.Get(name), "attempts p0/refuses-a 400 ") {
		t.Errorf("%d %q", reply.Status, reply.Header.Get(name))
	}
	for _, headers := range [][]string{nil, {"x-gateway-explain: 0"}, {"x-gateway-explain: true"}} {
		if reply := ask(g, "m", "", headers...); reply.Header.Get(name) != "" {
			t.Errorf("explained without being asked: %q", reply.Header.Get(name))
		}
	}

	g = proxytest.Start(t, toml)
	with, without := ask(g, "m", "", header), ask(g, "m", "")
	for h := range with.Header {
		if _, there := without.Header[h]; !there || h == name {
			t.Errorf("a key that may not ask gets the header %s", h)
		}
	}

	open := proxytest.Start(t, "[server]\nauth = \"none\"\n"+toml[strings.Index(toml, "[providers.p0]"):])
	if reply := ask(open, "m", "", header, "Authorization:"); reply.Header.Get(name) == "" {
		t.Errorf("with auth = none not explained: %d %s", reply.Status, reply.Body)
	}
}

// A route is cut off between two of its elements where it would be too long for a header, and keeps its random number.
func TestRouteHeaderIsBounded(t *testing.T) {
	provider := newModelProvider(t)
	var targets strings.Builder
	for i := range 16 {
		fmt.Fprintf(&targets, "{ provider = \"p0\", model = \"down-%d-%s\" },\n", i, strings.Repeat("x", 180))
	}
	toml := strings.Replace(canaryModel(provider.URL, "p1/ok-new", "10m"), `{ provider = "p0", model = "ok-a" }`, targets.String(), 1)
	g := proxytest.Start(t, strings.Replace(toml, "models = ", "explain = true\nmodels = ", 1))
	reply := g.Do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "x-gateway-explain: 1")
	if route := reply.Header.Get("X-Gateway-Route"); len(route) > 2048 || len(route) < 1800 || !strings.HasPrefix(route, "random ") || !strings.HasSuffix(route, "...") {
		t.Errorf("%d bytes: %q", len(route), route)
	}
}

// POST /explain and the command ask the same function; errors say what to do.
func TestExplainErrors(t *testing.T) {
	idle := httptest.NewServer(http.NotFoundHandler())
	defer idle.Close()
	toml := canaryModel(idle.URL, "p1/new", "10m") + "\n[[keys]]\nname = \"narrow\"\nsecret = \"sk-narrow-0123456789\"\nmodels = [\"x\"]\n" +
		"[[keys]]\nname = \"off\"\nsecret = \"sk-off-0123456789\"\ndisabled = true\n"
	g := proxytest.Start(t, toml)
	for _, c := range []struct {
		r    proxy.ExplainRequest
		want string
	}{
		{proxy.ExplainRequest{Model: "m"}, "no key given: want the name of a key in the configuration"},
		{proxy.ExplainRequest{Model: "m", Key: "test"}, "no key is named \"test\": `sluice check --values` lists the keys"},
		{proxy.ExplainRequest{Model: "m", Key: proxytest.Key}, "the key is given by its secret: want its name in the configuration"},
		{proxy.ExplainRequest{Model: "m", Key: "off"}, "the key off would be rejected: disabled key"},
		{proxy.ExplainRequest{Model: "m", Key: "narrow"}, "the key may not use the model 'm': see models in [[keys]]"},
		{proxy.ExplainRequest{Model: "n", Key: "tests"}, "no such model 'n': `sluice models` lists the models"},
		{proxy.ExplainRequest{Model: "m", Key: "tests", API: "chats"}, `unknown api "chats": want chat, messages, responses, gemini, completions, embeddings, rerank, moderations`},
		{proxy.ExplainRequest{Model: "m", Key: "tests", API: "embeddings"}, "the model 'm' serves chat requests (kinds), not embeddings"},
		{proxy.ExplainRequest{Key: "tests", API: "gemini", Body: []byte(`{"contents":[]}`)}, "no model given: the Gemini API has it in the path, not in the body"},
		{proxy.ExplainRequest{Model: "m", Key: "tests", Random: "1"}, "random is not a number of 16 hexadecimal digits, as in the header x-gateway-route"},
		{proxy.ExplainRequest{Model: "m", Key: "tests", Headers: map[string]string{"a b": "c"}}, "a header has an invalid name or value"},
		{proxy.ExplainRequest{Model: "n", Key: "tests", Body: []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)}, "the body names another model: leave out one of the two"},
		{proxy.ExplainRequest{Key: "tests", Body: []byte(`{"model":"m","messages":[{"role":"secret","content":"x"}]}`)}, "the request is rejected by the API before it is routed: "},
	} {
		if _, err := g.Server.Explain(t.Context(), &c.r); err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%+v\ngot  %v\nwant %s", c.r, err, c.want)
		}
	}
	for _, api := range config.APINames()[:4] {
		if e, err := g.Server.Explain(t.Context(), &proxy.ExplainRequest{Model: "m", Key: "tests", API: api}); err != nil || !strings.Contains(string(e.Text), "model     m, by "+api) {
			t.Errorf("%s: %v %s", api, err, e.Text)
		}
	}
	if n := proxytest.Scrape(t, g.Admin(t)).Sum("sluice_requests_total"); n != 0 {
		t.Errorf("%v requests were counted", n)
	}
}
