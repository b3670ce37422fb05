package plugindev_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// failing is a plugin that fails as the prompt says.
const failing = "proxy/plugintest/testdata/failing"

func prompt(text string) string { return strings.Replace(hello, "hello", text, 1) }

// A vector whose request never reaches the plugin tests nothing, so it must declare that this is its point.
func TestRejectedRequestMustBeDeclared(t *testing.T) {
	const invalid = `{"model":"m","messages":[]}`
	for name, tt := range map[string]struct{ request, vector, want string }{
		"not declared":  {invalid, `{}`, "the plugin is not called: request.json is rejected: "},
		"declared":      {invalid, `{"rejected":"empty_array"}`, ""},
		"other code":    {invalid, `{"rejected":"invalid_json"}`, `declare "rejected": "empty_array" in vector.json`},
		"valid request": {hello, `{"rejected":"empty_array"}`, `the gateway accepts the request: remove "rejected": "empty_array"`},
		"called":        {hello, `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSuite(t, folder(t, map[string]string{"v/request.json": tt.request, "v/vector.json": tt.vector}))
			for range 2 { // a problem must not vanish in want.txt
				got := failures(test(t, s, failing, plugindev.TestOptions{Update: true})["v"])
				if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
					t.Errorf("got failures %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestUpdateRefusesFailedCalls(t *testing.T) {
	s := openSuite(t, folder(t, map[string]string{"v/request.json": prompt("panic")}))
	got := test(t, s, failing, plugindev.TestOptions{Update: true})["v"]
	if text := failures(got); got.Updated || !strings.Contains(text, "the plugin failed, so want.txt is not written: ") {
		t.Errorf("got update %t and failures %q, want the plugin's failure", got.Updated, text)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "v", plugindev.WantFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want.txt: %v, want no such file", err)
	}
}

// A vector for which the plugin fails often must not open a circuit, which would fail the vectors after it.
func TestFailuresOpenNoCircuit(t *testing.T) {
	e, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	clock := func() time.Time { now = now.Add(100 * time.Millisecond); return now } // failures that take long open circuits
	h, err := plugindev.NewHost(plugindev.Options{Engine: e, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	s := openSuite(t, folder(t, map[string]string{
		"b/request.json": hello, "a1/request.json": prompt("panic"),
		"a1/answer.sse": "data: " + strings.Repeat("x", 100) + "\n\n", // many splits, so many calls
	}))
	list, err := s.Test(t.Context(), h, plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, failing)}, plugindev.TestOptions{Update: true})
	if err != nil {
		t.Fatal(err)
	}
	tested := make(map[string]plugindev.Tested)
	for _, v := range list {
		tested[v.Name] = v
	}
	if got := failures(tested["b"]); got != "" {
		t.Errorf("got failures %q after other vectors failed, want none", got)
	}
	if got := failures(tested["a1"]); strings.Contains(got, "keeps state") || !strings.Contains(got, "want.txt is not written") {
		t.Errorf("failing vector: got failures %q, want only the refusal to write want.txt", got)
	}
}
