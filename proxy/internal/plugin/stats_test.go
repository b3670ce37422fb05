package plugin_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// statsOf returns a plugin's Stats over all generations.
func statsOf(t testing.TB, h *plugin.Host, name string) plugin.Stats {
	t.Helper()
	for _, s := range h.Stats().Plugins {
		if s.Plugin == name {
			return s
		}
	}
	t.Fatalf("no stats of %s", name)
	return plugin.Stats{}
}

func TestCountsSurviveClosingASet(t *testing.T) {
	m := newModule("text").base()
	m.provider(when('x', w.Unreachable), when('l', forever()), m.echo())
	h := newHost(t, plugin.Options{})
	generation := func() (*plugin.Set, *plugin.Binding) {
		g, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: m.Bytes()}, {Name: "b", Wasm: echoModule().Bytes()}})
		if err != nil {
			t.Fatal(err)
		}
		return g, bind(t, g.Plugin("a"), plugin.BindingConfig{})
	}
	use := func(bound *plugin.Binding) {
		for _, text := range []string{"good", "x", "loop"} {
			_ = bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b(text))
		}
	}
	old, oldBound := generation()
	use(oldBound)
	first := statsOf(t, h, "a")
	// The call that trapped was retried, because its instance had served other calls.
	if first.Generations != 1 || first.Failures != 3 || first.Retries != 1 || first.Failed[plugin.KindTrap] != 2 || first.Failed[plugin.KindOutOfFuel] != 1 || first.Fuel == 0 {
		t.Errorf("stats of one generation: %+v", first)
	}
	next, nextBound := generation()
	defer next.Close()
	use(nextBound)
	if s := statsOf(t, h, "a"); s.Generations != 2 || s.Failures != 6 || s.Failed[plugin.KindTrap] != 4 || s.Calls <= first.Calls {
		t.Errorf("stats of two generations: %+v", s)
	}
	both := statsOf(t, h, "a")
	old.Close()
	if s := statsOf(t, h, "a"); s.Generations != 1 || s.Failures != both.Failures || s.Calls != both.Calls || s.Fuel != both.Fuel {
		t.Errorf("stats after closing the first generation: %+v, before: %+v", s, both)
	}
	if s := statsOf(t, h, "b"); s.Generations != 1 || s.Failures != 0 || len(s.Failed) != 0 || s.Memory == 0 {
		t.Errorf("stats of the other plugin: %+v", s)
	}
}
