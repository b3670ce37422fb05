package plugintest

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/native"
)

var update = flag.Bool("update", false, "rewrite the want.txt files of vectors")

// Suite is a plugin and its vectors. Methods whose names start with Test, Fuzz and Benchmark are the bodies of tests,
// fuzz targets and benchmarks; the others are for tests that a plugin's author writes.
type Suite struct {
	Package string // package main of the plugin, see Build; empty or "." is the package of the test
	Wasm    []byte // module built by other means, instead of Package; it has no native form
	Plugin  string // name of the tested plugin, if the module has several
	Use     Use
	Dir     string // folder of the vectors; empty means testdata/vectors
	Target  string // the upstream's model in requests that are not vectors; empty means "m"

	// FinishFollowsTools makes CheckResponses check that the plugin reports the finish reason "tool_calls" only after a
	// tool call, whatever the upstream reports.
	FinishFollowsTools bool
}

// Form is how a plugin runs.
type Form int

// The forms.
const (
	Native Form = iota // Go code in this process
	Module             // module whose instances serve many calls
	Fresh              // module with a new instance for every call
)

var formNames = [...]string{Native: "native", Module: "module", Fresh: "fresh"}

// String returns the form's name in subtests.
func (f Form) String() string { return formNames[f] }

// Plugin is a loaded plugin. It is closed at the end of the test that loaded it.
type Plugin struct {
	*plugindev.Plugin
	suite Suite
}

// Binding is one use of a plugin with its settings, such as a provider, router or filter of a configuration. It may be
// used from parallel tests.
type Binding struct {
	*plugindev.Binding
	suite Suite
}

// hosts contains the plugin host of each running test.
var hosts sync.Map // testing.TB to *plugindev.Host

// sharedEngine returns the engine of all hosts. It caches compiled modules in memory, and in the user's cache folder
// for other processes.
var sharedEngine = sync.OnceValues(func() (*plugindev.Engine, error) {
	dir, err := buildtest.CacheDir("compiled")
	if err != nil {
		return nil, err
	}
	return plugindev.NewEngine(dir)
})

// hostFor returns the plugin host of a test, which is closed at the end of the test.
func hostFor(tb testing.TB) *plugindev.Host {
	tb.Helper()
	if h, ok := hosts.Load(tb); ok {
		return h.(*plugindev.Host)
	}
	engine, err := sharedEngine()
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	h, err := plugindev.NewHost(plugindev.Options{Engine: engine})
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	hosts.Store(tb, h)
	tb.Cleanup(func() {
		hosts.Delete(tb)
		if err := h.Close(); err != nil {
			tb.Errorf("plugintest: %v", err)
		}
	})
	return h
}

// Load loads the plugin in a form.
func (s Suite) Load(tb testing.TB, form Form) *Plugin {
	tb.Helper()
	p, err := s.load(tb, form)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return p
}

// TryLoad loads a module that the gateway should reject, and returns the error.
func (s Suite) TryLoad(tb testing.TB) error {
	tb.Helper()
	_, err := s.load(tb, Module)
	return err
}

func (s Suite) load(tb testing.TB, form Form) (*Plugin, error) {
	tb.Helper()
	h := hostFor(tb)
	var (
		p   *plugindev.Plugin
		err error
	)
	if form == Native {
		if native.New(s.name(), nil) == nil {
			return nil, errors.New("plugin " + s.name() + " is not registered: the test must be in the plugin's package")
		}
		p, err = h.LoadNative(s.name(), func(h abi.Host) plugin.Guest { return native.New(s.name(), h) })
	} else {
		p, err = h.Load(context.Background(), plugindev.Module{Name: s.name(), Wasm: s.module(tb), Fresh: form == Fresh})
	}
	if err != nil {
		return nil, err
	}
	tb.Cleanup(p.Close)
	return &Plugin{p, s}, nil
}

// Bind loads the plugin in a form and binds it with the suite's settings, which the plugin must accept.
func (s Suite) Bind(tb testing.TB, form Form) *Binding {
	tb.Helper()
	return s.Load(tb, form).mustBind(tb, s.Use.Settings)
}

// EachForm calls f in a subtest for the native form and for the module, with the plugin bound with these settings.
func (s Suite) EachForm(t *testing.T, settings string, f func(t *testing.T, b *Binding)) {
	t.Helper()
	s.Use.Settings = settings
	for _, form := range s.forms() {
		b := s.Bind(t, form)
		t.Run(form.String(), func(t *testing.T) { f(t, b) })
	}
}

