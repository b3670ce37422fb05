package router

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/router"
)

// TestRendezvousVectors checks the examples of the plugin contract. The same examples test the host's implementation.
func TestRendezvousVectors(t *testing.T) {
	text, err := os.ReadFile("../../sdk/abi/testdata/rendezvous.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Affinity string
		Targets  []struct {
			target
			Cost uint64
		}
		Order []int
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, error %v", len(vectors), err)
	}
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, form)
		bindings := map[string]*plugintest.Binding{"weighted": bind(t, p, "weighted"), "priority": bind(t, p, "priority"), "cheapest": bind(t, p, "cheapest")}
		for _, v := range vectors {
			affinity, err := strconv.ParseUint(v.Affinity, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			var targets []target
			var drawn []router.Target
			for _, x := range v.Targets {
				targets = append(targets, x.target)
				drawn = append(drawn, router.Target{Provider: []byte(x.Provider), Model: []byte(x.Model), Weight: int64(x.Weight)})
			}
			for i, l := range drawLots(affinity, drawn) {
				if l.cost != v.Targets[i].Cost {
					t.Errorf("affinity %s, target %d: cost %d, want %d", v.Affinity, i, l.cost, v.Targets[i].Cost)
				}
			}
			for strategy, binding := range bindings {
				order, _, err := binding.Choose(inputWith(7, map[string]any{"affinity": v.Affinity}, targets), len(targets))
				if err != nil || fmt.Sprint(order) != fmt.Sprint(v.Order) {
					t.Errorf("%s, %s, affinity %s: got order %v, error %v, want %v", form, strategy, v.Affinity, order, err, v.Order)
				}
			}
		}
	}
}

// TestAffinity checks that affinity replaces random choices among targets of the same rank, and nothing else.
func TestAffinity(t *testing.T) {
	const hash = "9f86d081884c7d65"
	a, b, c := target{Provider: "a", Model: "m", Weight: 1}, target{Provider: "b", Model: "m", Weight: 1}, target{Provider: "c", Model: "m", Weight: 1}
	with := func(t target, change func(*target)) target {
		change(&t)
		return t
	}
	for _, test := range []struct {
		name, strategy string
		targets        []target
		explain        string // prefix of the explanation
	}{
		{"weighted", "weighted", []target{a, b, c}, "weighted with affinity: "},
		{"unhealthy target", "weighted", []target{a, with(b, func(t *target) { t.Unhealthy = true }), c}, ""},
		{"fallback", "weighted", []target{with(a, func(t *target) { t.Fallback = true }), b, c}, ""},
		{"priority", "priority", []target{with(a, func(t *target) { t.Priority = 1 }), b, c}, ""},
		{"same price", "cheapest", []target{a, b, with(c, func(t *target) { t.InputPrice = 1 })}, ""},
	} {
		for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
			p := suite.Load(t, form)
			t.Run(form.String()+"/"+test.name, func(t *testing.T) {
				binding := bind(t, p, test.strategy)
				want, why := choices(t, binding, inputWith(0, map[string]any{"affinity": hash}, test.targets), len(test.targets))
				for random := range uint64(20) {
					got, _ := choices(t, binding, inputWith(random*0x9e3779b97f4a7c15, map[string]any{"affinity": hash}, test.targets), len(test.targets))
					if got != want {
						t.Errorf("random number %d: got order %s, want %s as for 0", random, got, want)
					}
				}
				if !strings.HasPrefix(why, test.explain) {
					t.Errorf("got explanation %q, want prefix %q", why, test.explain)
				}
			})
		}
	}
	binding := bind(t, suite.Load(t, plugintest.Native), "weighted")
	orders := map[string]bool{}
	for random := range uint64(50) {
		got, why := choices(t, binding, input(random*0x9e3779b97f4a7c15, []target{a, b, c}), 3)
		orders[got] = true
		if !strings.HasPrefix(why, "weighted: ") {
			t.Errorf("got explanation %q, want prefix %q", why, "weighted: ")
		}
	}
	if len(orders) < 4 {
		t.Errorf("without an affinity, got only the orders %v", orders)
	}
}

func TestCheapest(t *testing.T) {
	small := target{Provider: "small", Model: "s", InputPrice: 1, OutputPrice: 8, Latency: 900}
	large := target{Provider: "large", Model: "l", InputPrice: 3, OutputPrice: 5, Latency: 2100}
	tokens := func(prompt, output int) map[string]any {
		return map[string]any{"prompt_tokens": prompt, "max_tokens_asked": output}
	}
	for _, test := range []struct {
		name, settings string
		summary        map[string]any
		want, explain  string
	}{
		{"no token counts", `{"strategy":"cheapest"}`, nil, "1 0", "cheapest: large l, then small s"},
		{"long prompt", `{"strategy":"cheapest"}`, tokens(100_000, 100), "0 1", ""},
		{"long response", `{"strategy":"cheapest"}`, tokens(100, 100_000), "1 0", ""},
		{"only the prompt is known", `{"strategy":"cheapest"}`, tokens(100_000, 0), "1 0", ""},
		{"too slow", `{"strategy":"cheapest","max_latency":"2s"}`, nil, "0 1", "cheapest: small s, then large l (slow)"},
		{"both too slow", `{"strategy":"cheapest","max_latency":"500ms"}`, nil, "1 0", "cheapest: large l (slow), then small s (slow)"},
		{"fast enough", `{"strategy":"cheapest","max_latency":"2.1s"}`, nil, "1 0", ""},
		{"another strategy", `{"strategy":"priority","max_latency":"1s"}`, nil, "0 1", "priority: small s, then large l"},
	} {
		suite.EachForm(t, test.settings, func(t *testing.T, b *plugintest.Binding) {
			order, why := choices(t, b, inputWith(7, test.summary, []target{small, large}), 2)
			if order != test.want || test.explain != "" && why != test.explain {
				t.Errorf("%s: got order %s (%s), want %s (%s)", test.name, order, why, test.want, test.explain)
			}
		})
	}
}
