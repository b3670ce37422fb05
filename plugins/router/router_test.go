package router

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// target is a target in the router's input.
type target struct {
	Provider    string  `json:"provider"`
	Model       string  `json:"model"`
	Weight      int     `json:"weight"`
	Priority    int     `json:"priority"`
	Fallback    bool    `json:"fallback"`
	Unhealthy   bool    `json:"-"`
	InFlight    int     `json:"inflight"`
	Latency     int     `json:"latency_ms"`
	InputPrice  float64 `json:"input_price"`
	OutputPrice float64 `json:"output_price"`
	Cost        float64 `json:"expected_cost,omitempty"`

	Measurements map[string]float64 `json:"measurements,omitempty"`
}

func input(random uint64, targets []target) []byte { return inputWith(random, nil, targets) }

// inputWith returns the router's input, with additional members of the summary.
func inputWith(random uint64, summary map[string]any, targets []target) []byte {
	type inputTarget struct {
		Index int `json:"index"`
		target
		Healthy bool           `json:"healthy"`
		Errors  float64        `json:"error_rate"`
		Options map[string]any `json:"options"`
	}
	var in struct {
		Summary map[string]any `json:"summary"`
		Targets []inputTarget  `json:"targets"`
	}
	in.Summary = map[string]any{"request_id": "req_test", "random": fmt.Sprintf("%016x", random), "model": "m", "flags": []string{"tools"}}
	maps.Copy(in.Summary, summary)
	for i, t := range targets {
		in.Targets = append(in.Targets, inputTarget{Index: i, target: t, Healthy: !t.Unhealthy, Errors: 0.25})
	}
	p, err := json.Marshal(in)
	if err != nil {
		panic(err) // impossible for these types
	}
	return p
}

var suite = plugintest.Suite{Package: "plugins/all", Plugin: "router"}

