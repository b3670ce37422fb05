package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// clock is a clock that only add advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// faulty is a plugin that fails if the data of an event tells it to.
type faulty struct {
	t     testing.TB
	clock *clock
	host  *plugin.Host
	p     *plugin.Plugin
	bound *plugin.Binding
	calls int // calls of the guest
}

func newFaulty(t testing.TB) *faulty {
	f := &faulty{t: t, clock: &clock{now: time.Unix(1_700_000_000, 0)}}
	f.host = newHost(t, plugin.Options{Now: f.clock.Now})
	f.reload()
	return f
}

// reload loads the same plugin again, as another generation.
func (f *faulty) reload() {
	act := func(h abi.Host, data []byte) int32 {
		f.calls++
		switch string(data) {
		case "trap":
			panic("trap")
		case "fail":
			h.Fail(abi.FailInvalidRequest, nil, nil, nil, abi.RetryAfterUnknown)
		}
		return 0
	}
	f.p = loadNative(f.t, f.host, native{
		request: func(h abi.Host, _ []byte) int32 {
			f.calls++
			h.RequestPath(b("/v1"))
			h.Answer(abi.FramingSSE, abi.DialectTranslated, nil)
			return 0
		},
		event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 { return act(h, data) },
	})
	f.bound = bind(f.t, f.p, plugin.BindingConfig{Paths: []string{"/v1"}})
}

// begin starts an attempt of a key.
func (f *faulty) begin(key string) (*plugin.Attempt, error) {
	a := newAttempt(f.t, body)
	a.Tenant = key
	return a, f.bound.Request(f.t.Context(), a)
}

func (f *faulty) event(a *plugin.Attempt, data string) error {
	return f.bound.Event(f.t.Context(), a, abi.EventPlain, nil, b(data))
}

// attempt makes a whole attempt: a request and one event.
func (f *faulty) attempt(key, data string) error {
	a, err := f.begin(key)
	if err != nil {
		return err
	}
	return f.event(a, data)
}

// trap makes n attempts of a key that fail. Five of them take more than a second.
func (f *faulty) trap(key string, n int) {
	f.t.Helper()
	for range n {
		f.clock.add(300 * time.Millisecond)
		wantCallError(f.t, f.attempt(key, "trap"), plugin.KindTrap)
	}
}

// good makes an attempt of each key that must succeed.
func (f *faulty) good(keys ...string) {
	f.t.Helper()
	for _, k := range keys {
		if err := f.attempt(k, "good"); err != nil {
			f.t.Errorf("%s: %v", k, err)
		}
	}
}

// wantRejected fails the test unless an attempt of a key is rejected without a call of the plugin, and returns for how
// long the circuit stays open.
func (f *faulty) wantRejected(key string) time.Duration {
	f.t.Helper()
	calls := f.calls
	_, err := f.begin(key)
	e := wantCallError(f.t, err, plugin.KindOpen)
	if f.calls != calls {
		f.t.Error("the plugin was called")
	}
	c := e.ClientError()
	if c.Status != 502 || c.Code != "plugin_crashed" || !c.TryNext || c.RetryAfter != e.Wait || e.Wait <= 0 {
		f.t.Errorf("the client sees %+v", c)
	}
	return e.Wait
}

// covers: F90
func TestBreakerPerKey(t *testing.T) {
	f := newFaulty(t)
	f.good("alice", "bob")
	f.trap("mallory", 5)
	want(t, "pause", f.wantRejected("mallory"), time.Second)
	f.good("alice", "bob", "carol")
	s := f.p.Stats()
	if s.Breaker != plugin.BreakerSome || s.Opened != 1 || s.Failed[plugin.KindOpen] != 1 {
		t.Errorf("stats %+v", s)
	}

	// After the pause one attempt is admitted as a trial. Each time it fails, the pause grows.
	for _, pause := range []time.Duration{2, 4, 8, 16, 30, 30} {
		f.clock.add(f.wantRejected("mallory"))
		wantCallError(t, f.attempt("mallory", "trap"), plugin.KindTrap)
		want(t, "pause", f.wantRejected("mallory"), pause*time.Second)
		f.good("alice")
	}

	// A successful trial closes the circuit, but not before its first event.
	f.clock.add(f.wantRejected("mallory"))
	a, err := f.begin("mallory")
	if err != nil {
		t.Fatal(err)
	}
	f.wantRejected("mallory")
	if err := f.event(a, "good"); err != nil {
		t.Fatal(err)
	}
	f.good("mallory", "mallory")
	want(t, "state", f.p.Stats().Breaker, plugin.BreakerClosed)

	// The next time, the pause is back to the minimum.
	f.trap("mallory", 5)
	want(t, "pause", f.wantRejected("mallory"), time.Second)
}

