package plugindev_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// checkScore checks that a plugin breaks no rules except those in breaks, and that at least one rule was tested.
func checkScore(t *testing.T, h *plugindev.Host, s *plugindev.Suite, m plugindev.Module, breaks ...string) {
	t.Helper()
	marks, err := s.Score(t.Context(), h, m)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, mark := range marks {
		if mark.Tried > 0 {
			tried++
		}
		if mark.Broken != "" && !slices.Contains(breaks, mark.Rule) {
			t.Errorf("%s:\n%s", mark.Rule, mark.Broken)
		}
	}
	if tried == 0 {
		t.Error("no rule was tested")
	}
}

// TestScoreShowsBrokenRules checks that the suite detects the rules that plugins break.
func TestScoreShowsBrokenRules(t *testing.T) {
	broken := func(s *plugindev.Suite, pkg string) (rules []string) {
		t.Helper()
		marks, err := s.Score(t.Context(), newHost(t), plugindev.Module{Name: "tested", Wasm: plugintest.Build(t, pkg)})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marks {
			if m.Broken != "" {
				rules = append(rules, m.Rule)
			}
		}
		return rules
	}
	leaky := openSuite(t, folder(t, map[string]string{"a/request.json": strings.Replace(hello, "hello", "a secret", 1), "b/request.json": hello}))
	test(t, leaky, "proxy/plugintest/testdata/leaky", plugindev.TestOptions{Update: true})
	if got := broken(leaky, "proxy/plugintest/testdata/leaky"); !slices.Contains(got, "an instance keeps no state between calls") {
		t.Errorf("plugin with state: got broken rules %q", got)
	}
	// Without allowed paths, every request fails.
	s := openSuite(t, folder(t, map[string]string{"a/request.json": hello}))
	if got := broken(s, provider); !slices.Contains(got, "any request is built, or rejected") || !slices.Contains(got, "each vector matches its want.txt") {
		t.Errorf("failing plugin: got broken rules %q", got)
	}
}

func TestBench(t *testing.T) {
	s := openSuite(t, "../../examples/plugins/testdata/provider")
	measures, err := s.Bench(t.Context(), newHost(t), plugindev.Module{Name: "go-provider", Wasm: plugintest.Build(t, provider)}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]bool)
	for _, m := range measures {
		calls[m.Call] = true
		if m.Plugin != "go-provider" || m.Calls == 0 || m.Fuel <= 0 || m.Time <= 0 || m.Share <= 0 || m.Share > 1 {
			t.Errorf("got invalid measurement %+v", m)
		}
	}
	for _, call := range []string{"provider_request", "provider_event", "provider_response"} {
		if !calls[call] {
			t.Errorf("got no measurement of %s, only of %v", call, calls)
		}
	}
}
