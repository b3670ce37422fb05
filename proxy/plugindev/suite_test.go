package plugindev_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var engine = sync.OnceValues(func() (*plugindev.Engine, error) {
	dir, err := buildtest.CacheDir("compiled")
	if err != nil {
		return nil, err
	}
	return plugindev.NewEngine(dir)
})

func newHost(t *testing.T) *plugindev.Host {
	t.Helper()
	e, err := engine()
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

// folder writes files to a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openSuite(t *testing.T, dir string) *plugindev.Suite {
	t.Helper()
	s, err := plugindev.OpenSuite(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// test runs a suite on a plugin of this repository, and returns the results by the vectors' names.
func test(t *testing.T, s *plugindev.Suite, pkg string, o plugindev.TestOptions) map[string]plugindev.Tested {
	t.Helper()
	tested, err := s.Test(t.Context(), newHost(t), plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, pkg)}, o)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]plugindev.Tested)
	for _, v := range tested {
		byName[v.Name] = v
	}
	return byName
}

// failures returns the failures of a vector as text.
func failures(v plugindev.Tested) string {
	var b strings.Builder
	for _, f := range v.Failures {
		b.WriteString(f.Where + ": " + f.Text + "\n")
	}
	return b.String()
}

const (
	provider = "examples/plugins/go-provider"
	hello    = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
)

func providerSuite(t *testing.T, files map[string]string) *plugindev.Suite {
	t.Helper()
	files[plugindev.SuiteFile] = `{"paths":["/say"]}`
	return openSuite(t, folder(t, files))
}

