package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestAdminRoutesAreNotOnClientListener requests the admin paths on the client listener, in many spellings, with a key
// and without.
//
// covers: F138
func TestAdminRoutesAreNotOnClientListener(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	g.Admin(t)
	var paths []string
	for _, name := range []string{"healthz", "readyz", "metrics", "status", "admin", "debug/pprof/", "debug/vars", ""} {
		paths = append(paths, "/"+name, "//"+name, "/"+name+"/", "/./"+name, "/x/../"+name, "/v1/../"+name, "/v1/models/../../"+name, "/%2e/"+name, "/%2e%2e/"+name,
			"/"+name+"?x=y", "/"+name+";x", "/"+name+"#x", "/"+strings.ToUpper(name), "/admin/"+name, "/v1/"+name, "\\"+name, "/"+name+"%00", "/%2f"+name)
		if name != "" {
			paths = append(paths, "/"+fmt.Sprintf("%%%02x", name[0])+name[1:])
		}
	}
	for name, key := range map[string]string{"with a key": "Authorization: Bearer " + proxytest.Key + "\r\n", "without a key": ""} {
		head := " HTTP/1.1\r\nHost: localhost\r\n" + key + "Content-Length: 0\r\nConnection: close\r\n\r\n"
		for _, path := range paths {
			// Below /v1/models/ is the name of an unknown model, for which POST is a 405.
			models := path == "/v1/models/../../" || strings.HasPrefix(path, "/v1/models/")
			for _, method := range []string{"GET", "HEAD", "POST"} {
				for _, target := range []string{path, "http://" + g.Addr + path} {
					c := dial(t, g)
					c.send(method + " " + target + head)
					data, err := io.ReadAll(c.r)
					if err != nil {
						t.Fatal(err)
					}
					response := string(data)
					code, _, _ := strings.Cut(strings.TrimPrefix(response, "HTTP/1.1 "), " ")
					if code != "404" && code != "400" && !(models && (code == "405" || code == "401" && key == "")) {
						t.Errorf("%s %s %s: got %s, want 404 or 400", method, target, name, response)
					}
					if method == "GET" && !strings.Contains(response, `{"error":{`) || strings.Contains(response, "sluice_") || strings.Contains(response, "<html") {
						t.Errorf("%s %s %s: got %s, want a plain error", method, target, name, response)
					}
				}
			}
		}
	}
}

