package plugintest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/native"
)

var update = flag.Bool("update", false, "write the want.txt of vectors")

// Use is how a configuration would use the plugin.
type Use struct {
	Settings string   // of the provider or the router, a JSON object; empty is {}
	Paths    []string // that it may ask for
	Headers  []string // that it may set
}

// Suite is a plugin and its vectors.
type Suite struct {
	Package string // see Build; "." is that of the test, wherever that is
	Wasm    []byte // a module built by other means, in place of Package; there is no native form of it then
	Plugin  string // of a module of several, the name of the one that is tested
	Use     Use
	Dir     string // of the vectors; empty is testdata/vectors
}

// Form is how a plugin runs.
type Form int

// The forms.
const (
	Native Form = iota // as Go code in this process
	Module             // as a module whose instances serve any call
	Fresh              // as a module whose instances serve one call each
)

var formNames = [...]string{Native: "native", Module: "module", Fresh: "fresh"}

// String is the form's name in subtests.
func (f Form) String() string { return formNames[f] }

// Host makes a host for plugins that lasts as long as the test. It keeps compiled modules in the user's cache folder.
func Host(tb testing.TB) *plugin.Host {
	tb.Helper()
	dir, err := cacheDir("compiled")
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	h, err := plugin.New(plugin.Options{Engine: engine.Options{CacheDir: dir}})
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Errorf("plugintest: %v", err)
		}
	})
	return h
}

// Bind loads the plugin in one of the forms and binds it for one use. Use's settings must pass.
func (s Suite) Bind(tb testing.TB, h *plugin.Host, form Form) *plugin.Binding {
	tb.Helper()
	return s.bind(tb, s.Load(tb, h, form), s.Use.Settings)
}

// name is what the plugin is loaded by.
func (s Suite) name() string {
	if s.Plugin == "" {
		return "under-test"
	}
	return s.Plugin
}

// Load loads the plugin in one of the forms.
func (s Suite) Load(tb testing.TB, h *plugin.Host, form Form) *plugin.Plugin {
	tb.Helper()
	var (
		g   *plugin.Set
		err error
	)
	if form == Native {
		if native.New(s.name(), nil) == nil {
			tb.Fatalf("plugintest: this program has not registered the plugin %s: is the test in the plugin's package?", s.name())
		}
		g, err = h.LoadNative(s.name(), func(h abi.Host) plugin.Guest { return native.New(s.name(), h) })
	} else {
		isolation := plugin.Shared
		if form == Fresh {
			isolation = plugin.PerCall
		}
		spec := plugin.Spec{Name: s.name(), Wasm: s.module(tb), Isolation: isolation}
		g, err = h.Load(context.Background(), []plugin.Spec{spec})
	}
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	tb.Cleanup(g.Close)
	return g.Plugin(s.name())
}

func (s Suite) bind(tb testing.TB, p *plugin.Plugin, settings string) *plugin.Binding {
	tb.Helper()
	b, err := p.Bind(context.Background(), plugin.BindingConfig{
		Name: s.name(), Settings: []byte(settings), Paths: s.Use.Paths, Headers: s.Use.Headers,
	})
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return b
}

// module is the plugin's module, which must not be changed.
func (s Suite) module(tb testing.TB) []byte {
	tb.Helper()
	if s.Wasm != nil {
		return s.Wasm
	}
	return Build(tb, s.pkg(tb))
}

// pkg is the package's folder as Build takes it.
func (s Suite) pkg(tb testing.TB) string {
	tb.Helper()
	if s.Package != "" && s.Package != "." {
		return s.Package
	}
	root, err := moduleRoot()
	if err == nil {
		var dir, rel string
		if dir, err = os.Getwd(); err == nil {
			if rel, err = filepath.Rel(root, dir); err == nil {
				return rel
			}
		}
	}
	tb.Fatalf("plugintest: %v", err)
	return ""
}

// Test runs every vector in every form and compares what comes of it with its want.txt.
func (s Suite) Test(t *testing.T) {
	t.Helper()
	vectors := s.vectors(t)
	h := Host(t)
	run := func(name string, form Form, times int) {
		p := s.Load(t, h, form)
		t.Run(name, func(t *testing.T) {
			for range times {
				for _, v := range vectors {
					t.Run(v.Name, func(t *testing.T) { v.check(t, s.bind(t, p, v.settings(s.Use))) })
				}
			}
		})
	}
	if s.Wasm == nil {
		run("native", Native, 1)
	}
	run("fresh", Fresh, 1)
	// In the second round every instance has served every other vector.
	run("served", Module, 2)
}

func (s Suite) vectors(tb testing.TB) []*Vector {
	tb.Helper()
	dir := s.Dir
	if dir == "" {
		dir = filepath.Join("testdata", "vectors")
	}
	vectors, err := Load(dir)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	if len(vectors) == 0 {
		tb.Fatalf("plugintest: no vectors in %s", dir)
	}
	return vectors
}

// Benchmark runs every vector as a module and reports what it costs: the fuel of provider_request, and of one event or
// whole answer where the plugin reads it. The time is that of both calls and all that the host does around them. Before
// the vectors it reports the size of the module and how long it takes to load a compiled one.
func (s Suite) Benchmark(b *testing.B) {
	vectors := s.vectors(b)
	h := Host(b)
	p := s.Load(b, h, Module)
	b.Run("load", func(b *testing.B) {
		spec := plugin.Spec{Name: s.name(), Wasm: s.module(b)}
		for b.Loop() {
			g, err := h.Load(context.Background(), []plugin.Spec{spec})
			if err != nil {
				b.Fatal(err)
			}
			g.Close()
		}
		b.ReportMetric(float64(len(spec.Wasm)), "B/module")
	})
	for _, v := range vectors {
		b.Run(v.Name, func(b *testing.B) {
			binding := s.bind(b, p, v.settings(s.Use))
			var cost Cost
			b.ReportAllocs()
			for b.Loop() {
				cost = v.Run(binding, false).Cost
			}
			b.ReportMetric(float64(cost.Request), "fuel/request")
			if cost.Reads > 0 {
				b.ReportMetric(float64(cost.Reading)/float64(cost.Reads), "fuel/event")
			}
		})
	}
}
