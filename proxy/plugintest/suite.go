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
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
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

// Suite is a plugin and its vectors. Its methods named Test, Fuzz and Benchmark are the bodies of a test, a fuzz target
// and a benchmark; the others are for tests that a plugin writes itself.
type Suite struct {
	Package string // see Build; "." is that of the test, wherever that is
	Wasm    []byte // a module built by other means, in place of Package; there is no native form of it then
	Plugin  string // of a module of several, the name of the one that is tested
	Use     Use
	Dir     string // of the vectors; empty is testdata/vectors
	Target  string // the upstream's model in requests that are not vectors; empty is "m"

	// FinishFollowsTools says that the plugin reports the finish reason "tool_calls" only after a tool call, whatever the
	// upstream says; CheckResponses holds it to that.
	FinishFollowsTools bool
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

// Plugin is a loaded plugin. It lasts as long as the test that loaded it.
type Plugin struct {
	plugin *plugin.Plugin
	suite  Suite
}

// Binding is one use of a plugin: a provider or a router of a configuration. It may be used from parallel tests.
type Binding struct {
	binding *plugin.Binding
	suite   Suite
}

// hosts are the plugin hosts of running tests.
var hosts sync.Map // testing.TB to *plugin.Host

// compiled is the engine of all hosts: it keeps the modules that the process has compiled, and in the user's cache folder
// those of every process.
var compiled = sync.OnceValues(func() (*engine.Engine, error) {
	dir, err := buildtest.CacheDir("compiled")
	if err != nil {
		return nil, err
	}
	return plugin.NewEngine(engine.Options{CacheDir: dir, Keep: true})
})

// hostFor is the host that the plugins of a test are loaded into. It lasts as long as the test.
func hostFor(tb testing.TB) *plugin.Host {
	tb.Helper()
	if h, ok := hosts.Load(tb); ok {
		return h.(*plugin.Host)
	}
	shared, err := compiled()
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	h, err := plugin.New(plugin.Options{Shared: shared})
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

// Load loads the plugin in one of the forms.
func (s Suite) Load(tb testing.TB, form Form) *Plugin {
	tb.Helper()
	p, err := s.load(tb, form)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return p
}

// TryLoad is Load for a module that the gateway should refuse, with its reason.
func (s Suite) TryLoad(tb testing.TB) error {
	tb.Helper()
	_, err := s.load(tb, Module)
	return err
}

func (s Suite) load(tb testing.TB, form Form) (*Plugin, error) {
	tb.Helper()
	h := hostFor(tb)
	var (
		g   *plugin.Set
		err error
	)
	if form == Native {
		if native.New(s.name(), nil) == nil {
			return nil, errors.New("this program has not registered the plugin " + s.name() + ": is the test in the plugin's package?")
		}
		g, err = h.LoadNative(s.name(), func(h abi.Host) plugin.Guest { return native.New(s.name(), h) })
	} else {
		isolation := plugin.Shared
		if form == Fresh {
			isolation = plugin.PerCall
		}
		g, err = h.Load(context.Background(), []plugin.Spec{{Name: s.name(), Wasm: s.module(tb), Isolation: isolation}})
	}
	if err != nil {
		return nil, err
	}
	tb.Cleanup(g.Close)
	return &Plugin{g.Plugin(s.name()), s}, nil
}

// Bind loads the plugin in one of the forms and binds it with the suite's settings, which must be accepted.
func (s Suite) Bind(tb testing.TB, form Form) *Binding {
	tb.Helper()
	return s.Load(tb, form).mustBind(tb, s.Use.Settings)
}

// EachForm calls f in a subtest for each way to run the plugin, with the plugin bound with these settings.
func (s Suite) EachForm(t *testing.T, settings string, f func(t *testing.T, b *Binding)) {
	t.Helper()
	s.Use.Settings = settings
	for _, form := range s.forms() {
		b := s.Bind(t, form)
		t.Run(form.String(), func(t *testing.T) { f(t, b) })
	}
}

// forms are the forms in which a test sees all that differs between forms.
func (s Suite) forms() []Form {
	if s.Wasm != nil {
		return []Form{Module}
	}
	return []Form{Native, Module}
}

// Bind binds the plugin with these settings. The error is the plugin's reason to refuse them.
func (p *Plugin) Bind(settings string) (*Binding, error) {
	b, err := p.plugin.Bind(context.Background(), plugin.BindingConfig{
		Name: p.suite.name(), Settings: []byte(settings), Paths: p.suite.Use.Paths, Headers: p.suite.Use.Headers,
	})
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

// Provider tells whether the plugin is a provider.
func (p *Plugin) Provider() bool { return p.plugin.Provider() }

// Router tells whether the plugin is a router.
func (p *Plugin) Router() bool { return p.plugin.Router() }

// Choose asks a router for the order in which to try the targets of a request. input is the document that the gateway
// would show it, with so many targets.
func (b *Binding) Choose(input []byte, targets int) (order []int, explain string, err error) {
	return b.binding.Choose(context.Background(), input, targets)
}

// Forms are the forms of requests that the plugin accepts with the binding's settings, besides chat completions.
func (b *Binding) Forms() abi.Forms { return b.binding.Forms() }

// name is what the plugin is loaded by.
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

// Test runs every vector in every form and compares the results with its want.txt.
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
	if !testing.Short() { // an instance for each call is what takes the time of a plugin's tests
		run("fresh", Fresh, 1)
	}
	// In the second round every instance has served every other vector.
	run("served", Module, 2)
}

// Vectors are the suite's vectors in the order of their names. There must be some.
func (s Suite) Vectors(tb testing.TB) []*Vector {
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

// Vector is the vector of this name, which must exist.
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

// TestSettings checks that the plugin accepts the settings that stand for "" and refuses all others with an error that
// says what stands for them.
func (s Suite) TestSettings(t *testing.T, settings map[string]string) {
	t.Helper()
	for _, form := range s.forms() {
		p := s.Load(t, form)
		for _, text := range slices.Sorted(maps.Keys(settings)) {
			want := settings[text]
			t.Run(form.String()+"/"+text, func(t *testing.T) {
				switch _, err := p.Bind(text); {
				case want == "" && err != nil:
					t.Errorf("refused: %v", err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("error %v, want one that says %s", err, want)
				}
			})
		}
	}
}

// Fuel is the fuel that all calls of the plugin have taken so far.
func (p *Plugin) Fuel() int64 { return p.plugin.Stats().Fuel }