// forms returns the forms that most tests run. Fresh instances add nothing to them, and are slow.
func (s Suite) forms() []Form {
	if s.Wasm != nil {
		return []Form{Module}
	}
	return []Form{Native, Module}
}

// Bind binds the plugin with settings. It returns the plugin's error if the plugin rejects them.
func (p *Plugin) Bind(settings string) (*Binding, error) {
	use := p.suite.Use
	use.Settings = settings
	b, err := p.Plugin.Bind(context.Background(), use)
	if err != nil {
		return nil, err
	}
	return &Binding{b, p.suite}, nil
}

func (p *Plugin) mustBind(tb testing.TB, settings string) *Binding {
	tb.Helper()
	b, err := p.Bind(settings)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return b
}

// name returns the name under which the plugin is loaded.
func (s Suite) name() string {
	if s.Plugin == "" {
		return "under-test"
	}
	return s.Plugin
}

func (s Suite) target() string {
	if s.Target == "" {
		return "m"
	}
	return s.Target
}

// module returns the plugin's module, which must not be modified.
func (s Suite) module(tb testing.TB) []byte {
	tb.Helper()
	if s.Wasm != nil {
		return s.Wasm
	}
	return Build(tb, s.pkg(tb))
}

// pkg returns the folder of the plugin's package main, relative to the root of the Go module, as Build expects it.
func (s Suite) pkg(tb testing.TB) string {
	tb.Helper()
	if s.Package != "" && s.Package != "." {
		return s.Package
	}
	root, err := buildtest.ModuleRoot(".")
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

// Test runs every vector in every form and compares the outcome with its want.txt.
func (s Suite) Test(t *testing.T) {
	t.Helper()
	vectors := s.Vectors(t)
	run := func(name string, form Form, times int) {
		p := s.Load(t, form)
		t.Run(name, func(t *testing.T) {
			for range times {
				for _, v := range vectors {
					t.Run(v.Name, func(t *testing.T) { v.check(t, p.mustBind(t, v.settings(s.Use))) })
				}
			}
		})
	}
	if s.Wasm == nil {
		run("native", Native, 1)
	}
	if !testing.Short() { // creating an instance for every call takes most of the time of a plugin's tests
		run("fresh", Fresh, 1)
	}
	// In the second round every instance has served every other vector.
	run("served", Module, 2)
}

// Vectors returns the suite's vectors sorted by name. It fails the test if there are none.
func (s Suite) Vectors(tb testing.TB) []*Vector {
	tb.Helper()
	dir := s.Dir
	if dir == "" {
		dir = filepath.Join("testdata", "vectors")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	load, _ := folders.LoadOrStore(dir, sync.OnceValues(func() ([]*Vector, error) { return Load(dir) }))
	vectors, err := load.(func() ([]*Vector, error))()
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	if len(vectors) == 0 {
		tb.Fatalf("plugintest: no vectors in %s", dir)
	}
	own := make([]*Vector, len(vectors))
	for i, v := range vectors {
		c := *v
		own[i] = &c
	}
	return own
}

// folders has a func() ([]*Vector, error) for each path, which reads the vectors of the folder once. Tests get their
// own copies of the Vectors, which share their bytes and maps.
var folders sync.Map

// Vector returns the vector with a name, which must exist.
func (s Suite) Vector(tb testing.TB, name string) *Vector {
	tb.Helper()
	for _, v := range s.Vectors(tb) {
		if v.Name == name {
			return v
		}
	}
	tb.Fatalf("plugintest: no vector %s", name)
	return nil
}

// TestSettings binds the plugin with each key of settings. The value is part of the plugin's expected error, or "" if
// the plugin should accept the settings.
func (s Suite) TestSettings(t *testing.T, settings map[string]string) {
	t.Helper()
	for _, form := range s.forms() {
		p := s.Load(t, form)
		for _, text := range slices.Sorted(maps.Keys(settings)) {
			want := settings[text]
			t.Run(form.String()+"/"+text, func(t *testing.T) {
				switch _, err := p.Bind(text); {
				case want == "" && err != nil:
					t.Errorf("settings rejected: %v", err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("got error %v, want one containing %q", err, want)
				}
			})
		}
	}
}