// bind binds the router with a strategy. "" means the default.
func bind(tb testing.TB, p *plugintest.Plugin, strategy string) *plugintest.Binding {
	tb.Helper()
	settings := ""
	switch strategy {
	case "":
	case "least-measured":
		settings = `{"strategy":"least-measured","measurement":"waiting"}`
	default:
		settings = fmt.Sprintf(`{"strategy":%q}`, strategy)
	}
	b, err := p.Bind(settings)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func choices(t *testing.T, b *plugintest.Binding, in []byte, n int) (order, explain string) {
	t.Helper()
	o, explain, err := b.Choose(in, n)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(fmt.Sprint(o), "[]"), explain
}

func TestOrder(t *testing.T) {
	tests := []struct {
		name, strategy string
		targets        []target
		order, explain string
	}{
		{"one", "", []target{{Provider: "a", Model: "x"}}, "0", "weighted: a x"},
		{"none", "", nil, "", "weighted"},
		{"targets of weight 0 keep their order", "weighted", []target{{Provider: "a"}, {Provider: "b"}, {Provider: "c"}}, "0 1 2", "weighted: a , then b , then c "},
		{"targets of weight 0 come last", "weighted", []target{{Provider: "a", Model: "x"}, {Provider: "b", Model: "y", Weight: 1}}, "1 0", "weighted: b y, then a x"},
		{"fallbacks come last", "weighted", []target{{Weight: 9, Fallback: true, Provider: "a", Model: "x"}, {Provider: "b", Model: "y"}}, "1 0", "weighted: b y, then a x (fallback)"},
		{"unhealthy targets come after fallbacks", "weighted",
			[]target{{Provider: "a", Model: "x", Weight: 1, Unhealthy: true}, {Provider: "b", Model: "y", Fallback: true}, {Provider: "c", Model: "z", Weight: 1}},
			"2 1 0", "weighted: c z, then b y (fallback), then a x (unhealthy)"},
		{"all unhealthy", "priority", []target{{Priority: 2, Unhealthy: true}, {Priority: 1, Unhealthy: true}, {Unhealthy: true, Fallback: true}}, "1 0 2", ""},
		{"priority", "priority", []target{{Priority: 3}, {Priority: 1}, {Priority: 2}}, "1 2 0", ""},
		{"priority before weight", "priority", []target{{Priority: 2, Weight: 100}, {Priority: 1, Weight: 1}}, "1 0", ""},
		{"negative priority", "priority", []target{{Priority: 0}, {Priority: -1}}, "1 0", ""},
		{"negative weight counts as 0", "weighted", []target{{Weight: -5}, {Weight: 1}}, "1 0", ""},
		{"latency", "least-latency", []target{{Latency: 300}, {Latency: 100}, {Latency: 200}}, "1 2 0", ""},
		{"unknown latency comes first", "least-latency", []target{{Latency: 300}, {}, {Latency: 200}}, "1 2 0", ""},
		{"latency before weight", "least-latency", []target{{Latency: 300, Weight: 9}, {Latency: 100, Weight: 1}}, "1 0", ""},
		{"latency, and requests in flight", "least-latency", []target{{Latency: 100, InFlight: 3}, {Latency: 300}, {Latency: 101, InFlight: 2}}, "1 2 0", ""},
		{"equal latency, by requests in flight", "least-latency", []target{{Latency: 100, InFlight: 2}, {Latency: 100, InFlight: 1}}, "1 0", ""},
		{"unknown latency, by requests in flight", "least-latency", []target{{InFlight: 1}, {}, {Latency: 1}}, "1 0 2", ""},
		{"the less busy one", "least-busy", []target{{Weight: 1, InFlight: 2}, {Weight: 1, InFlight: 1}}, "1 0", ""},
		{"busy in proportion to the weight", "least-busy", []target{{Weight: 1, InFlight: 1}, {Weight: 9, InFlight: 8}}, "1 0", ""},
		{"busier than its weight", "least-busy", []target{{Weight: 9, InFlight: 30}, {Weight: 1, InFlight: 1}}, "1 0", ""},
		{"busy fallbacks come last", "least-busy", []target{{Weight: 9, Fallback: true}, {Weight: 1, InFlight: 50}}, "1 0", ""},
		{"price", "cheapest", []target{{InputPrice: 3, OutputPrice: 15}, {InputPrice: 0.15, OutputPrice: 0.6}, {InputPrice: 0.1, OutputPrice: 0.7}}, "1 2 0", ""},
		{"expected cost before price", "cheapest", []target{{InputPrice: 1, Cost: 0.3}, {InputPrice: 2, Cost: 0.1}, {InputPrice: 3, Cost: 0.2}}, "1 2 0", ""},
		{"equal costs, by price", "cheapest", []target{{InputPrice: 2, Cost: 0.1}, {InputPrice: 1, Cost: 0.1}}, "1 0", ""},
		{"unknown cost comes first", "cheapest", []target{{InputPrice: 2, Cost: 0.1}, {}}, "1 0", ""},
		{"equal prices keep the order", "cheapest", []target{{InputPrice: 1}, {OutputPrice: 1}}, "0 1", ""},
		{"measurement", "least-measured", []target{{Measurements: map[string]float64{"waiting": 3}}, {Measurements: map[string]float64{"waiting": 0.5}}, {Measurements: map[string]float64{"waiting": 2}}},
			"1 2 0", ""},
		{"unknown measurement comes last", "least-measured", []target{{Measurements: map[string]float64{"running": 1}}, {Measurements: map[string]float64{"waiting": 9}}, {}}, "1 0 2", ""},
		{"equal measurements, by weight", "least-measured", []target{{Measurements: map[string]float64{"waiting": 0}}, {Weight: 1, Measurements: map[string]float64{"waiting": 0}}}, "1 0", ""},
		{"explanation of many targets", "priority",
			[]target{{Provider: "a", Model: "v"}, {Provider: "b", Model: "w", Priority: 1}, {Provider: "c", Model: "x", Priority: 2}, {Provider: "d", Priority: 3}, {Provider: "e", Priority: 4}},
			"0 1 2 3 4", "priority: a v, then b w, then c x, then 2 more"},
	}
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		p := suite.Load(t, form)
		t.Run(form.String(), func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					b := bind(t, p, test.strategy)
					order, explain := choices(t, b, input(7, test.targets), len(test.targets))
					if order != test.order {
						t.Errorf("got order %q, want %q", order, test.order)
					}
					if test.explain != "" && explain != test.explain {
						t.Errorf("got explanation %q, want %q", explain, test.explain)
					}
				})
			}
		})
	}
}