// covers: F90
func TestBreakerOfOneKeySparesOthers(t *testing.T) {
	f := newFaulty(t)
	for range 200 {
		f.good("alice")
		if err := f.attempt("mallory", "trap"); err == nil {
			t.Fatal("no error")
		}
		f.clock.add(100 * time.Millisecond)
	}
	for _, key := range []string{"alice", "new key"} {
		f.good(key)
	}
	// Two failing keys do not open the circuit for all either, however many attempts they make.
	for range 200 {
		for _, key := range []string{"mallory", "mallet"} {
			if err := f.attempt(key, "trap"); err == nil {
				t.Fatal("no error")
			}
		}
		f.clock.add(100 * time.Millisecond)
	}
	f.good("alice", "new key")
	want(t, "state", f.p.Stats().Breaker, plugin.BreakerSome)
}

// covers: F90
func TestBreakerIgnoresRareFailures(t *testing.T) {
	f := newFaulty(t)
	streams := make([]*plugin.Attempt, 100)
	for i := range streams {
		a, err := f.begin("alice")
		if err != nil {
			t.Fatal(err)
		}
		streams[i] = a
	}
	// Occasional failures, while the streams continue.
	for range 100 {
		f.trap("alice", 1)
		for _, a := range streams {
			if err := f.event(a, "good"); err != nil {
				t.Fatal(err)
			}
		}
	}
	want(t, "state", f.p.Stats().Breaker, plugin.BreakerClosed)
}

// covers: F90
func TestBreakerOpensForAllKeys(t *testing.T) {
	f := newFaulty(t)
	running, err := f.begin("alice")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		f.good(fmt.Sprint("lucky-", i))
	}
	for i := range 5 {
		f.trap(fmt.Sprint("key-", i), 1)
	}
	// Five of nine keys are failing.
	want(t, "state", f.p.Stats().Breaker, plugin.BreakerOpen)
	f.wantRejected("lucky-0")
	pause := f.wantRejected("new key")

	// A running stream is not affected.
	if err := f.event(running, "good"); err != nil {
		t.Error(err)
	}
	// The next generation starts with a closed circuit.
	old, oldBound := f.p, f.bound
	f.reload()
	f.good("key-0", "lucky-0", "new key")
	want(t, "state of the next generation", f.p.Stats().Breaker, plugin.BreakerClosed)
	f.p, f.bound = old, oldBound

	f.clock.add(pause)
	wantCallError(t, f.attempt("new key", "trap"), plugin.KindTrap)
	want(t, "pause", f.wantRejected("lucky-0"), 2*time.Second)
	f.clock.add(2 * time.Second)
	f.good("lucky-0", "lucky-1", "key-0", "new key")
	want(t, "state", f.p.Stats().Breaker, plugin.BreakerClosed)
	f.trap("key-0", 2)
	f.good("key-0")
}

// covers: F90
func TestBreakerIgnoresOtherErrors(t *testing.T) {
	f := newFaulty(t)
	for range 20 {
		var e *apierror.Error
		if err := f.attempt("alice", "fail"); !errors.As(err, &e) {
			t.Fatalf("error %v, want the failure reported by the plugin", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a := newAttempt(t, body)
		a.Tenant = "alice"
		if err := f.bound.Request(ctx, a); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		f.clock.add(time.Second)
	}
	f.good("alice")
	want(t, "failures", f.p.Stats().Failures, 0)
}

// covers: F90
func TestBreakerForgetsFailures(t *testing.T) {
	f := newFaulty(t)
	for range 10 {
		f.trap("alice", 4)
		f.clock.add(30 * time.Second)
	}
	f.trap("alice", 5)
	f.wantRejected("alice")
	// The circuit of a key that has not been used for a long time is closed.
	f.clock.add(10 * time.Minute)
	f.good("bob")
	f.trap("alice", 4)
	f.good("alice")
	want(t, "state", f.p.Stats().Breaker, plugin.BreakerClosed)
}

// covers: F90
func TestBreakerOfRouter(t *testing.T) {
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	h := newHost(t, plugin.Options{Now: c.Now})
	bad := true
	bound := bind(t, loadNative(t, h, native{choose: func(abi.Host, []byte) int32 {
		if bad {
			panic("trap")
		}
		return 0
	}}), plugin.BindingConfig{})
	choose := func() error {
		_, _, err := bound.ChooseFor(t.Context(), "alice", nil, 2)
		return err
	}
	for range 5 {
		wantCallError(t, choose(), plugin.KindTrap)
		c.add(300 * time.Millisecond)
	}
	e := wantCallError(t, choose(), plugin.KindOpen)
	bad = false
	c.add(e.Wait)
	for range 3 {
		if err := choose(); err != nil {
			t.Error(err)
		}
	}
}
