package engine_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// covers: C18
func TestGoGuestHasNoAccess(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest in Go")
	}
	t.Setenv("SLUICE_SECRET", "sk-secret")
	i := instantiate(t, goModule(t, "usual"))
	if n := run(t, i, "arguments"); n != 0 {
		t.Errorf("%d arguments, want none", n)
	}
	if n := run(t, i, "environment"); n != 0 {
		t.Errorf("%d environment variables, want none", n)
	}
	if run(t, i, "closing") != 1 {
		t.Error("the guest could close standard input")
	}
}

// covers: C19
func TestClockAndRandomPerCall(t *testing.T) {
	m := goModule(t, "usual")
	a, b := instantiate(t, m), instantiate(t, m)
	const epoch = 1_000_000_000_000_000_000

	if got := run(t, a, "clock"); got != epoch {
		t.Errorf("clock shows %d, want %d", got, uint64(epoch))
	}
	if got := run(t, a, "sleep", 90_000); got != 90_000 {
		t.Errorf("the guest slept %d ms of its own time, want 90000", got)
	}
	if got := run(t, a, "clock"); got != epoch {
		t.Errorf("the next call's clock shows %d, want %d", got, uint64(epoch))
	}

	draw := func(i *engine.Instance, seed uint64) uint64 {
		i.Seed(seed)
		return run(t, i, "random")
	}
	first := draw(a, 7)
	if again := draw(a, 7); again != first {
		t.Error("the same seed gave other random bytes in the next call")
	}
	if other := draw(b, 7); other != first {
		t.Error("the same seed gave other random bytes in another instance")
	}
	if draw(a, 8) == first {
		t.Error("another seed gave the same random bytes")
	}
}

func TestSameCallUsesSameFuel(t *testing.T) {
	m := goModule(t, "usual")
	used := func() int64 {
		i := instantiate(t, m)
		run(t, i, "recurse", 100)
		run(t, i, "collect")
		run(t, i, "random")
		return i.Used()
	}
	if a, b := used(), used(); a != b || a <= 0 {
		t.Errorf("used %d units, then %d", a, b)
	}
}

func TestGoGuestFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest in Go")
	}
	m := goModule(t, "usual")
	tests := []struct {
		name string
		call string
		args []uint64
		want engine.Kind
		text string // part of the output
	}{
		{"panic", "crash", nil, engine.Unreachable, "secret prompt"},
		{"exit", "exit", []uint64{3}, engine.Exit, ""},
		{"deadlock", "deadlock", nil, engine.Unreachable, "all goroutines are asleep"},
		{"endless loop", "spin", nil, engine.OutOfFuel, ""},
		{"output flood", "flood", nil, engine.OutOfFuel, "line\nline\n"},     // covers: F96
		{"out of memory", "hoard", nil, engine.MemoryLimit, "out of memory"}, // covers: F91
		{"deep recursion", "recurse", []uint64{math.MaxInt64}, engine.Depth, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out guestText
			i := instantiateFor(t, m, &out)
			_, err := i.Call(function(t, i, test.call), 100_000_000, test.args...)
			trap := wantTrap(t, err, test.want)
			if strings.Contains(trap.Error(), "secret") {
				t.Error("the error contains output of the guest")
			}
			if test.want == engine.Exit && trap.Code != uint32(test.args[0]) {
				t.Errorf("exit code %d, want %d", trap.Code, test.args[0])
			}
			if !strings.Contains(out.text.String(), test.text) {
				t.Errorf("output %q, want it to contain %q", out.text.String(), test.text)
			}
			if out.text.Len() > sharedOutput {
				t.Errorf("%d bytes of output, want at most %d", out.text.Len(), sharedOutput)
			}
		})
	}
}

func TestLeakedGoroutineDoesNotAffectLaterCalls(t *testing.T) {
	i := instantiate(t, goModule(t, "usual"))
	run(t, i, "leave")
	for range 20 {
		run(t, i, "recurse", 10)
		if used := i.Used(); used > 1_000_000 {
			t.Fatalf("a call used %d units while a leaked goroutine exists", used)
		}
	}
}

func TestSmallGuestCallsTheHost(t *testing.T) {
	i := instantiate(t, goModule(t, "small"))
	n := withInput(t, i)
	if got := run(t, i, "event", n); got != uint64(len("type")) {
		t.Errorf("the host got %d bytes, want %d", got, len("type"))
	}
	if _, err := i.Call(function(t, i, "divide"), plenty, 1, 0); err != nil {
		// Go checks the divisor itself and panics.
		wantTrap(t, err, engine.Unreachable)
	} else {
		t.Error("1/0 succeeded")
	}
}