func TestWeightedDistribution(t *testing.T) {
	draws := 20000
	if testing.Short() {
		draws = 2000
	}
	targets := []target{{Weight: 9}, {Weight: 1}, {Weight: 0}, {Weight: 90, Fallback: true}}
	p := suite.Load(t, plugintest.Native)
	for _, strategy := range []string{"weighted", "priority"} {
		t.Run(strategy, func(t *testing.T) {
			b := bind(t, p, strategy)
			first := make([]int, len(targets))
			random := splitMix(1)
			for range draws {
				order, _ := choices(t, b, input(random.next(), targets), len(targets))
				if order != "0 1 2 3" && order != "1 0 2 3" {
					t.Fatalf("got order %s, want 0 1 2 3 or 1 0 2 3", order)
				}
				first[order[0]-'0']++
			}
			// Six standard deviations of the binomial distribution. The random numbers are the same in every run.
			if d := math.Abs(float64(first[0]) - 0.9*float64(draws)); d > 6*math.Sqrt(float64(draws)*0.9*0.1) {
				t.Errorf("got first targets %v of %d, want 90%% target 0", first, draws)
			}
		})
	}
}

func TestSameRandomNumbersGiveSameOrder(t *testing.T) {
	targets := make([]target, 40)
	for i := range targets {
		targets[i] = target{Provider: "p", Model: fmt.Sprint(i), Weight: i % 7, Priority: i % 3, Fallback: i%5 == 0}
	}
	code, wasm := suite.Load(t, plugintest.Native), suite.Load(t, plugintest.Module)
	for _, strategy := range strategyNames {
		t.Run(strategy, func(t *testing.T) {
			native, module := bind(t, code, strategy), bind(t, wasm, strategy)
			for random := range uint64(20) {
				in := input(random<<60|random, targets)
				a, whyA := choices(t, native, in, len(targets))
				b, whyB := choices(t, module, in, len(targets))
				if a != b || whyA != whyB {
					t.Errorf("native: %s (%s), module: %s (%s)", a, whyA, b, whyB)
				}
				if n := len(strings.Fields(a)); n != len(targets) {
					t.Errorf("got %d candidates for %d targets", n, len(targets))
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	const latency = "invalid max_latency: want a duration"
	const unknown, member = "invalid strategy: want weighted, priority, least-busy, least-latency, cheapest or least-measured", "unknown member: want strategy, max_latency or measurement"
	suite.TestSettings(t, map[string]string{
		`{}`:                                   "",
		`{"strategy":"cheapest"}`:              "",
		`{"strategy":"random"}`:                unknown,
		`{"strategy":7}`:                       unknown,
		`{"stratgy":"cheapest"}`:               member,
		`{"strategy":"cheapest","weights":{}}`: member,

		`{"strategy":"least-measured","measurement":"x"}`: "",
		`{"strategy":"least-measured"}`:                   "least-measured needs measurement",
		`{"measurement":"x"}`:                             "least-measured needs measurement",

		`{"strategy":"cheapest","max_latency":"2s"}`: "",
		`{"max_latency":"1m30.5s"}`:                  "",
		`{"max_latency":"800ms"}`:                    "",
		`{"max_latency":"1h"}`:                       "",
		`{"max_latency":2}`:                          latency,
		`{"max_latency":"2"}`:                        latency,
		`{"max_latency":""}`:                         latency,
		`{"max_latency":"0s"}`:                       latency,
		`{"max_latency":"-1s"}`:                      latency,
		`{"max_latency":"2sx"}`:                      latency,
		`{"max_latency":"1h1ms"}`:                    latency,
		`{"max_latency":"1..5s"}`:                    latency,
	})
}

func BenchmarkChoose(b *testing.B) {
	p := suite.Load(b, plugintest.Module)
	for _, n := range []int{2, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			binding := bind(b, p, "weighted")
			in := input(7, make([]target, n))
			before := p.Fuel()
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := binding.Choose(in, n); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(p.Fuel()-before)/float64(b.N), "fuel/op")
		})
	}
}
