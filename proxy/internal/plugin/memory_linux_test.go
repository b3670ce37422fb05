package plugin_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// resident returns the resident memory of the process in bytes, and its peak since the last resetPeak.
func resident(t *testing.T) (now, peak int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int
		switch {
		case strings.HasPrefix(line, "VmRSS:"):
			fmt.Sscanf(line, "VmRSS: %d kB", &kb)
			now = kb << 10
		case strings.HasPrefix(line, "VmHWM:"):
			fmt.Sscanf(line, "VmHWM: %d kB", &kb)
			peak = kb << 10
		}
	}
	return now, peak
}

// resetPeak resets the peak of the resident memory, and reports whether the system allows it.
func resetPeak() bool { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil }

// TestMemoryOfLargeGuestsIsReleased makes many concurrent calls that use all the memory that a guest may have. The
// process must hold no more than the memory of the existing instances, and release it with them.
//
// covers: F91
func TestMemoryOfLargeGuestsIsReleased(t *testing.T) {
	if testing.Short() {
		t.Skip("fills gigabytes of memory")
	}
	const limit, instances, calls = 32 << 20, 3, 20
	m := newModule("text").base()
	m.provider(m.echo())
	m.export(abi.ExportResponse, "iii",
		// Grows the memory to the limit, writes all of it, and then tries to grow it by another page.
		i32(limit>>16-16), w.MemoryGrow, w.Drop,
		i32(1<<20), i32('x'), i32(limit-1<<20), w.MemoryFill,
		i32(1), w.MemoryGrow, i32(-1), w.I32Eq, w.If(w.Void, w.Unreachable), i32(0))
	h := newHost(t, plugin.Options{Instances: instances, WholeCalls: instances, Wait: time.Minute})
	p := load(t, h, plugin.Spec{Wasm: m.Bytes(), MemoryPages: limit >> 16})
	bound := bind(t, p, plugin.BindingConfig{})
	before, _ := resident(t)
	resettable := resetPeak()
	var hogs sync.WaitGroup
	for i := range calls {
		a := newAttempt(t, body)
		a.Tenant = fmt.Sprint(i)
		hogs.Go(func() {
			e := wantCallError(t, bound.Response(t.Context(), a, 200, nil), plugin.KindMemory)
			if c := e.ClientError(); c.Status != 502 || c.Code != "plugin_crashed" {
				t.Errorf("the client sees %+v", c)
			}
		})
	}
	hogs.Wait()
	const slack = 24 << 20 // for the test itself
	after, peak := resident(t)
	if limit := before + instances*limit + slack; resettable && peak > limit {
		t.Errorf("the resident memory peaked at %d MiB, want at most %d MiB", peak>>20, limit>>20)
	}
	if after > before+slack {
		t.Errorf("%d MiB of resident memory afterwards, %d MiB before", after>>20, before>>20)
	}
	echo(t, bound, newAttempt(t, body), "after")
}

// machineCode returns the size of the executable memory that is not mapped from files.
func machineCode(t *testing.T) (bytes int) {
	t.Helper()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var from, to, inode int
		var mode, offset, device string
		fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d", &from, &to, &mode, &offset, &device, &inode)
		if strings.Contains(mode, "x") && inode == 0 && !strings.HasSuffix(lines.Text(), "]") {
			bytes += to - from
		}
	}
	return bytes
}

// TestMachineCodeIsReleasedWithGeneration loads and closes several generations. Only the Host triggers garbage
// collections.
//
// covers: F83
func TestMachineCodeIsReleasedWithGeneration(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many modules")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	h := newHost(t, plugin.Options{})
	before := machineCode(t)
	var one int
	for i := range 10 {
		m := newModule("text", "log").base()
		for n := range 200 { // makes each module different, and its code a few pages long
			m.Func(nil, nil, nil, i32(1), i32(int32(n)), i32(int32(i)), m.call("log"))
		}
		m.provider(m.echo())
		g, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: m.Bytes()}})
		if err != nil {
			t.Fatal(err)
		}
		echo(t, bind(t, g.Plugin("a"), plugin.BindingConfig{}), newAttempt(t, body), "here")
		if i == 0 {
			one = machineCode(t) - before
		}
		g.Close()
	}
	if one < 16<<10 {
		t.Fatalf("found only %d bytes of machine code of a generation", one)
	}
	await(t, "the machine code of old generations to be unmapped", func() bool { return machineCode(t) <= before+one })
}
