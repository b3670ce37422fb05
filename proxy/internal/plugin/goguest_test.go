package plugin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// goGuest builds the guest in testdata/goguest.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := filepath.Abs("testdata/goguest")
	if err != nil {
		return nil, err
	}
	job := buildtest.Guest(dir, "")
	file, err := job.Run()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// newGoHost returns a host that caches compiled modules, because the Go guest takes two seconds to compile. The cache
// lasts for one test run; with -short it is shared with later runs.
func newGoHost(t testing.TB, o plugin.Options) *plugin.Host {
	t.Helper()
	o.Engine.CacheDir = cacheDir
	if testing.Short() {
		var err error
		if o.Engine.CacheDir, err = buildtest.CacheDir("compiled"); err != nil {
			t.Fatal(err)
		}
	}
	return newHost(t, o)
}

func loadGoGuest(t testing.TB, h *plugin.Host, i plugin.Isolation) *plugin.Plugin {
	t.Helper()
	wasm, err := goGuest()
	if err != nil {
		t.Fatal(err)
	}
	return load(t, h, plugin.Spec{Wasm: wasm, Isolation: i})
}

func TestHostileGoGuest(t *testing.T) {
	const prompt = "a prompt of more than a few words"
	tests := []struct {
		data  string
		kind  plugin.CallErrorKind // 0 if the call succeeds
		error string               // part of the error
	}{
		{"panic " + prompt, plugin.KindTrap, `provider_event: trap: unreachable: "panic: panic with… at main.event (main.go:`},
		{"index " + prompt, plugin.KindTrap, `trap: unreachable: "panic: runtime error: slice bounds out of range [:65537] with capacity 6`},
		{"nil " + prompt, plugin.KindTrap, `trap: unreachable: "panic: assignment to entry in nil map at main.event (main.go:`},
		{"complain " + prompt, plugin.KindStatus, `failed: status 7: "cannot read… 3"`},
		{"mumble", plugin.KindStatus, `failed: status 7: "a line"`},
		{"sleep", 0, ""}, // only advances the call's clock
		{"deadlock", plugin.KindTrap, `"fatal error: all goroutines are asleep - …! at main.event (main.go:`},
		{"grow", plugin.KindMemory, "out of memory"},
		{"recurse", plugin.KindDepth, "call stack too deep"},
		{"goroutine", 0, ""},
	}
	// The default budget of an event does not suffice to fill the memory.
	h := newGoHost(t, plugin.Options{Fuel: plugin.Fuel{Event: plugin.DefaultCallFuel}})
	p := loadGoGuest(t, h, plugin.Shared)
	bound := bind(t, p, plugin.BindingConfig{})
	neighbour := newAttempt(t, body)
	for _, tt := range tests {
		t.Run(tt.data, func(t *testing.T) {
			echo(t, bound, neighbour, "before")
			a := newAttempt(t, body)
			err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(tt.data))
			switch {
			case tt.kind != 0:
				e := wantCallError(t, err, tt.kind)
				if !strings.Contains(e.Error(), tt.error) || strings.Contains(e.Error(), "prompt") || output(a) != "" {
					t.Errorf("error %s, want %s; output %q", e, tt.error, output(a))
				}
			case err != nil:
				t.Error(err)
			}
			echo(t, bound, neighbour, "after")
		})
	}
}

func TestGuestOutputGoesToPluginLog(t *testing.T) {
	var log bytes.Buffer
	h := newGoHost(t, plugin.Options{PluginLog: textLog(&log)})
	bound := bind(t, loadGoGuest(t, h, plugin.Shared), plugin.BindingConfig{Redact: redact})
	err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("panic sk-secret"))
	wantCallError(t, err, plugin.KindTrap)
	if !strings.Contains(log.String(), "panic with ***") || strings.Contains(log.String(), "sk-secret") {
		t.Errorf("log:\n%s", &log)
	}
	if n := strings.Count(log.String(), "\n"); n < 5 || n > 60 {
		t.Errorf("%d lines of a panic, want 5 to 60:\n%s", n, &log)
	}
	// The last lines of failed calls are complete and not rate-limited.
	log.Reset()
	for range 60 {
		wantCallError(t, bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("complain loudly")), plugin.KindStatus)
	}
	if n := strings.Count(log.String(), `level=ERROR msg="plugin log" plugin=test text="cannot read loudly 3" binding=binding`); n != 60 {
		t.Errorf("%d lines, want 60:\n%s", n, &log)
	}
}

// TestCallsAreReproducible checks that calls with the same input on fresh instances return the same output and use the
// same fuel, and that an instance that has served other calls returns the same output as well.
//
// covers: C37
func TestCallsAreReproducible(t *testing.T) {
	h := newGoHost(t, plugin.Options{})
	fresh := bind(t, loadGoGuest(t, h, plugin.PerCall), plugin.BindingConfig{})
	served := bind(t, loadGoGuest(t, h, plugin.Shared), plugin.BindingConfig{})
	call := func(t *rapid.T, bound *plugin.Binding, data string) (out string, fuel int64) {
		a := newAttempt(t, body)
		if err := bound.Event(t.Context(), a, abi.EventPlain, b("name"), b(data)); err != nil {
			t.Fatal(err)
		}
		return output(a), a.Fuel
	}
	words := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 0, 200)
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SampledFrom([]string{"echo ", "allocate "}).Draw(t, "command") + strings.Join(words.Draw(t, "words"), " ")
		out, fuel := call(t, fresh, data)
		if again, fuelAgain := call(t, fresh, data); again != out || fuelAgain != fuel {
			t.Fatalf("first output %q with %d units, second output %q with %d units", out, fuel, again, fuelAgain)
		}
		if other, _ := call(t, served, data); other != out {
			t.Fatalf("output of a fresh instance %q, of a used one %q", out, other)
		}
	})
}

// TestFirstCallOfInstance checks that the first call of an instance uses the fuel of any fresh one, and the next no more.
//
// covers: C90
func TestFirstCallOfInstance(t *testing.T) {
	h := newGoHost(t, plugin.Options{})
	used := func(bound *plugin.Binding) int64 {
		a := newAttempt(t, body)
		if err := bound.Event(t.Context(), a, abi.EventPlain, b("name"), b("echo x")); err != nil {
			t.Fatal(err)
		}
		return a.Fuel
	}
	fresh := used(bind(t, loadGoGuest(t, h, plugin.PerCall), plugin.BindingConfig{}))
	bound := bind(t, loadGoGuest(t, h, plugin.Shared), plugin.BindingConfig{})
	if first, second := used(bound), used(bound); first != fresh || second > first {
		t.Errorf("a fresh instance uses %d units; another one %d, and %d in its second call", fresh, first, second)
	}
}
