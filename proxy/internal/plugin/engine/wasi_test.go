package engine_test

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// preview1 returns all functions of WASI preview 1 that return, as declared by wazero.
func preview1(t *testing.T) (list []forward) {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	m, err := wasi_snapshot_preview1.NewBuilder(r).Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(context.Background()) })
	for name, f := range m.ExportedFunctions() {
		if name != "proc_exit" {
			list = append(list, forward{name, f.ParamTypes(), f.ResultTypes()})
		}
	}
	slices.SortFunc(list, func(a, b forward) int { return strings.Compare(a.name, b.name) })
	return list
}

// A guest may import all of WASI. Functions that need a capability fail with an errno, and none traps.
//
// covers: C18
func TestAllOfWASI(t *testing.T) {
	all := preview1(t)
	if len(all) != 45 {
		t.Errorf("%d functions, want 45 besides proc_exit", len(all))
	}
	const ok, badFD, invalid, notSupported = 0, 8, 28, 52
	without := map[string]uint64{ // errno of functions that need no descriptor
		"args_get": ok, "args_sizes_get": ok, "environ_get": ok, "environ_sizes_get": ok, "clock_res_get": ok, "clock_time_get": ok,
		"random_get": ok, "sched_yield": ok, "poll_oneoff": invalid, "proc_raise": notSupported,
	}
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), forwarding("wasi_snapshot_preview1", all...).Bytes()))
	for _, f := range all {
		want, known := without[f.name]
		if !known {
			want = badFD
		}
		for _, fd := range []uint64{0, 3, 1 << 31} {
			args := make([]uint64, len(f.params))
			if len(args) > 0 && !known {
				args[0] = fd
			}
			if got := run(t, i, f.name, args...); got != want {
				t.Errorf("%s of descriptor %d: errno %d, want %d", f.name, fd, got, want)
			}
		}
	}
	for _, fd := range []uint64{1, 2} {
		if got := run(t, i, "fd_fdstat_get", fd, 64); got != ok {
			t.Errorf("fd_fdstat_get of %d: errno %d", fd, got)
		}
		if s, _ := i.Read(64, 24); s[0] != 2 || binary.LittleEndian.Uint64(s[8:]) != 1<<6 {
			t.Errorf("fd_fdstat_get of %d: status %v", fd, s)
		}
		if got := run(t, i, "fd_fdstat_get", fd, 1<<20); got != 21 {
			t.Errorf("fd_fdstat_get with an address outside of the memory: errno %d, want 21", got)
		}
	}
	run(t, i, "clock_res_get", 0, 64)
	if p, _ := i.Read(64, 8); binary.LittleEndian.Uint64(p) != 1 {
		t.Errorf("resolution %v", p)
	}
}

func TestGoGuestWithoutFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest of several megabytes")
	}
	i := instantiate(t, goModule(t, "files"))
	for call, want := range map[string]uint64{"read": 0, "write": 0, "render": uint64(len("001,022,333,"))} {
		if got := run(t, i, call); got != want {
			t.Errorf("%s returned %d, want %d", call, got, want)
		}
	}
}

func TestGuestOfCLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a C compiler")
	}
	file := filepath.Join(t.TempDir(), "stdio.wasm")
	text, err := exec.Command("clang", "--target=wasm32-wasi", "-O2", "-mexec-model=reactor", "-nodefaultlibs", "-o", file, "testdata/stdio/stdio.c", "-lc").CombinedOutput()
	if err != nil {
		t.Skipf("needs clang, lld and wasi-libc: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	e := newEngine(t, engine.Options{Output: func(_ *engine.Instance, _ int32, p []byte) { out.Write(p) }})
	i := instantiate(t, compile(t, e, wasm))
	for range 2 {
		out.Reset()
		if got := run(t, i, "run"); got != uint64(len("42 text 1.50")) {
			t.Errorf("returned %d", int32(got))
		}
		if got := out.String(); got != "out 42 text 1.50\nerr 42 text 1.50\n" {
			t.Errorf("output %q", got)
		}
	}
}
