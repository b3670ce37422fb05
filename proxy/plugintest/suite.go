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

var update = flag.Bool("update", false, "write the want.txt of vectors")

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
	*plugindev.Plugin
	suite Suite
}

// Binding is one use of a plugin: a provider or a router of a configuration. It may be used from parallel tests.
type Binding struct {
	*plugindev.Binding
	suite Suite
}

// hosts are the plugin hosts of running tests.
var hosts sync.Map // testing.TB to *plugindev.Host

// compiled is the engine of all hosts: it keeps the modules that the process has compiled, and in the user's cache folder
// those of every process.
var compiled = sync.OnceValues(func() (*plugindev.Engine, error) {
	dir, err := buildtest.CacheDir("compiled")
	if err != nil {
		return nil, err
	}
	return plugindev.NewEngine(dir)
})

// hostFor is the host that the plugins of a test are loaded into. It lasts as long as the test.
func hostFor(tb testing.TB) *plugindev.Host {
	tb.Helper()
	if h, ok := hosts.Load(tb); ok {
		return h.(*plugindev.Host)
	}
	shared, err := compiled()
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	h, err := plugindev.NewHost(plugindev.Options{Engine: shared})
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
		p   *plugindev.Plugin
		err error
	)
	if form == Native {
		if native.New(s.name(), nil) == nil {
			return nil, errors.New("this program has not registered the plugin " + s.name() + ": is the test in the plugin's package?")
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
	dir, err := filepath.Abs(dir)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	once, _ := folders.LoadOrStore(dir, sync.OnceValues(func() ([]*Vector, error) { return Load(dir) }))
	vectors, err := once.(func() ([]*Vector, error))()
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

// folders has the vectors of each folder, read once: func() ([]*Vector, error) by path. A test gets a Vector of its own, whose bytes and
// maps it shares with others.
var folders sync.Map

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