// TestCanariesAppearNowhere puts marks into every place that can contain a credential, a prompt or a response. It lets
// requests succeed and fail, and checks that no mark appears in the output for operators, and no credential in any
// output.
//
// covers: F137
func TestCanariesAppearNowhere(t *testing.T) {
	const (
		secret = "sk-canary-secret-" // mark of client keys and providers' credentials
		said   = "canary-said-"      // mark of texts of clients and providers
	)
	// The type and the code of a provider's error are logged, so they only contain secrets.
	complaint := `{"error":{"message":"` + secret + `provider and ` + said + `prompt","type":"` + secret + `provider","code":"` + secret + `provider"}}`
	answer := func(status int, body string) upstreamtest.Script {
		return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(status, "application/json", body, "Connection: close", "X-Request-Id: "+secret+"provider", "Set-Cookie: "+said+"cookie")}
	}
	whole := `{"id":"` + said + `id","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + said + `answer"},"finish_reason":"stop"}]}`
	provider := upstreamtest.New(t,
		answer(200, whole), answer(500, complaint), answer(400, complaint), answer(401, complaint), answer(429, complaint), answer(200, "<html>"+said+"page "+secret+"provider"),
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(302, "text/plain", "", "Location: https://"+said+".example/?key="+secret+"provider", "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text(said + "streamed")), upstreamtest.Reset()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text(said+"streamed"), "data: "+complaint+"\n\n"), upstreamtest.LastChunk()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text(said+"streamed"), `data: {"error":{"message":"no","type":"invalid_request_error","param":"`+secret+`provider","code":"`+secret+`provider"}}`+"\n\n"), upstreamtest.LastChunk()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: {\"" + said + "broken\n\n"), upstreamtest.LastChunk()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Reset()},
	)
	marked := func(toml string) string {
		toml = strings.ReplaceAll(toml, "sk-upstream-openai-canary", secret+"provider")
		return strings.ReplaceAll(toml, "sk-narrow-0123456789", secret+"narrow")
	}
	g := proxytest.Start(t, marked(configuration(provider.URL(), "")))
	at := g.Admin(t)
	prompt := func(model, more string) string {
		return `{"model":"` + model + `","user":"` + said + `user","metadata":{"` + said + `name":"` + said + `value"},"messages":[{"role":"system","content":"` + said + `system"},{"role":"user","content":"` + said + `prompt"}]` + more + `}`
	}
	var answers []string
	keep := func(r *proxytest.Reply) {
		all := r.Body
		for name, values := range r.Header {
			all += name + ": " + strings.Join(values, ", ") + "\n"
		}
		answers = append(answers, all)
	}
	tools := `,"tools":[{"type":"function","function":{"name":"` + said + `tool","description":"` + said + `tool","parameters":{"type":"object"}}}]`
	for _, body := range []string{
		prompt("gpt", tools), prompt("gpt", ""), prompt("gpt", ""), prompt("gpt", ""), prompt("gpt", ""), prompt("gpt", ""), prompt("gpt", ""),
		prompt("gpt", `,"stream":true`), prompt("gpt", `,"stream":true`), prompt("gpt", `,"stream":true`), prompt("gpt", `,"stream":true`), prompt("gpt", ""),
		prompt("demo", ""), prompt("demo", `,"stream":true`), prompt("both", ""), prompt("claude", ""),
		prompt("unknown", ""), prompt("gpt", `,"`+said+`member":1`), prompt("gpt", `,"temperature":"`+said+`"`), `{"` + said + `cut`, said,
	} {
		keep(g.Chat(t, body))
	}
	for _, key := range []string{secret + "narrow", said + "wrong-key", said + "two parts", "Basic " + said} {
		keep(g.Do(t, "POST", "/v1/chat/completions", prompt("gpt", ""), "Authorization: Bearer "+key))
	}
	keep(g.Do(t, "GET", "/v1/models/unknown", ""))
	keep(g.Do(t, "GET", "/"+said+"path?key="+said, ""))
	keep(g.Do(t, "POST", "/v1/chat/completions?api_key="+said, prompt("demo", ""), "X-Api-Key: "+said, "Cookie: "+said, "User-Agent: "+said, "X-Forwarded-For: "+said))
	g.Log.Await(t, "msg", "request", "path", "/v1/chat/completions", "status", "404")

	// Errors of configurations must not contain secrets.
	for _, change := range []string{
		`auth     = { secret = "` + secret + `provider", secrat = "` + secret + `provider" }`,
		`options  = { key = "` + secret + `provider" }`,
		`base_url = "` + secret + `provider"`,
		`[[keys]]` + "\nname = \"\"\nsecret = \"" + secret + "other\"\n",
	} {
		broken := strings.Replace(marked(configuration(provider.URL(), "")), "timeout  =", change+"\ntimeout  =", 1)
		_, err := config.Parse("gateway.toml", []byte(broken), config.Options{Bundled: plugins.Names()})
		if err == nil {
			t.Fatalf("the invalid configuration was accepted: %s", change)
		}
		g.Server.ReloadFailed(err)
		if s := getStatus(t, at); s.Config.ReloadError == "" {
			t.Error("the status has no reload error")
		}
		checkOperatorOutput(t, g, at, secret)
	}
	checkOperatorOutput(t, g, at, secret, said)
	for _, a := range answers {
		if strings.Contains(a, secret) {
			t.Errorf("a response contains a credential: %s", a)
		}
	}
	if len(answers) < 20 || len(provider.Requests()) < 12 {
		t.Errorf("got %d responses and %d requests to the provider, want at least 20 and 12", len(answers), len(provider.Requests()))
	}
}

// checkOperatorOutput checks that neither the log nor any response of the admin listener contains a mark.
func checkOperatorOutput(t *testing.T, g *proxytest.Gateway, at string, marks ...string) {
	t.Helper()
	everything := map[string]string{"the log": g.Log.String()}
	for _, path := range []string{"/", "/?still", "/status", "/metrics", "/readyz", "/healthz", "/nothing"} {
		_, everything[path] = proxytest.Get(t, at+path)
	}
	for where, text := range everything {
		for _, mark := range marks {
			if i := strings.Index(text, mark); i >= 0 {
				t.Errorf("%s contains a mark: %s", where, text[max(0, i-200):min(len(text), i+200)])
			}
		}
	}
}

