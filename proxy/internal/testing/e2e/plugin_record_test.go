package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	. "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// Secrets that no recorded file may contain: the client's key, a key of which only the digest is configured, and the
// provider's credential.
const (
	recordedKey        = "sk-canary-of-the-client-0001"
	recordedDigestKey  = "sk-canary-of-another-client-0002"
	recordedCredential = "sk-canary-of-the-provider-0003"
)

const (
	recordedPlugin = "examples/plugins/go-provider"
	recordedHello  = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
)

// devEngine is the engine of all hosts, so that they compile each module once.
var devEngine = sync.OnceValues(func() (*plugindev.Engine, error) { return plugindev.NewEngine(proxytest.CacheDir()) })

func devHost(t *testing.T) *plugindev.Host {
	t.Helper()
	e, err := devEngine()
	if err != nil {
		t.Fatal(err)
	}
	h, err := plugindev.NewHost(plugindev.Options{Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func recordedSuite(t *testing.T, dir string) *plugindev.Suite {
	t.Helper()
	s, err := plugindev.OpenSuite(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testRecorded runs a suite on the recorded plugin.
func testRecorded(t *testing.T, s *plugindev.Suite) map[string]plugindev.Tested {
	t.Helper()
	tested, err := s.Test(t.Context(), devHost(t), plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, recordedPlugin)}, plugindev.TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]plugindev.Tested)
	for _, v := range tested {
		byName[v.Name] = v
	}
	return byName
}

// failureText returns the failures of a vector, one per line.
func failureText(v plugindev.Tested) string {
	var b strings.Builder
	for _, f := range v.Failures {
		b.WriteString(f.Where + ": " + f.Text + "\n")
	}
	return b.String()
}

// recordTraffic serves a configuration with a recorder while use sends requests, and returns the directory and the
// counts of the recording. use calls written after each request to wait for its vector, which is written after the
// response.
func recordTraffic(t *testing.T, toml string, recorder *proxy.Recorder, o plugindev.RecordOptions, use func(g *proxytest.Gateway, written func())) (string, plugindev.Recorded) {
	t.Helper()
	vectors := make(chan string, 16)
	callerWritten := o.Written
	o.Written = func(name, problem string) {
		if callerWritten != nil {
			callerWritten(name, problem)
		}
		vectors <- name
	}
	o.Dir = filepath.Join(t.TempDir(), "recorded")
	ctx, stop := context.WithCancel(t.Context())
	var recorded plugindev.Recorded
	done := make(chan error, 1)
	w, err := plugindev.NewRecordWriter(t.Context(), devHost(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	go func() {
		var err error
		recorded, err = w.Write(ctx, recorder)
		done <- err
	}()
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.Recorder = recorder })
	use(g, func() {
		select {
		case <-vectors:
		case <-time.After(proxytest.EventTimeout):
			t.Fatal("no vector was written")
		}
	})
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkRecordedFiles(t, o.Dir)
	return o.Dir, recorded
}

// checkRecordedFiles checks that only the owner can read the files, and that they contain no secret.
func checkRecordedFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o", path, mode)
		}
		if d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{recordedKey, recordedDigestKey, recordedCredential, "canary"} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s contains %s:\n%s", path, secret, text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRecordThenTestThenReplay records the traffic of a scripted provider: a stream, a non-streaming response, an error
// and a truncated stream, each with secrets in it. Then it tests and replays the recorded vectors.
func TestRecordThenTestThenReplay(t *testing.T) {
	wasm := plugintest.Build(t, recordedPlugin)
	file := filepath.Join(t.TempDir(), "plugin.wasm")
	if err := os.WriteFile(file, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	const event = "data: {\"text\":\"The key is " + recordedCredential + ".\"}\n\n"
	up := New(t,
		Script{ReadRequest(), EventStream(), Chunk(event), Chunk("data: {\"text\":\"Bye\"}\n\n", "data: {\"tokens\":2}\n\n"), LastChunk()},
		Script{ReadRequest(), EventStream(), Chunk(event[:20]), Chunk(event[20:]), Chunk("data: {\"tokens\":2}\n\n"), LastChunk()},
		Script{ReadRequest(), Answer(429, "application/json", `{"wait":true,"why":"`+recordedCredential+`"}`, "X-Why: "+recordedCredential, "Set-Cookie: canary=1", "X-Other: fine")},
		Script{ReadRequest(), Head(200, "Content-Type: text/event-stream", "Content-Length: 1000"), Write(event)},
	)
	toml := fmt.Sprintf(`
[server]
listen = "127.0.0.1:0"
[[keys]]
name = "local"
secret = %q
[[keys]]
name = "other"
digest = "sha256:%x"
[plugins.mine]
file = %q
sha256 = "%x"
[providers.mine]
plugin = "mine"
base_url = %q
allow_private = true
paths = ["/say"]
auth = { secret = %q }
breaker = { failures = 100 }
[[models]]
id = "mine"
targets = [{ provider = "mine", model = "upstream-model" }]
`, recordedKey, sha256.Sum256([]byte(recordedDigestKey)), file, sha256.Sum256(wasm), up.URL(), recordedCredential)

	o := plugindev.RecordOptions{Module: plugindev.Module{Name: "mine", Wasm: wasm}, File: file, Use: plugindev.Use{Settings: "{}", Paths: []string{"/say"}}}
	dir, recorded := recordTraffic(t, toml, proxy.NewRecorder("mine"), o, func(g *proxytest.Gateway, written func()) {
		for i, want := range []int{200, 200, 429, 200} {
			body := fmt.Sprintf(`{"model":"mine","stream":%v,"messages":[{"role":"user","content":"My key is %s,\n%s!"}]}`, i != 1 && i != 2, recordedKey, recordedDigestKey)
			r := g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer "+recordedKey)
			if r.Status != want {
				t.Errorf("request %d: %d %s", i, r.Status, r.Body)
			}
			written()
		}
	})
	want := []string{"0001-chat-stream-200", "0002-chat-whole-200", "0003-chat-whole-429", "0004-chat-stream-200", "suite.json"}
	if got := fileNames(t, dir); fmt.Sprint(got) != fmt.Sprint(want) || recorded.Vectors != 4 || recorded.Dropped != 0 || recorded.Left != 0 {
		t.Fatalf("recorded %v, %+v; want %v", got, recorded, want)
	}
	for file, wants := range map[string][]string{
		"0001-chat-stream-200/request.json": {`My key is [redacted],\n[redacted]!`},
		"0001-chat-stream-200/answer.sse":   {"data: {\"text\":\"The key is [redacted].\"}\n\ndata: {\"text\":\"Bye\"}\n\n"},
		"0001-chat-stream-200/want.txt":     {"POST /say\n", "[DONE]", "Bye"},
		"0003-chat-whole-429/vector.json":   {`"status": 429`, `"x-why": "[redacted]"`, `"x-other": "fine"`, `"target": "upstream-model"`},
		"0003-chat-whole-429/answer.json":   {`{"wait":true,"why":"[redacted]"}`},
		"0004-chat-stream-200/vector.json":  {`"truncated": true`},
		"0004-chat-stream-200/want.txt":     {"upstream_stream_truncated"},
	} {
		for _, part := range wants {
			if text := readFile(t, dir, file); !strings.Contains(text, part) {
				t.Errorf("%s lacks %q:\n%s", file, part, text)
			}
		}
	}

	suite := recordedSuite(t, dir)
	if module := filepath.Join(dir, suite.Module); readFile(t, module) != string(wasm) {
		t.Errorf("the module is %s", module)
	}
	for name, v := range testRecorded(t, suite) {
		if text := failureText(v); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
	h := devHost(t)
	same := plugindev.Module{Name: "mine", Wasm: wasm}
	if n, differences, err := suite.Replay(t.Context(), h, same, same); n != 4 || len(differences) != 0 || err != nil {
		t.Errorf("replay of the same module: %d, %v, %v", n, differences, err)
	}
	other := plugindev.Module{Name: "mine", Wasm: plugintest.Build(t, "proxy/plugintest/testdata/leaky")}
	n, differences, err := suite.Replay(t.Context(), h, same, other)
	if n != 4 || len(differences) != 4 || err != nil || !strings.Contains(differences[0].Text, "line 1 (request)\n  A  -- request --\n") {
		t.Errorf("replay of another module: %d, %v, %v", n, differences, err)
	}
}

// TestRecordDemo records a plugin that responds without an upstream request.
func TestRecordDemo(t *testing.T) {
	wasm, err := fs.ReadFile(proxytest.Bundled(t), "all.wasm")
	if err != nil {
		t.Fatal(err)
	}
	toml := fmt.Sprintf("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"local\"\nsecret = %q\n[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n", recordedKey)
	o := plugindev.RecordOptions{Module: plugindev.Module{Name: "demo", Wasm: wasm}, Use: plugindev.Use{Settings: "{}"}, Count: 2}
	dir, recorded := recordTraffic(t, toml, proxy.NewRecorder("demo"), o, func(g *proxytest.Gateway, written func()) {
		for _, request := range []string{
			"/v1/chat/completions " + recordedHello, `/v1/messages {"model":"demo","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		} {
			path, body, _ := strings.Cut(strings.Replace(request, `"m"`, `"demo"`, 1), " ")
			if r := g.Do(t, "POST", path, body, "Authorization: Bearer "+recordedKey); r.Status != 200 {
				t.Errorf("%s: %d %s", path, r.Status, r.Body)
			}
			written()
		}
	})
	if got := fmt.Sprint(fileNames(t, dir)); got != "[0001-chat-whole-own 0002-messages-stream-own suite.json]" || recorded.Vectors != 2 {
		t.Fatalf("recorded %s, %+v", got, recorded)
	}
	tested, err := recordedSuite(t, dir).Test(t.Context(), devHost(t), o.Module, plugindev.TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range tested {
		if text := failureText(v); text != "" {
			t.Errorf("%s: %s", v.Name, text)
		}
	}
}

// TestRecordedFaultFails records a plugin that fails. Its vector has no want.txt, so the vector's test fails until the
// plugin is fixed.
func TestRecordedFaultFails(t *testing.T) {
	wasm := plugintest.Build(t, recordedPlugin)
	toml := fmt.Sprintf("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"local\"\nsecret = %q\n[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n", recordedKey)
	var problem string
	// Use allows no paths, so the plugin fails when want.txt is generated.
	o := plugindev.RecordOptions{Module: plugindev.Module{Name: "mine", Wasm: wasm}, Count: 1, Written: func(_, p string) { problem = p }}
	dir, _ := recordTraffic(t, toml, proxy.NewRecorder("demo"), o, func(g *proxytest.Gateway, written func()) {
		g.Do(t, "POST", "/v1/chat/completions", strings.Replace(recordedHello, `"m"`, `"demo"`, 1), "Authorization: Bearer "+recordedKey)
		written()
	})
	if !regexp.MustCompile(`provider_request: .*path`).MatchString(problem) {
		t.Errorf("problem %q", problem)
	}
	for name, v := range testRecorded(t, recordedSuite(t, dir)) {
		if got := failureText(v); !strings.Contains(got, "no want.txt") {
			t.Errorf("%s: failures %q", name, got)
		}
	}
}

// replayRecorded runs recorded vectors, which must pass, and replays them with the same module, which must not differ.
func replayRecorded(t *testing.T, dir string, m plugindev.Module) {
	t.Helper()
	suite := recordedSuite(t, dir)
	tested, err := suite.Test(t.Context(), devHost(t), m, plugindev.TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range tested {
		if text := failureText(v); text != "" || len(v.Warnings) > 0 {
			t.Errorf("%s: %s%s", v.Name, text, v.Warnings)
		}
	}
	if n, differences, err := suite.Replay(t.Context(), devHost(t), m, m); n != len(tested) || len(differences) != 0 || err != nil {
		t.Errorf("replay: %d, %v, %v", n, differences, err)
	}
}

// TestRecordPolling records a provider that makes further requests in an attempt: its vector has the response to each.
func TestRecordPolling(t *testing.T) {
	wasm := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/poll")
	p := &predictions{t: t, polls: map[string]int{}}
	server := httptest.NewServer(p)
	defer server.Close()
	paths := []string{"/v1/predictions", "/v1/predictions/*", "/v1/predictions/*/cancel"}
	toml := fmt.Sprintf("[[keys]]\nname = \"local\"\nsecret = %q\n", recordedKey) + guestFile(t, "poll", "key", wasm) + fmt.Sprintf(`
[providers.a]
plugin = "poll"
base_url = %q
auth = { secret = "sk-upstream-canary" }
paths = ["%s"]
[[models]]
id = "m"
targets = [{ provider = "a", model = "m" }]
`, server.URL, strings.Join(paths, `", "`))
	o := plugindev.RecordOptions{Module: plugindev.Module{Name: "poll", Wasm: wasm}, Use: plugindev.Use{Settings: "{}", Paths: paths}}
	dir, recorded := recordTraffic(t, toml, proxy.NewRecorder("a"), o, func(g *proxytest.Gateway, written func()) {
		for i, id := range []string{"two", "hiccup", "empty", "fails"} {
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%v}`, id, i == 0)
			if r := g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer "+recordedKey); r.Status != 200 && id != "fails" {
				t.Errorf("%s: %d %s", id, r.Status, r.Body)
			}
			written()
		}
	})
	want := "[0001-chat-stream-200 0002-chat-whole-200 0003-chat-whole-200 0004-chat-whole-200 suite.json]"
	if got := fmt.Sprint(fileNames(t, dir)); got != want || recorded.Vectors != 4 || recorded.Dropped != 0 {
		t.Fatalf("recorded %s, %+v; want %s", got, recorded, want)
	}
	for file, wants := range map[string][]string{
		"0001-chat-stream-200/vector.json":   {`"status": 201`},
		"0001-chat-stream-200/answer.2.json": {`{"status":"processing","output":["Hel"]}`},
		"0001-chat-stream-200/want.txt": {
			"POST /v1/predictions\n", "\nif the client leaves:\nPOST /v1/predictions/two/cancel\n", "\nafter 100ms:\nGET /v1/predictions/two\n", `"content":"Hello"`, "[DONE]",
		},
		"0002-chat-whole-200/vector.json": {`"status": 502`},
		"0003-chat-whole-200/vector.json": {`"status": 204`},
		"0004-chat-whole-200/want.txt":    {"Out of memory."},
	} {
		for _, part := range wants {
			if text := readFile(t, dir, file); !strings.Contains(text, part) {
				t.Errorf("%s lacks %q:\n%s", file, part, text)
			}
		}
	}
	replayRecorded(t, dir, o.Module)
}

// TestRecordRouterAndFilter records what a router and a filter receive, with secrets in it: the texts of a request and of
// a response, streamed and not. The second use of the filter has other settings.
func TestRecordRouterAndFilter(t *testing.T) {
	wasm, err := fs.ReadFile(proxytest.Bundled(t), "all.wasm")
	if err != nil {
		t.Fatal(err)
	}
	toml := fmt.Sprintf(`
[[keys]]
name = "local"
secret = %q
[router]
plugin = "router"
strategy = "weighted"
[[filters]]
plugin = "blocklist"
options = { phrases = ["secret plan"] }
[[filters]]
plugin = "blocklist"
on = ["request"]
tags = ["plan"]
options = { phrases = ["plan"], action = "tag", tag = "plan" }
[providers.demo]
plugin = "demo"
[[models]]
id = "demo"
targets = [{ provider = "demo", model = "demo", weight = 2 }, { provider = "demo", model = "demo-b" }]
`, recordedKey)
	use := func(g *proxytest.Gateway) {
		for _, stream := range []bool{false, true} {
			body := fmt.Sprintf(`{"model":"demo","stream":%v,"messages":[{"role":"user","content":"The secret plan of %s works"}]}`, stream, recordedKey)
			if r := g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer "+recordedKey); r.Status != 200 || !strings.Contains(r.Body, "[blocked]") {
				t.Errorf("%d %s", r.Status, r.Body)
			}
		}
	}
	t.Run("router", func(t *testing.T) {
		o := plugindev.RecordOptions{Module: plugindev.Module{Name: "router", Wasm: wasm}, Use: plugindev.Use{Settings: `{"strategy":"weighted"}`}}
		dir, recorded := recordTraffic(t, toml, proxy.NewInputRecorder("router"), o, func(g *proxytest.Gateway, written func()) {
			use(g)
			written()
			written()
		})
		if got := fmt.Sprint(fileNames(t, dir)); got != "[0001-targets 0002-targets suite.json]" || recorded.Vectors != 2 {
			t.Fatalf("recorded %s, %+v", got, recorded)
		}
		if text := readFile(t, dir, "0001-targets/targets.json"); !strings.Contains(text, `"model":"demo-b"`) || !strings.Contains(text, `"summary":{`) {
			t.Errorf("targets.json: %s", text)
		}
		if text := readFile(t, dir, "0001-targets/want.txt"); !strings.HasPrefix(text, "-- order --\n") {
			t.Errorf("want.txt: %s", text)
		}
		replayRecorded(t, dir, o.Module)
	})
	t.Run("filter", func(t *testing.T) {
		o := plugindev.RecordOptions{Module: plugindev.Module{Name: "blocklist", Wasm: wasm}, Use: plugindev.Use{Settings: `{"phrases":["secret plan"]}`}}
		dir, recorded := recordTraffic(t, toml, proxy.NewInputRecorder("blocklist"), o, func(g *proxytest.Gateway, written func()) {
			use(g)
			for range 6 {
				written()
			}
		})
		want := "[0001-user 0002-user 0003-text 0004-user 0005-user 0006-text suite.json]"
		if got := fmt.Sprint(fileNames(t, dir)); got != want || recorded.Vectors != 6 {
			t.Fatalf("recorded %s, %+v; want %s", got, recorded, want)
		}
		for file, wants := range map[string][]string{
			"0001-user/text.json": {`"what": "user"`, "The secret plan of [redacted] works"},
			"0001-user/want.txt":  {"The [blocked] of [redacted] works"},
			"0002-user/text.json": {"The [blocked] of [redacted] works", `"action":`, `"plan"`},
			"0003-text/text.json": {`"what": "text"`, "[blocked]"},
			"0006-text/text.json": {`"what": "text"`, "[blocked]"},
		} {
			for _, part := range wants {
				if text := readFile(t, dir, file); !strings.Contains(text, part) {
					t.Errorf("%s lacks %q:\n%s", file, part, text)
				}
			}
		}
		replayRecorded(t, dir, o.Module)
	})
}
