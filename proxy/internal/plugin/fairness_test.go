package plugin_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// burner returns a guest whose provider_response reads a header, so that the test sees it run, and then uses 2 million
// units of fuel if its input begins with x.
func burner() []byte {
	m := newModule("text", "response_header").base()
	m.provider(m.echo())
	const loops = 2_000_000
	m.ExportFunc(abi.ExportResponse, types("iii"), types("i"), types("i"),
		i32(keepAt), i32('n'), w.I32Store8,
		i32(keepAt), i32(1), i32(keepAt), i32(0), m.call("response_header"), w.Drop,
		when('x', w.Loop(w.Void, w.LocalGet(3), i32(1), w.I32Add, w.LocalTee(3), i32(loops), w.I32LtU, w.BrIf(0))),
		i32(0))
	return m.Bytes()
}

// line is a group of whole-body calls that queue behind a running one.
type line struct {
	t       *testing.T
	host    *plugin.Host
	calls   sync.WaitGroup
	release chan struct{}

	mu     sync.Mutex
	served []string // names of callers
	errs   []string
}

// call makes a call for a tenant, and records it under a name when it runs. It returns when the call is running, or, if
// nth is not 0, when nth calls are waiting.
func (l *line) call(bound *plugin.Binding, tenant, name, input string, nth int) {
	l.t.Helper()
	a := newAttempt(l.t, body)
	a.Tenant = tenant
	begun := make(chan struct{})
	a.ResponseHeader = func([]byte) []byte {
		l.mu.Lock()
		l.served = append(l.served, name)
		l.mu.Unlock()
		close(begun)
		<-l.release
		return nil
	}
	l.calls.Go(func() {
		if err := bound.Response(l.t.Context(), a, 200, b(input)); err != nil {
			l.mu.Lock()
			l.errs = append(l.errs, fmt.Sprintf("%s: %v", name, err))
			l.mu.Unlock()
		}
	})
	if nth == 0 {
		<-begun
		return
	}
	l.awaitWaiting(nth)
}

func (l *line) awaitWaiting(n int) {
	l.t.Helper()
	await(l.t, fmt.Sprintf("%d calls to wait", n), func() bool { return l.host.Stats().Waiting == n })
}

// await waits until a condition holds that other goroutines bring about.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// testTimeout is how long a test waits for something that must happen.
const testTimeout = 20 * time.Second

func newLine(t *testing.T, h *plugin.Host) *line {
	return &line{t: t, host: h, release: make(chan struct{})}
}

// order releases the running call, and returns the names in the order in which they were served, each with the number
// of times in a row, and then the errors.
func (l *line) order() string {
	l.t.Helper()
	close(l.release)
	l.calls.Wait()
	var runs []string
	for i := 0; i < len(l.served); {
		n := i
		for n < len(l.served) && l.served[n] == l.served[i] {
			n++
		}
		runs = append(runs, fmt.Sprintf("%d %s", n-i, l.served[i]))
		i = n
	}
	return strings.Join(append(runs, l.errs...), ", ")
}