func TestReadinessFollowsState(t *testing.T) {
	cfg, err := config.Parse("gateway.toml", []byte(quietServer+demoProvider), config.Options{Bundled: plugins.Names()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := proxy.New(t.Context(), proxy.Options{Config: cfg, Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	listener := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	adminLn, ln := listener(), listener()
	ended := make(chan error, 2)
	go func() { ended <- s.ServeAdmin(adminLn) }()
	at := "http://" + adminLn.Addr().String()
	ready := func(want int, words string) {
		t.Helper()
		if code, body := proxytest.Get(t, at+"/readyz"); code != want || !strings.Contains(body, words) {
			t.Errorf("/readyz: got %d %q, want %d %q", code, body, want, words)
		}
		if code, _ := proxytest.Get(t, at+"/healthz"); code != 200 {
			t.Errorf("/healthz: got %d, want 200", code)
		}
		m := proxytest.Scrape(t, at)
		if got := m.Sum("sluice_ready"); got != float64(map[bool]int{true: 1}[want == 200]) {
			t.Errorf("sluice_ready is %v", got)
		}
		if st := getStatus(t, at); st.Ready != (want == 200) || want != 200 && !strings.Contains(words, st.Reason) {
			t.Errorf("/status: ready %v, reason %q", st.Ready, st.Reason)
		}
	}
	ready(503, "not ready: the gateway is not serving yet")
	go func() { ended <- s.Serve(ln) }()
	for {
		if code, _ := proxytest.Get(t, at+"/readyz"); code == 200 {
			break
		}
	}
	ready(200, "ready")
	none, err := config.Parse("gateway.toml", []byte(quietServer+"[providers.demo]\nplugin = \"demo\"\nenabled = false\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n"), config.Options{Bundled: plugins.Names()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	ready(503, "not ready: no provider is enabled")
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ready(200, "ready")
	s.Drain()
	ready(503, "not ready: the gateway is shutting down")
	if _, err := net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Errorf("a draining gateway does not accept connections: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if _, err := net.Dial("tcp", adminLn.Addr().String()); err == nil {
		t.Error("the admin listener is open after Shutdown")
	}
}

// TestNotReadyDuringShutdown checks that /readyz fails while shutdown waits for a stream, so that load balancers send
// no more requests.
//
// covers: F77
func TestNotReadyDuringShutdown(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	at := g.Admin(t)
	c := dial(t, g)
	c.post("held", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)
	if code, _ := proxytest.Get(t, at+"/readyz"); code != 200 {
		t.Errorf("/readyz before shutdown: got %d, want 200", code)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(proxytest.EventTimeout) }()
	awaitListenerClosed(t, g)
	if code, body := proxytest.Get(t, at+"/readyz"); code != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("/readyz during shutdown: got %d %s", code, body)
	}
	if m := proxytest.Scrape(t, at); m.Sum("sluice_streams_in_flight") != 1 {
		t.Errorf("got %v streams in flight, want 1", m.Sum("sluice_streams_in_flight"))
	}
	close(proceed)
	c.readUntil("0\r\n\r\n")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestReloadMetrics reloads valid configurations, one whose plugin is missing, and one that cannot be parsed.
//
// covers: F80 F81
func TestReloadMetrics(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	at := g.Admin(t)
	want := func(generation, succeeded, failed float64, words string) {
		t.Helper()
		m := proxytest.Scrape(t, at)
		good := 1.0
		if words != "" {
			good = 0
		}
		if m.Sum("sluice_config_generation") != generation || m.Sum("sluice_config_reload_success") != good ||
			m.Sum("sluice_config_reloads_total", "result", "success") != succeeded || m.Sum("sluice_config_reloads_total", "result", "failure") != failed {
			t.Errorf("generation %v, success %v, %v and %v reloads", m.Sum("sluice_config_generation"), m.Sum("sluice_config_reload_success"),
				m.Sum("sluice_config_reloads_total", "result", "success"), m.Sum("sluice_config_reloads_total", "result", "failure"))
		}
		if m.Sum("sluice_config_last_reload_timestamp_seconds") < m.Sum("sluice_config_loaded_timestamp_seconds") {
			t.Error("sluice_config_last_reload_timestamp_seconds is before sluice_config_loaded_timestamp_seconds")
		}
		s := getStatus(t, at)
		if s.Config.Generation != int64(generation) || !strings.Contains(s.Config.ReloadError, words) || (words == "") != (s.Config.ReloadError == "") {
			t.Errorf("/status: got %+v, want generation %v and reload error %q", s.Config, generation, words)
		}
		if _, page := proxytest.Get(t, at+"/"); strings.Contains(page, "configuration reload failed") != (words != "") {
			t.Errorf("the status page shows a reload error: %v, want %v", words == "", words != "")
		}
	}
	want(1, 0, 0, "")
	if err := g.Reload(t, configuration("", "")); err != nil {
		t.Fatal(err)
	}
	want(2, 1, 0, "")
	if err := g.Reload(t, configuration("", "")+"\n[plugins.bad]\nfile = \"nothing.wasm\"\nsha256 = \""+strings.Repeat("0", 64)+"\"\n[providers.bad]\nplugin = \"bad\"\n"); err == nil {
		t.Fatal("a configuration with a missing plugin was accepted")
	}
	want(2, 1, 1, "plugin bad")
	g.Server.ReloadFailed(errors.New("gateway.toml:3:1: server.lisen: unknown key"))
	want(2, 1, 2, "gateway.toml:3:1: server.lisen: unknown key")
	if err := g.Reload(t, configuration("", "")); err != nil {
		t.Fatal(err)
	}
	want(3, 2, 2, "")
	proxytest.AwaitMetrics(t, at, func(m proxytest.Metrics) bool { return m.Sum("sluice_config_generations_open") == 1 })
}
