package plugin_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestSetIsUsableUntilClosed(t *testing.T) {
	h := newHost(t, plugin.Options{Instances: 1})
	set, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: keeper().Bytes(), Isolation: plugin.PerCall}})
	if err != nil {
		t.Fatal(err)
	}
	bound := bind(t, set.Plugin("a"), plugin.BindingConfig{})
	if set.Plugin("b") != nil {
		t.Error("the set has a plugin b")
	}

	// With PerCall each call resets its instance, which would fail if the module were closed.
	a := newAttempt(t, body)
	for range 3 {
		echo(t, bound, a, "still here")
	}
	if s := set.Plugin("a").Stats(); s.Calls < 3 {
		t.Errorf("%d calls", s.Calls)
	}

	for range 2 {
		set.Close()
	}
	if s := set.Plugin("a").Stats(); s.Instances != 0 {
		t.Errorf("%d instances of a closed set", s.Instances)
	}
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("late")); !errors.Is(err, plugin.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
	if _, err := set.Plugin("a").Bind(t.Context(), plugin.BindingConfig{Name: "b"}); !errors.Is(err, plugin.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

// TestRetireClosesIdleInstances checks that later calls of the generation get new instances.
func TestRetireClosesIdleInstances(t *testing.T) {
	h := newHost(t, plugin.Options{})
	g, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: keeper().Bytes()}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	bound := bind(t, g.Plugin("a"), plugin.BindingConfig{})
	a := newAttempt(t, body)
	echo(t, bound, a, "before")
	if s := g.Plugin("a").Stats(); s.Idle == 0 {
		t.Fatal("no instance is idle")
	}
	g.Retire()
	if s := g.Plugin("a").Stats(); s.Instances != 0 || s.Idle != 0 {
		t.Errorf("%d instances, %d idle; want none", s.Instances, s.Idle)
	}
	echo(t, bound, a, "after")
}

// covers: F99
func TestStreamsFinishOnTheirGeneration(t *testing.T) {
	h := newHost(t, plugin.Options{})
	old, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: echoModule().Bytes()}})
	if err != nil {
		t.Fatal(err)
	}
	oldBound := bind(t, old.Plugin("a"), plugin.BindingConfig{})
	var streams sync.WaitGroup
	for range 50 {
		a := newAttempt(t, body)
		streams.Go(func() {
			for range 20 {
				if err := oldBound.Event(t.Context(), a, abi.EventPlain, nil, b("event")); err != nil {
					t.Error(err)
				}
			}
			if n := strings.Count(output(a), `"content":"event"`); n != 20 {
				t.Errorf("%d events, want 20", n)
			}
		})
	}
	next, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: echoModule().Bytes()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Close)
	streams.Wait()
	old.Close()
	echo(t, bind(t, next.Plugin("a"), plugin.BindingConfig{}), newAttempt(t, body), "new")
}

func TestCallsInFlightOutliveTheSet(t *testing.T) {
	bl := newBlocking()
	h := newHost(t, plugin.Options{Instances: 1})
	g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
		n := bl.guest()
		n.host = host
		return &n
	})
	if err != nil {
		t.Fatal(err)
	}
	p := g.Plugin("native")
	bound := bind(t, p, plugin.BindingConfig{})
	var calls sync.WaitGroup
	calls.Go(func() {
		if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil); err != nil {
			t.Error(err)
		}
	})
	<-bl.begun
	g.Close()
	close(bl.release)
	calls.Wait()
	if s := p.Stats(); s.Instances != 0 {
		t.Errorf("%d instances after the last call, want none", s.Instances)
	}
}

func TestHostRejectsCallsAfterClose(t *testing.T) {
	h, err := plugin.New(plugin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: echoModule().Bytes()}}); err == nil {
		t.Error("a closed host loaded a plugin")
	}
	if _, err := h.LoadNative("a", func(abi.Host) plugin.Guest { return &native{} }); !errors.Is(err, plugin.ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

// TestMemoryLimitBoundsInitialMemory loads a module whose initial memory exceeds the engine's default limit as two
// plugins. Each plugin's own limit counts.
func TestMemoryLimitBoundsInitialMemory(t *testing.T) {
	const pages = 1100
	m := newModule("text").baseWith(pages)
	wasm := m.provider(m.echo()).Bytes()
	h := newHost(t, plugin.Options{})
	for _, tt := range []struct {
		limit uint32
		err   string
	}{
		{0, "plugin b: begins with 69 MiB of memory, more than the limit of 64 MiB"},
		{pages - 1, "plugin b: begins with 69 MiB of memory, more than the limit of 68 MiB"},
		{pages, ""},
	} {
		set, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: wasm, MemoryPages: 2048}, {Name: "b", Wasm: wasm, MemoryPages: tt.limit}})
		if err != nil {
			if tt.err == "" || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "plugin a") {
				t.Errorf("limit %d: error %v, want %q", tt.limit, err, tt.err)
			}
			continue
		}
		if tt.err != "" {
			t.Errorf("limit %d: loaded, want %q", tt.limit, tt.err)
		}
		for _, name := range []string{"a", "b"} {
			echo(t, bind(t, set.Plugin(name), plugin.BindingConfig{}), newAttempt(t, body), "hello")
		}
		set.Close()
	}
}
