package plugintest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// RecordedRequests returns requests that real clients of an API ("messages" or "responses") sent, by name.
func RecordedRequests(tb testing.TB, form string) map[string][]byte {
	tb.Helper()
	root, err := buildtest.ModuleRoot(".")
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(root, "proxy", "internal", form, "testdata", "requests", "*.json"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("plugintest: no recorded requests for %s: %v", form, err)
	}
	all := make(map[string][]byte, len(files))
	for _, file := range files {
		if all[strings.TrimSuffix(filepath.Base(file), ".json")], err = os.ReadFile(file); err != nil {
			tb.Fatalf("plugintest: %v", err)
		}
	}
	return all
}

// TestPassedOn checks that requests in an API that the upstream speaks itself are forwarded byte for byte, except for
// the model. head is the start of the upstream's request: a line with method and path, and its headers.
func (s Suite) TestPassedOn(t *testing.T, form, head string) {
	t.Helper()
	const model, quoted = `up/"model"`, `"up/\"model\""`
	s.EachForm(t, s.Use.Settings, func(t *testing.T, b *Binding) {
		passed := 0
		for name, request := range RecordedRequests(t, form) {
			if e := plugindev.CheckRequest(form, request); e != nil {
				t.Logf("%s skipped, as it is for another endpoint: %v", name, e)
				continue
			}
			passed++
			var doc jsondoc.Doc
			if err := doc.Parse(request, jsondoc.Limits{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			v := doc.Root().Get("model")
			want := string(request[:v.Offset()]) + quoted + string(request[v.Offset()+len(v.Raw()):])
			r := (&Vector{Form: form, Target: model, Status: 200, Request: request, Options: json.RawMessage(s.Use.Settings)}).Run(b, false)
			if want = head + "\n\n" + want + "\n"; r.Request != want || r.Warnings != "" {
				t.Errorf("%s: sent\n%s%s%s\nwant\n%s", name, r.Request, r.Warnings, r.Response, want)
			}
		}
		if passed < 60 {
			t.Errorf("%d requests were forwarded, want at least 60 for the test to be meaningful", passed)
		}
	})
}
