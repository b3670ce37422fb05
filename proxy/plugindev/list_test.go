package plugindev_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// listed is a provider with a model list of pages.
const listed = "proxy/plugintest/testdata/listed"

func TestVectorsOfModelLists(t *testing.T) {
	s := openSuite(t, folder(t, map[string]string{
		plugindev.SuiteFile:  `{"paths":["/models"]}`,
		"first/list.json":    `{"models":["a","b"],"next":"p2"}`,
		"first/want.txt":     "-- request --\nGET /models\n-- models --\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n-- next --\np2\n",
		"second/list.json":   `{"models":[]}`,
		"second/vector.json": `{"cursor":"p2"}`,
		"second/want.txt":    "-- request --\nGET /models?page=p2\n-- models --\n",
		"failed/list.json":   `{}`,
		"failed/vector.json": `{"status":401}`,
		"wrong/list.json":    `{"models":["a"]}`,
		"wrong/want.txt":     "-- request --\nGET /models\n-- models --\n{\"id\":\"b\"}\n",
	}))
	tested := test(t, s, listed, plugindev.TestOptions{})
	for name, want := range map[string]string{
		"first": "", "second": "", "failed": "no want.txt", "wrong": `want  {"id":"b"}`,
	} {
		if got := failures(tested[name]); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got failures %q, want %q", name, got, want)
		}
	}
	test(t, s, listed, plugindev.TestOptions{Update: true})
	text, err := os.ReadFile(filepath.Join(s.Dir, "failed", plugindev.WantFile))
	if err != nil || !strings.Contains(string(text), "-- error --\n") {
		t.Errorf("got want.txt %q, %v", text, err)
	}
	if got := failures(test(t, openSuite(t, folder(t, map[string]string{"v/list.json": "{}"})), provider, plugindev.TestOptions{Update: true})["v"]); !strings.Contains(got, "the plugin has no model list") {
		t.Errorf("plugin without a list: got failures %q", got)
	}
}

func TestTraceOfRoutersAndFilters(t *testing.T) {
	route, err := plugindev.ReadRoute([]byte(`{"summary":{"body":1},"targets":[{"healthy":true},{"healthy":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := plugindev.ReadText([]byte(`{"text":"hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	for pkg, trace := range map[string]func(*plugindev.Binding) (string, error){"examples/plugins/go-router": route.Trace, "examples/plugins/go-filter": text.Trace} {
		p, err := newHost(t).Load(t.Context(), plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, pkg)})
		if err != nil {
			t.Fatal(err)
		}
		use := plugindev.Use{}
		if p.Filter() {
			use.Settings = `{"words":["secret"]}`
		} else {
			use.Settings = `{"long":1000}`
		}
		b, err := p.Bind(t.Context(), use)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trace(b)
		if err != nil || !strings.Contains(got, "-- fuel --\n") || !strings.HasPrefix(got, "-- order --\n0 1\n") && !strings.HasPrefix(got, "-- text --\nhello\n") {
			t.Errorf("%s: got %v and\n%s", pkg, err, got)
		}
		p.Close()
	}
	if _, err := plugindev.ReadRoute([]byte("[")); err == nil {
		t.Error("got no error for targets that are not JSON")
	}
	if _, err := plugindev.ReadText([]byte(`{"what":"unknown"}`)); err == nil {
		t.Error("got no error for an unknown kind of text")
	}
}
