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

// canaryModel returns keys, providers and a model with the canary target, whose steps have the interval every.
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

// TestCanary follows a canary from its first step to its rollback, through a reload, a restart and a change of its
// table.
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
	// countCanary sends a request for each of n conversations, and returns how many tried the canary first. None may
	// fail.
	countCanary := func(g *proxytest.Gateway, conversations int) (n int) {
		t.Helper()
		for i := range conversations {
			reply := g.Do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, fmt.Sprintf("x-session-id: conversation-%d", i))
			if reply.Status != 200 {
				t.Fatalf("%d %s", reply.Status, reply.Body)
			}
			g.Log.Request(t, reply.RequestID()) // the canary counts the request before its log line
			if asked := provider.takeRequests(); strings.HasPrefix(asked[0], "p1/") {
				n++
			}
		}
		return n
	}
	g := newGateway(canaryModel(provider.URL, "p1/down-new", "10m"))
	if n := countCanary(g, 20); n > 3 {
		t.Errorf("%d of 20 conversations try the canary in the step of 1 %%", n)
	}
	clock.Add(int64(10 * time.Minute))
	n := countCanary(g, 40)
	g.Log.Await(t, "msg", "canary step", "model", "m", "step", "2", "share", "0.5")
	g.Log.Await(t, "msg", "canary rolled back; change its table to begin again", "model", "m", "target", "p1/down-new")
	if n < 3 || n > 4 { // one of them may have been counted in the previous step
		t.Errorf("rolled back after %d conversations, want 3", n)
	}
	admin := g.Admin(t)
	if _, status := proxytest.Get(t, admin+"/status"); !strings.Contains(status, `"reason": "errors: 3 of 3 attempts, rolled back above 20 %"`) {
		t.Errorf("the status does not have the reason of the rollback:\n%s", status)
	}
	if m := proxytest.Scrape(t, admin); m.Sum("sluice_canary_share") != 0 || m.Sum("sluice_canary_step", "model", "m") != 2 || m.Sum("sluice_attempts_total", "provider", "p1", "target", "down-new", "outcome", "failed") != 3 {
		t.Error("the metrics have a wrong share, step or number of failed attempts")
	}
	if err := g.Reload(t, strings.Replace(canaryModel(provider.URL, "p1/down-new", "10m"), "ok-a", "ok-b", 1)); err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(24 * time.Hour))
	if n := countCanary(g, 20); n != 0 {
		t.Errorf("after a reload, %d conversations try the canary", n)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}

	g = newGateway(canaryModel(provider.URL, "p1/down-new", "10m"))
	g.Log.Await(t, "msg", "canary stays rolled back; change its table to begin again")
	if n := countCanary(g, 20); n != 0 {
		t.Errorf("after a restart, %d conversations try the canary", n)
	}
	if err := g.Reload(t, canaryModel(provider.URL, "p1/ok-new", "11m")); err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(12 * time.Minute))
	countCanary(g, 1)
	clock.Add(int64(12 * time.Minute))
	if n := countCanary(g, 10); n != 10 {
		t.Errorf("after the table was changed, %d of 10 conversations try the canary in the last step", n)
	}
}

// TestCanaryFolderInUse checks that a second gateway with the same state folder works, and warns that its canary states
// will not survive a restart.
func TestCanaryFolderInUse(t *testing.T) {
	provider, dir := newModelProvider(t), t.TempDir()
	toml := canaryModel(provider.URL, "p1/ok-new", "10m")
	setStateDir := func(o *proxy.Options) { o.StateDir = dir }
	proxytest.StartWith(t, toml, setStateDir)
	second := proxytest.StartWith(t, toml, setStateDir)
	if line := second.Log.Await(t, "msg", "canary states will not survive a restart"); !strings.Contains(line["error"], "is in use by") {
		t.Errorf("got log line %v", line)
	}
}

// TestRouteHeader checks that only keys with explain get x-gateway-route, and that nothing reveals it to other clients.
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
			t.Errorf("status %d, route %q", reply.Status, route)
		}
	}
	if reply := ask(g, "dead", "", header); reply.Status != 400 || !strings.Contains(reply.Header.Get(name), "attempts p0/refuses-a 400 ") {
		t.Errorf("failed request: status %d, route %q", reply.Status, reply.Header.Get(name))
	}
	for _, headers := range [][]string{nil, {"x-gateway-explain: 0"}, {"x-gateway-explain: true"}} {
		if reply := ask(g, "m", "", headers...); reply.Header.Get(name) != "" {
			t.Errorf("request with %q gets the route %q", headers, reply.Header.Get(name))
		}
	}

	g = proxytest.Start(t, toml)
	with, without := ask(g, "m", "", header), ask(g, "m", "")
	for h := range with.Header {
		if _, there := without.Header[h]; !there || h == name {
			t.Errorf("a key without explain gets the header %s", h)
		}
	}

	open := proxytest.Start(t, "[server]\nauth = \"none\"\n"+toml[strings.Index(toml, "[providers.p0]"):])
	if reply := ask(open, "m", "", header, "Authorization:"); reply.Header.Get(name) == "" {
		t.Errorf("with auth = none there is no route: %d %s", reply.Status, reply.Body)
	}
}

// TestRouteHeaderIsBounded checks that a long route is truncated between two of its elements, and keeps its random
// number.
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
		t.Errorf("got %d bytes: %q", len(route), route)
	}
}

// TestExplainErrors checks the errors of Explain, which serves POST /explain and the command.
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
		{proxy.ExplainRequest{Key: "tests", Stream: true, Body: []byte(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)}, "the body does not ask for a stream: leave out the stream, or the body"},
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
		t.Errorf("sluice_requests_total is %v, want 0", n)
	}
}
