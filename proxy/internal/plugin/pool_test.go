package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// blocking is a guest whose calls signal that they have begun, and block until they are released.
type blocking struct {
	begun   chan struct{}
	release chan struct{}
}

func newBlocking() *blocking {
	return &blocking{begun: make(chan struct{}, 100), release: make(chan struct{})}
}

func (bl *blocking) wait() int32 {
	bl.begun <- struct{}{}
	<-bl.release
	return 0
}

func (bl *blocking) guest() native {
	return native{
		event:    func(abi.Host, abi.EventKind, []byte, []byte) int32 { return bl.wait() },
		response: func(abi.Host, int32, []byte) int32 { return bl.wait() },
	}
}

func TestPoolIsBounded(t *testing.T) {
	bl := newBlocking()
	h := newHost(t, plugin.Options{Instances: 2, Wait: time.Minute})
	p := loadNative(t, h, bl.guest())
	bound := bind(t, p, plugin.BindingConfig{})
	var calls sync.WaitGroup
	for range 5 {
		a := newAttempt(t, body)
		calls.Go(func() {
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	<-bl.begun
	<-bl.begun
	if s := p.Stats(); s.Instances != 2 || s.Idle != 0 {
		t.Errorf("%d instances, %d idle, want 2 in use", s.Instances, s.Idle)
	}
	select {
	case <-bl.begun:
		t.Error("a third call runs on two instances")
	default:
	}
	close(bl.release)
	calls.Wait()
	if s := p.Stats(); s.Instances != 2 || s.Idle != 2 {
		t.Errorf("%d instances, %d idle afterwards, want 2 idle", s.Instances, s.Idle)
	}
}

func TestInstanceWaitIsBounded(t *testing.T) {
	bl := newBlocking()
	h := newHost(t, plugin.Options{Instances: 1, Wait: time.Millisecond})
	bound := bind(t, loadNative(t, h, bl.guest()), plugin.BindingConfig{})
	var calls sync.WaitGroup
	first := newAttempt(t, body)
	calls.Go(func() {
		if err := bound.Event(t.Context(), first, abi.EventPlain, nil, nil); err != nil {
			t.Error(err)
		}
	})
	<-bl.begun

	e := wantCallError(t, bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil), plugin.KindBusy)
	if c := e.ClientError(); c.Status != 503 || c.Code != "gateway_overloaded" || c.Kind != "service_unavailable_error" || c.RetryAfter <= 0 || c.TryNext {
		t.Errorf("the client sees %+v", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := bound.Event(ctx, newAttempt(t, body), abi.EventPlain, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	close(bl.release)
	calls.Wait()
	if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestWholeBodyCallsLeaveRoomForEvents(t *testing.T) {
	bl := newBlocking()
	g := bl.guest()
	g.event = func(abi.Host, abi.EventKind, []byte, []byte) int32 { return 0 }
	h := newHost(t, plugin.Options{Instances: 4, WholeCalls: 2, Wait: time.Millisecond})
	bound := bind(t, loadNative(t, h, g), plugin.BindingConfig{})
	other := bind(t, loadNative(t, h, g), plugin.BindingConfig{})
	var calls sync.WaitGroup
	for _, each := range []*plugin.Binding{bound, other} {
		a := newAttempt(t, body)
		calls.Go(func() {
			if err := each.Response(t.Context(), a, 200, nil); err != nil {
				t.Error(err)
			}
		})
	}
	<-bl.begun
	<-bl.begun
	wantCallError(t, bound.Response(t.Context(), newAttempt(t, body), 200, nil), plugin.KindBusy)
	if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil); err != nil {
		t.Errorf("an event during whole-body calls: %v", err)
	}
	close(bl.release)
	calls.Wait()
}

// TestResponsesWaitLongerThanRequests checks that a request gives up while an event that began to wait earlier is still
// waiting.
func TestResponsesWaitLongerThanRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for as long as a response does")
	}
	bl := newBlocking()
	guest := bl.guest()
	guest.request = func(abi.Host, []byte) int32 { return 0 }
	h := newHost(t, plugin.Options{Instances: 1, Wait: 500 * time.Millisecond})
	bound := bind(t, loadNative(t, h, guest), plugin.BindingConfig{})
	var calls sync.WaitGroup
	event := func() {
		a := newAttempt(t, body)
		calls.Go(func() {
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
				t.Errorf("an event: %v", err)
			}
		})
	}
	event()
	<-bl.begun
	event()
	await(t, "the second event to wait", func() bool { return statsOf(t, h, "native").Waiting == 1 })
	wantCallError(t, bound.Request(t.Context(), newAttempt(t, body)), plugin.KindBusy)
	close(bl.release)
	calls.Wait()
}

func TestLastUsedInstanceServesFirst(t *testing.T) {
	bl := newBlocking()
	var made atomic.Int32
	h := newHost(t, plugin.Options{Instances: 3})
	g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
		n := bl.guest()
		id := byte('0' + made.Add(1))
		n.event = func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
			h.Text(0, 0, []byte{id})
			if len(data) > 0 {
				return bl.wait()
			}
			return 0
		}
		n.host = host
		return &n
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	bound := bind(t, g.Plugin("native"), plugin.BindingConfig{})
	var calls sync.WaitGroup
	for range 3 {
		a := newAttempt(t, body)
		calls.Go(func() {
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("wait")); err != nil {
				t.Error(err)
			}
		})
		<-bl.begun
	}
	close(bl.release)
	calls.Wait()
	var outputs []string
	for range 10 {
		a := newAttempt(t, body)
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, output(a))
	}
	for _, o := range outputs {
		if o != outputs[0] {
			t.Fatalf("instances alternate:\n%s", strings.Join(outputs, ""))
		}
	}
}