func TestFloatArgumentsAndResults(t *testing.T) {
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), floats().Bytes()))
	got := run(t, i, "half", math.Float64bits(3))
	if math.Float64frombits(got) != 1.5 {
		t.Errorf("half of 3 is %v", math.Float64frombits(got))
	}
}

// covers: F94
func TestWASIPointers(t *testing.T) {
	m := compile(t, newEngine(t, engine.Options{}), wasiCaller().Bytes())
	const outside, fault, invalid, badFD = 1 << 20, 21, 28, 8
	tests := []struct {
		name string
		call string
		args []uint64
		want uint64
	}{
		{"random outside of the memory", "random_get", []uint64{outside, 8}, fault},
		{"random across the end of the memory", "random_get", []uint64{65530, 8}, fault},
		{"random of no bytes", "random_get", []uint64{0, 0}, 0},
		{"random that wraps around", "random_get", []uint64{8, math.MaxUint32}, fault},
		{"clock outside of the memory", "clock_time_get", []uint64{0, 0, outside}, fault},
		{"sizes outside of the memory", "args_sizes_get", []uint64{0, outside}, fault},
		{"write from outside of the memory", "fd_write", []uint64{1, outside, 1, 0}, fault},
		{"write to a file", "fd_write", []uint64{3, 0, 0, 0}, badFD},
		{"write of a million pieces", "fd_write", []uint64{1, 0, 1 << 20, 0}, invalid},
		{"poll without subscriptions", "poll_oneoff", []uint64{0, 0, 0, 0}, invalid},
		{"poll with too many subscriptions", "poll_oneoff", []uint64{0, 0, 1 << 20, 0}, invalid},
		{"poll outside of the memory", "poll_oneoff", []uint64{0, outside, 1, 0}, fault},
	}
	i := instantiate(t, m)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := run(t, i, test.call, test.args...); got != test.want {
				t.Errorf("errno %d, want %d", got, test.want)
			}
		})
	}
}

// covers: C20
func TestPollAdvancesClock(t *testing.T) {
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), wasiCaller().Bytes()))
	const in, out, count, size = 1024, 4096, 3, 48
	subscriptions := make([]byte, count*size)
	subscribe := func(k int, kind byte, timeout uint64, flags uint16) {
		s := subscriptions[k*size:]
		binary.LittleEndian.PutUint64(s, uint64(100+k))
		s[8] = kind
		binary.LittleEndian.PutUint64(s[24:], timeout)
		binary.LittleEndian.PutUint16(s[40:], flags)
	}
	poll := func() (events []byte) {
		t.Helper()
		if !i.Write(in, subscriptions) {
			t.Fatal("the subscriptions are outside of the memory")
		}
		if errno := run(t, i, "poll_oneoff", in, out, count, 0); errno != 0 {
			t.Fatalf("errno %d", errno)
		}
		n, _ := i.Read(0, 4)
		events, _ = i.Read(out, 32*binary.LittleEndian.Uint32(n))
		return events
	}

	subscribe(0, 0, 5_000, 0)
	subscribe(1, 0, 2_000, 0)
	subscribe(2, 0, math.MaxUint64, 1)
	events := poll()
	if len(events) != 32 || binary.LittleEndian.Uint64(events) != 101 {
		t.Errorf("events %v, want only the earliest timer", events)
	}

	subscribe(2, 1, 0, 0)
	events = poll()
	if len(events) != 32 || binary.LittleEndian.Uint64(events) != 102 || binary.LittleEndian.Uint16(events[8:]) != 8 {
		t.Errorf("events %v, want only the bad descriptor, before any timer", events)
	}

	subscribe(2, 9, 0, 0)
	i.Write(in, subscriptions)
	if errno := run(t, i, "poll_oneoff", in, out, count, 0); errno != 28 {
		t.Errorf("errno %d for a subscription of an unknown kind, want 28", errno)
	}
}

// covers: C21
func TestAssemblyScriptAbort(t *testing.T) {
	var out strings.Builder
	e := newEngine(t, engine.Options{Output: func(_ *engine.Instance, _ int32, p []byte) { out.Write(p) }})
	i := instantiate(t, compile(t, e, aborting("r\u00e4nge \U0001f600").Bytes()))
	_, err := i.Call(function(t, i, "run"), plenty)
	wantTrap(t, err, engine.Abort)
	if got := out.String(); got != "panic: r\u00e4nge \U0001f600 at r\u00e4nge \U0001f600:1:2\n" {
		t.Errorf("output %q", got)
	}
}
