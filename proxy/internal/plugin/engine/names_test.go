package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// nested returns a guest whose function 0 calls function 1, which calls function 2, which traps.
func nested() *w.Module {
	m := guest(w.Call(1))
	m.Func(w.Types(), w.Types(), w.Types(), w.Call(2))
	m.Func(w.Types(), w.Types(), w.Types(), w.Unreachable)
	return m
}

// nameSection returns the content of a name section with the names of functions, from function 0 on.
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
		{"Rust", []string{"run", parse, "_ZN4core9panicking5panic17h0123456789abcdefE"}, "<wire::Delta as wire::Parse>::parse run"},
		{"C", []string{"provider_event", "parse_delta", "abort"}, "parse_delta provider_event"},
		{"only runtime functions", []string{"runtime.main", "runtime.throw", "exit"}, "exit runtime.throw runtime.main"},
		{"some without names", []string{"run", "parse"}, "parse run"},
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
					t.Errorf("%d frames, want at most 1", n)
				}
				for _, name := range strings.Fields(tt.want) {
					if !strings.Contains(trap.Stack(), name) {
						t.Errorf("%s: stack %s, want it to contain %s", from, trap.Stack(), name)
					}
				}
			}
		})
	}
}

// TestOutOfFuelNamesFunction checks that the stack does not contain the function added by the metering, which ends the
// call.
func TestOutOfFuelNamesFunction(t *testing.T) {
	m := guest(w.Call(1))
	m.Func(w.Types(), w.Types(), w.Types(), w.Loop(w.Void, w.Br(0)))
	m.Custom("name", nameSection("run", "scan"))
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), m.Bytes()))
	_, err := i.Call(function(t, i, "run"), 1000)
	if got := strings.Join(wantTrap(t, err, engine.OutOfFuel).Frames(3), " "); got != "scan run" {
		t.Errorf("frames %q, want \"scan run\"", got)
	}
}
