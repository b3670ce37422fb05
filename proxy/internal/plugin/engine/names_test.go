package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// nested is a guest whose function run calls parse, which calls a function of the runtime, which traps.
func nested() *w.Module {
	m := guest(w.Call(1))
	m.Func(w.Types(), w.Types(), w.Types(), w.Call(2))
	m.Func(w.Types(), w.Types(), w.Types(), w.Unreachable)
	return m
}

// nameSection is the content of a name section with these names of functions, from the first on.
func nameSection(names ...string) []byte {
	list := w.U32(uint32(len(names)))
	for i, n := range names {
		list = append(append(append(list, w.U32(uint32(i))...), w.U32(uint32(len(n)))...), n...)
	}
	return slices.Concat([]byte{0, 1, 0, 1}, w.U32(uint32(len(list))), list)
}

func TestTrapNamesFunctions(t *testing.T) {
	const parse = "_ZN43_$LT$wire..Delta$u20$as$u20$wire..Parse$GT$5parse17h0123456789abcdefE"
	for _, tt := range []struct {
		name  string
		names []string
		want  string
	}{
		{"no names", nil, ""},
		{"plain", []string{"run", "parse", "fail"}, "fail parse run"},
		{"of Rust", []string{"run", parse, "_ZN4core9panicking5panic17h0123456789abcdefE"}, "<wire::Delta as wire::Parse>::parse run"},
		{"of C", []string{"provider_event", "parse_delta", "abort"}, "parse_delta provider_event"},
		{"only the runtime's", []string{"runtime.main", "runtime.throw", "exit"}, "exit runtime.throw runtime.main"},
		{"not all", []string{"run", "parse"}, "parse run"},
		{"not printable", []string{"run", "p\nqü", strings.Repeat("x", 1000)}, strings.Repeat("x", 96) + " p?q?? run"},
		{"not mangled", []string{"_ZN", "_ZN3foE", "_ZN3fooEv"}, "foo _ZN3foE _ZN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := nested()
			if tt.names != nil {
				m.Custom("name", nameSection(tt.names...))
			}
			dir := t.TempDir()
			for _, from := range []string{"compiler", "cache", "interpreter"} {
				e := newEngine(t, engine.Options{CacheDir: dir, Interpreter: from == "interpreter"})
				i := instantiate(t, compile(t, e, m.Bytes()))
				_, err := i.Call(function(t, i, "run"), plenty)
				trap := wantTrap(t, err, engine.Unreachable)
				if got := strings.Join(trap.Frames(3), " "); got != tt.want {
					t.Errorf("%s: frames %q, want %q", from, got, tt.want)
				}
				if n := len(trap.Frames(1)); n > 1 {
					t.Errorf("%d frames of at most 1", n)
				}
				for _, name := range strings.Fields(tt.want) {
					if !strings.Contains(trap.Stack(), name) {
						t.Errorf("%s: no %s in %s", from, name, trap.Stack())
					}
				}
			}
		})
	}
}

// TestOutOfFuelNamesFunction: the check that ends a call is a function of the host's making, and not in the stack.
func TestOutOfFuelNamesFunction(t *testing.T) {
	m := guest(w.Call(1))
	m.Func(w.Types(), w.Types(), w.Types(), w.Loop(w.Void, w.Br(0)))
	m.Custom("name", nameSection("run", "scan"))
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), m.Bytes()))
	_, err := i.Call(function(t, i, "run"), 1000)
	if got := strings.Join(wantTrap(t, err, engine.OutOfFuel).Frames(3), " "); got != "scan run" {
		t.Errorf("frames %q", got)
	}
}