func TestVectorsOfExamplePass(t *testing.T) {
	s := openSuite(t, "../../examples/plugins/testdata/provider")
	s.Use.Paths = []string{"/say"}
	tested := test(t, s, provider, plugindev.TestOptions{})
	if len(tested) < 5 {
		t.Errorf("got %d vectors, want at least 5", len(tested))
	}
	for name, v := range tested {
		if text := failures(v); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
	if c := tested["text"].Cost; c.Request == 0 || c.Reads != 3 || c.Reading == 0 || c.Share == 0 {
		t.Errorf("got cost %+v, want fuel for a request and 3 reads", c)
	}
	selected := test(t, s, provider, plugindev.TestOptions{Run: regexp.MustCompile("^bro")})
	if _, ok := selected["broken"]; !ok || len(selected) != 1 {
		t.Errorf("got vectors %v, want only broken", selected)
	}
}

func TestDetectsStateBetweenRequests(t *testing.T) {
	s := openSuite(t, folder(t, map[string]string{
		"first/request.json":  strings.Replace(hello, "hello", "a secret", 1),
		"second/request.json": hello,
	}))
	const leaky = "proxy/plugintest/testdata/leaky"
	test(t, s, leaky, plugindev.TestOptions{Update: true})
	tested := test(t, s, leaky, plugindev.TestOptions{})
	if got := failures(tested["second"]); !strings.Contains(got, "instance that has served other requests: the plugin keeps state") || !strings.Contains(got, "I heard a secret.") {
		t.Errorf("got failures %q", got)
	}
}

func TestRetryWithSeveralAnswers(t *testing.T) {
	s := providerSuite(t, map[string]string{
		"retry/request.json":    hello,
		"retry/vector.json":     `{"answers":[{"status":429}]}`,
		"retry/answer.1.json":   `{"wait":true}`,
		"retry/answer.2.sse":    "data: {\"text\":\"Hi\"}\n\ndata: {\"tokens\":1}\n\n",
		"enough/request.json":   hello,
		"enough/answer.1.sse":   "data: {\"text\":\"Hi\"}\n\ndata: {\"tokens\":1}\n\n",
		"enough/answer.2.json":  `{"wait":true}`,
		"lasting/request.json":  hello,
		"lasting/vector.json":   `{"answers":[{"status":429},{"status":503}]}`,
		"lasting/answer.1.json": `{}`,
		"lasting/answer.2.json": `{}`,
	})
	test(t, s, provider, plugindev.TestOptions{Update: true})
	for name, v := range test(t, s, provider, plugindev.TestOptions{}) {
		if text := failures(v); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
	for name, wants := range map[string][]string{
		"retry":   {"-- whole --\nattempt 1: 429 rate_limit_exceeded\n200\n", `"content":"Hi"`, "[DONE]"},
		"enough":  {"attempt 1 is the last: the other answers are not asked for\n200\n"},
		"lasting": {"-- whole --\nattempt 1: 429 rate_limit_exceeded\n50"},
	} {
		text, err := os.ReadFile(filepath.Join(s.Dir, name, plugindev.WantFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: want.txt lacks %q:\n%s", name, want, text)
			}
		}
		if n := strings.Count(string(text), "POST /say"); (n == 2) != (name != "enough") {
			t.Errorf("%s: got %d requests to the provider", name, n)
		}
	}
}

func TestVectorsOfRouter(t *testing.T) {
	s := openSuite(t, folder(t, map[string]string{
		plugindev.SuiteFile:  `{"settings":{"long":1000}}`,
		"long/targets.json":  `{"summary":{"body":1000},"targets":[{"healthy":false},{"healthy":true},{"healthy":true}]}`,
		"long/want.txt":      "-- order --\n2 1 0\n-- explain --\nlong\n",
		"short/targets.json": `{"summary":{"body":999},"targets":[{"healthy":true},{"healthy":true}]}`,
		"short/want.txt":     "-- order --\n1 0\n-- explain --\nshort\n",
		"other/targets.json": `{"summary":{"body":999},"targets":[{"healthy":true}]}`,
		"other/vector.json":  `{"settings":{"long":999}}`,
		"other/want.txt":     "-- order --\n0\n-- explain --\nlong\n",
	}))
	tested := test(t, s, "examples/plugins/go-router", plugindev.TestOptions{})
	for name, want := range map[string]string{
		"long":  "",
		"short": "fresh instance: differs from " + filepath.Join(s.Dir, "short", "want.txt") + "\n  line 2 (order)\n  want  1 0\n  got   0 1\n",
		"other": "",
	} {
		if got := failures(tested[name]); got != want {
			t.Errorf("%s: got failures %q, want %q", name, got, want)
		}
	}
}

func TestWantFiles(t *testing.T) {
	s := providerSuite(t, map[string]string{"new/request.json": hello, "old/request.json": hello, "old/want.txt": "something\n"})
	tested := test(t, s, provider, plugindev.TestOptions{})
	if got := failures(tested["new"]); !strings.Contains(got, "no want.txt") || !strings.Contains(got, "POST /say") {
		t.Errorf("missing want.txt: got failures %q", got)
	}
	if got := failures(tested["old"]); !strings.Contains(got, "want  something\n") {
		t.Errorf("different want.txt: got failures %q", got)
	}
	for name, v := range test(t, s, provider, plugindev.TestOptions{Update: true}) {
		if len(v.Failures) > 0 || !v.Updated {
			t.Errorf("%s: got %+v, want an update without failures", name, v)
		}
	}
	for name, v := range test(t, s, provider, plugindev.TestOptions{Update: true}) {
		if len(v.Failures) > 0 || v.Updated {
			t.Errorf("%s: got %+v, want neither an update nor failures", name, v)
		}
	}
}

func TestRejectsInvalidSuites(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"unknown member":         {map[string]string{"suite.json": `{"path":[]}`}, `unknown field "path"`},
		"answer without a file":  {map[string]string{"v/request.json": hello, "v/vector.json": `{"answers":[{},{}]}`, "v/answer.1.json": "{}"}, "no file answer.2"},
		"two kinds of answers":   {map[string]string{"v/request.json": hello, "v/answer.json": "{}", "v/answer.1.json": "{}"}, "one answer, and numbered ones"},
		"targets are not JSON":   {map[string]string{"v/targets.json": "{"}, "targets.json: unexpected end"},
		"unknown in vector.json": {map[string]string{"v/targets.json": "{}", "v/vector.json": `{"setting":{}}`}, `unknown field "setting"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := plugindev.OpenSuite(folder(t, test.files)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

func TestDiffIsShort(t *testing.T) {
	long := strings.Repeat("x", 400)
	for name, test := range map[string]struct{ want, got, diff string }{
		"equal":         {"a\nb", "a\nb", ""},
		"changed line":  {"-- whole --\na\nb\nc", "-- whole --\na\nB\nc", "  line 3 (whole)\n  want  b\n  got   B"},
		"missing line":  {"a\nb\nc", "a\nc", "  line 2\n  want  b\n  got   (nothing)"},
		"added line":    {"a\nc", "a\nb\nc", "  line 2\n  want  (nothing)\n  got   b"},
		"many lines":    {"a", "b\nc\nd\ne\nf", "  line 1\n  want  a\n  got   b\n  got   c\n  got   d\n        and 2 more lines"},
		"long line":     {long + "1" + long, long + "2" + long, "  line 1\n  want  …" + long[:32] + "1" + long[:63] + "…\n  got   …" + long[:32] + "2" + long[:63] + "…"},
		"two-byte rune": {long + "ä" + long, long + "ö" + long, ""},
	} {
		got := plugindev.Diff(test.want, test.got)
		if name == "two-byte rune" {
			if !strings.Contains(got, "ä") || !strings.Contains(got, "ö") || len(got) > 250 {
				t.Errorf("%s: got %q, want both runes in at most 250 bytes", name, got)
			}
			continue
		}
		if got != test.diff {
			t.Errorf("%s: got %q, want %q", name, got, test.diff)
		}
	}
}

func TestTrace(t *testing.T) {
	h := newHost(t)
	p, err := h.Load(t.Context(), plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, provider)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b, err := p.Bind(t.Context(), plugindev.Use{Paths: []string{"/say"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := plugindev.ReadAnswer("x.sse", []byte("data: {\"text\":\"Hi\"}\n\ndata: {\"text\":\" you\"}\n\ndata: {\"tokens\":1}\n\n"), 200)
	if err != nil {
		t.Fatal(err)
	}
	v := plugindev.Vector{Target: "m", Request: []byte(hello), Answers: []plugindev.Answer{a}}
	text, err := v.Trace(b, false)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^-- to the provider --\nPOST /say\n(.*\n)+-- to the client --\n200\n.*Hi you.*\n\n-- fuel --\nprovider_request   \d+\nprovider_event     \d+ in 3 calls, \d+ at most\n(provider_end .*\n)?costliest call .*\n$`)
	if !want.MatchString(text) {
		t.Errorf("got trace\n%s\nwant a match of %s", text, want)
	}
	v.Answers[0].Body = v.Answers[0].Body[:30]
	if text, err = v.Trace(b, true); err == nil || !strings.Contains(text, "-- error --\n") {
		t.Errorf("truncated response: got error %v and trace\n%s", err, text)
	}
	if _, err := plugindev.ReadAnswer("x.txt", nil, 200); err == nil {
		t.Error("got no error for a response with an unknown extension")
	}
}

// TestFurtherRequests runs vectors of a provider that creates a prediction and polls it: each request takes the next answer.
func TestFurtherRequests(t *testing.T) {
	const poll = "proxy/internal/testing/e2e/testdata/guests/poll"
	const created, running, complete = `{"id":"p1","status":"starting","output":null}`, `{"status":"processing","output":["Hel"]}`,
		`{"status":"succeeded","output":["Hel","lo"],"metrics":{"input_token_count":5,"output_token_count":7}}`
	dir := folder(t, map[string]string{
		plugindev.SuiteFile:    `{"paths":["/v1/predictions","/v1/predictions/*","/v1/predictions/*/cancel"]}`,
		"whole/request.json":   hello,
		"whole/answer.1.json":  created,
		"whole/answer.2.json":  running,
		"whole/answer.3.json":  complete,
		"gone/request.json":    hello,
		"gone/vector.json":     `{"answers":[{"status":201},{"status":404}]}`,
		"gone/answer.1.json":   created,
		"gone/answer.2.json":   `{}`,
		"empty/request.json":   hello,
		"empty/vector.json":    `{"answers":[{"status":201},{"status":204}]}`,
		"empty/answer.1.json":  created,
		"empty/answer.2.json":  "",
		"empty/answer.3.json":  complete,
		"missing/request.json": hello,
		"missing/answer.json":  created,
	})
	tested := test(t, openSuite(t, dir), poll, plugindev.TestOptions{Update: true})
	for name, want := range map[string]string{
		"whole":   "",
		"gone":    "[want.txt has an error for the client: 502 upstream_error]",
		"empty":   "",
		"missing": "[next_request asks for GET /v1/predictions/p1, to which the vector has no answer: add it, with the answers in files answer.1.json, answer.2.json and so on want.txt has an error for the client: 502 upstream_stream_truncated]",
	} {
		v := tested[name]
		if got := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(v.Warnings), "[]"), "[]"); failures(v) != "" || got != want {
			t.Errorf("%s: %s\n got %s\nwant %s", name, failures(v), got, want)
		}
	}
	const requests = `-- request --
POST /v1/predictions

{"model":"target-model","input":{"messages":[{"role":"user","content":"hello"}]}}

if the client leaves:
POST /v1/predictions/p1/cancel

after 100ms:
GET /v1/predictions/p1

after 100ms:
GET /v1/predictions/p1
-- whole --
200
`
	text, err := os.ReadFile(filepath.Join(dir, "whole", plugindev.WantFile))
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := strings.CutPrefix(string(text), requests)
	if !ok || !strings.Contains(rest, `"content":"Hello"`) || strings.Count(rest, `"delta":{"content":"`) != 2 || !strings.Contains(rest, `"completion_tokens":7`) {
		t.Errorf("want.txt:\n%s", text)
	}
	for name, v := range test(t, openSuite(t, dir), poll, plugindev.TestOptions{}) {
		if failures(v) != "" {
			t.Errorf("%s: %s", name, failures(v))
		}
	}
}