func TestIdleInstancesAreClosed(t *testing.T) {
	h := newHost(t, plugin.Options{IdleAge: time.Hour})
	p := load(t, h, plugin.Spec{Wasm: echoModule().Bytes()})
	bound := bind(t, p, plugin.BindingConfig{})
	a := newAttempt(t, body)
	for range plugin.SweepsPerAge {
		echo(t, bound, a, "busy")
		h.Sweep()
	}
	if s := p.Stats(); s.Instances != 1 {
		t.Errorf("%d instances while in use, want 1", s.Instances)
	}
	for range plugin.SweepsPerAge + 1 {
		h.Sweep()
	}
	if s := p.Stats(); s.Instances != 0 {
		t.Errorf("%d instances after the idle time, want none", s.Instances)
	}
	echo(t, bound, a, "again")
}

func TestLargeInstancesAreDiscarded(t *testing.T) {
	m := newModule("text").base()
	m.provider(when('g', i32(64), w.MemoryGrow, w.Drop), m.echo())
	p := load(t, newHost(t, plugin.Options{KeepMemory: 2 << 20}), plugin.Spec{Wasm: m.Bytes()})
	bound := bind(t, p, plugin.BindingConfig{})
	a := newAttempt(t, body)
	for text, left := range map[string]int{"small": 1, "grow": 0} {
		echo(t, bound, a, text)
		if s := p.Stats(); s.Instances != left {
			t.Errorf("%d instances after %s, want %d", s.Instances, text, left)
		}
	}
}

func TestIdleInstancesAreCollected(t *testing.T) {
	m := newModule("text").base()
	m.Global(w.I32, true, i32('0'))
	m.ExportFunc(abi.ExportCollect, nil, nil, nil, w.GlobalGet(0), i32(1), w.I32Add, w.GlobalSet(0))
	m.provider(i32(keepAt), w.GlobalGet(0), w.I32Store8, m.text(i32(keepAt), i32(1)), i32(0))
	h := newHost(t, plugin.Options{IdleAge: time.Hour})
	bound := bind(t, load(t, h, plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
	a := newAttempt(t, body)
	for _, collected := range []string{"0", "1", "2"} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output(a), `"content":"`+collected+`"`) {
			t.Errorf("want %s calls of sluice_collect: %s", collected, output(a))
		}
		a.Writer.Consume()
		h.Sweep() // calls sluice_collect
		h.Sweep() // does not, because no call was served since
	}
}

// covers: F98
func TestParallelCallsAreIndependent(t *testing.T) {
	const parallel, events = 1000, 5
	h := newHost(t, plugin.Options{Wait: time.Minute})
	p := load(t, h, plugin.Spec{Wasm: echoModule().Bytes()})
	bound := bind(t, p, plugin.BindingConfig{})
	var calls sync.WaitGroup
	for i := range parallel {
		a := newAttempt(t, body)
		calls.Go(func() {
			canary := fmt.Sprintf("canary-%04d-", i)
			for n := range events {
				if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(canary)); err != nil {
					t.Errorf("call %d: %v", n, err)
				}
			}
			if got := strings.Count(output(a), canary); got != events || strings.Count(output(a), "canary-") != events {
				t.Errorf("%s: %d of %d in %s", canary, got, events, output(a))
			}
		})
	}
	calls.Wait()
	if s := p.Stats(); s.Instances > 8 && s.Instances > 1+2*parallel/100 {
		t.Errorf("%d instances", s.Instances)
	}
}

// TestPoolHammer runs calls that succeed, trap, wait and are cancelled, concurrently with sweeps. Afterwards every
// instance of the pool must be idle.
func TestPoolHammer(t *testing.T) {
	m := newModule("text").base()
	m.provider(when('x', w.Unreachable), m.echo())
	h := newHost(t, plugin.Options{Instances: 3, Wait: time.Millisecond, IdleAge: time.Hour})
	for _, isolation := range []plugin.Isolation{plugin.Shared, plugin.PerKey, plugin.PerCall} {
		t.Run(isolation.String(), func(t *testing.T) {
			p := load(t, h, plugin.Spec{Wasm: m.Bytes(), Isolation: isolation})
			bound := bind(t, p, plugin.BindingConfig{})
			var calls sync.WaitGroup
			for i := range 16 {
				a := newAttempt(t, body)
				a.Tenant = fmt.Sprint(i % 3)
				calls.Go(func() {
					for n := range 40 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+n%3)*time.Millisecond)
						text := "good"
						if (n+i)%7 == 0 {
							text = "x"
						}
						err := bound.Event(ctx, a, abi.EventPlain, nil, b(text))
						cancel()
						var e *plugin.CallError
						if err != nil && !errors.As(err, &e) && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						if n%10 == 0 {
							h.Sweep()
						}
						if s := p.Stats(); s.Instances > 3 {
							t.Errorf("%d instances", s.Instances)
						}
					}
				})
			}
			calls.Wait()
			if s := p.Stats(); s.Instances != s.Idle {
				t.Errorf("%d instances, %d idle; want all idle", s.Instances, s.Idle)
			}
		})
	}
}