// TestExpensiveCallsDelayOthersByOneCall lets plugins, or client keys of one plugin, compete for the only slot for
// whole-body calls. A flow with expensive calls is served again only after the others.
//
// covers: F92
func TestExpensiveCallsDelayOthersByOneCall(t *testing.T) {
	h := newHost(t, plugin.Options{WholeCalls: 1, Wait: time.Hour})
	g, err := h.Load(t.Context(), []plugin.Spec{{Name: "one", Wasm: burner()}, {Name: "two", Wasm: burner()}, {Name: "three", Wasm: burner()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	one, two, three := bind(t, g.Plugin("one"), plugin.BindingConfig{}), bind(t, g.Plugin("two"), plugin.BindingConfig{}), bind(t, g.Plugin("three"), plugin.BindingConfig{})

	t.Run("a plugin", func(t *testing.T) {
		r := newLine(t, h)
		r.call(one, "k", "hog", "x", 0)
		for i := range 5 {
			r.call(one, "k", "hog", "x", i+1)
		}
		for i := range 20 {
			r.call(two, "k", "neighbour", "-", 6+i)
		}
		want(t, "order", r.order(), "1 hog, 20 neighbour, 5 hog")
	})
	t.Run("a plugin without history", func(t *testing.T) {
		r := newLine(t, h)
		r.call(three, "k", "third", "-", 0)
		for i := range 5 {
			r.call(one, "k", "hog", "x", i+1)
		}
		for i := range 20 {
			r.call(two, "k", "neighbour", "-", 6+i)
		}
		want(t, "order", r.order(), "1 third, 1 hog, 20 neighbour, 4 hog")
	})
	t.Run("a key", func(t *testing.T) {
		r := newLine(t, h)
		r.call(one, "mallory", "hog", "x", 0)
		for i := range 5 {
			r.call(one, "mallory", "hog", "x", i+1)
		}
		for i := range 10 {
			r.call(one, "alice", "alice", "-", 6+i)
		}
		for i := range 10 {
			r.call(one, "bob", "bob", "-", 16+i)
		}
		got := r.order()
		want(t, "first and last in the order", got[:5]+"…"+got[len(got)-5:], "1 hog…5 hog")
	})
	t.Run("two expensive plugins alternate", func(t *testing.T) {
		r := newLine(t, h)
		r.call(three, "k", "third", "-", 0)
		for i := range 3 {
			r.call(one, "k", "hog", "x", i+1)
		}
		for i := range 3 {
			r.call(two, "k", "other hog", "x", 4+i)
		}
		want(t, "order", r.order(), "1 third, 1 hog, 1 other hog, 1 hog, 1 other hog, 1 hog, 1 other hog")
	})
}

func TestKeysAlternate(t *testing.T) {
	h := newHost(t, plugin.Options{WholeCalls: 1, Wait: time.Hour})
	readHeader := native{response: func(h abi.Host, _ int32, _ []byte) int32 { h.ResponseHeader(b("n"), nil); return 0 }}
	bound := bind(t, loadNative(t, h, readHeader), plugin.BindingConfig{})
	r := newLine(t, h)
	r.call(bound, "first", "first", "", 0)
	n := 1
	for _, key := range []string{"alice", "bob"} {
		for range 3 {
			r.call(bound, key, key, "", n)
			n++
		}
	}
	want(t, "order", r.order(), "1 first, 1 alice, 1 bob, 1 alice, 1 bob, 1 alice, 1 bob")
}

func TestFullQueueRejectsLongestFlow(t *testing.T) {
	h := newHost(t, plugin.Options{WholeCalls: 1, Wait: time.Hour, Queue: 4})
	readHeader := native{response: func(h abi.Host, _ int32, _ []byte) int32 { h.ResponseHeader(b("n"), nil); return 0 }}
	bound := bind(t, loadNative(t, h, readHeader), plugin.BindingConfig{})
	r := newLine(t, h)
	r.call(bound, "first", "first", "", 0)
	for i := range 4 {
		r.call(bound, "many", "many", "", i+1)
	}
	// The queue is full. A fifth call of the same tenant is rejected; for one of another tenant, the last of the many
	// is.
	a := newAttempt(t, body)
	a.Tenant = "many"
	wantCallError(t, bound.Response(t.Context(), a, 200, nil), plugin.KindBusy)
	r.call(bound, "few", "few", "", 4)
	await(t, "one of the many to be rejected", func() bool { return statsOf(t, h, "native").Failed[plugin.KindBusy] == 2 })
	want(t, "order", r.order(), "1 first, 1 many, 1 few, 2 many, many: plugin native: binding binding: provider_response: no free instance")
}

// TestWholeBodyCallPrecedesEvents checks that a whole-body call gets the next free instance, because other calls wait
// for its semaphore.
func TestWholeBodyCallPrecedesEvents(t *testing.T) {
	var mu sync.Mutex
	var served []string
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	h := newHost(t, plugin.Options{Instances: 1, Wait: time.Hour})
	p := loadNative(t, h, native{
		event: func(_ abi.Host, _ abi.EventKind, _, data []byte) int32 {
			served = append(served, string(data))
			if first {
				first = false
				close(begun)
				<-release
			}
			return 0
		},
		response: func(abi.Host, int32, []byte) int32 { served = append(served, "whole"); return 0 },
	})
	bound := bind(t, p, plugin.BindingConfig{})
	var calls sync.WaitGroup
	start := func(call func(a *plugin.Attempt) error) {
		a := newAttempt(t, body)
		calls.Go(func() {
			if err := call(a); err != nil {
				mu.Lock()
				defer mu.Unlock()
				t.Error(err)
			}
		})
	}
	for i := range 4 {
		start(func(a *plugin.Attempt) error {
			return bound.Event(t.Context(), a, abi.EventPlain, nil, b(fmt.Sprint(i)))
		})
		if i == 0 {
			<-begun
		}
		await(t, "the event to wait", func() bool { return p.Stats().Waiting == i })
	}
	start(func(a *plugin.Attempt) error { return bound.Response(t.Context(), a, 200, nil) })
	await(t, "the whole-body call to wait", func() bool { return p.Stats().Waiting == 4 })
	close(release)
	calls.Wait()
	if got := slices.Index(served, "whole"); got != 1 {
		t.Errorf("served in the order %q, want whole as the second", served)
	}
}

// TestNoStarvation makes occasional calls while other goroutines call without a pause: for the only instance, and for
// the semaphore of whole-body calls.
func TestNoStarvation(t *testing.T) {
	h := newHost(t, plugin.Options{Instances: 1, WholeCalls: 1, Wait: testTimeout})
	bound := bind(t, loadNative(t, h, native{
		event:    func(abi.Host, abi.EventKind, []byte, []byte) int32 { return 0 },
		response: func(abi.Host, int32, []byte) int32 { return 0 },
	}), plugin.BindingConfig{})
	calls := 200
	if testing.Short() {
		calls = 3
	}
	for name, call := range map[string]func(a *plugin.Attempt) error{
		"instance":  func(a *plugin.Attempt) error { return bound.Event(t.Context(), a, abi.EventPlain, nil, nil) },
		"semaphore": func(a *plugin.Attempt) error { return bound.Response(t.Context(), a, 200, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var others sync.WaitGroup
			stop := make(chan struct{})
			for range 4 {
				a := newAttempt(t, body)
				others.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := call(a); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			a := newAttempt(t, body)
			for range calls {
				if err := call(a); err != nil {
					t.Fatal(err)
				}
				runtime.Gosched()
			}
			close(stop)
			others.Wait()
			if s := h.Stats(); s.WholeCalls != 0 || s.Waiting != 0 || s.Plugins[0].Waiting != 0 || s.Plugins[0].Idle != s.Plugins[0].Instances {
				t.Errorf("afterwards there are calls in progress or waiting, or instances in use: %+v", s)
			}
		})
	}
}
