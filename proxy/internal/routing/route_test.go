package routing_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

var now = time.Unix(1_700_000_000, 0)

// defaultBreaker is the default of the configuration.
var defaultBreaker = breaker.Config{Consecutive: 5, Share: 0.8, Window: 30 * time.Second, Pause: 2 * time.Second, MaxPause: time.Minute}

func newTarget(t routing.Target) routing.Target {
	t.Stats, t.Breaker, t.Budget, t.RetryShare = new(routing.Stats), defaultBreaker, new(routing.Budget), 0.2
	return t
}

func targets() []routing.Target {
	return []routing.Target{
		newTarget(routing.Target{Provider: "a", Model: "m1", Weight: 1}),
		newTarget(routing.Target{Provider: "b", Model: "m2", Weight: 9}),
		newTarget(routing.Target{Provider: "c", Model: "m3", Weight: 5, Fallback: true}),
		newTarget(routing.Target{Provider: "d", Model: "m4", Weight: 1, Priority: 1}),
	}
}

// attempt makes an attempt that ends at once.
func attempt(tb testing.TB, t *routing.Target, o routing.Outcome, cooldown time.Duration, at time.Time) breaker.Change {
	tb.Helper()
	ticket, ok := t.StartAttempt(at, false, false)
	if !ok {
		tb.Fatalf("attempt at %s rejected: %+v", t.Provider, t.Stats.Snapshot(at))
	}
	return t.EndAttempt(ticket, o, cooldown, 0, at)
}

func fail(tb testing.TB, t *routing.Target, times int) {
	tb.Helper()
	for range times {
		attempt(tb, t, routing.Failed, 0, now)
	}
}

func TestConfiguredOrder(t *testing.T) {
	ts := targets()
	if got, want := routing.ConfiguredOrder(nil, ts, now), []int{1, 0, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("all healthy: %v, want %v", got, want)
	}
	fail(t, &ts[1], 5)
	if got, want := routing.ConfiguredOrder(nil, ts, now), []int{0, 3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("circuit of b open: %v, want %v", got, want)
	}
}

func TestMovingAverages(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 1)
	ticket, _ := target.StartAttempt(now, false, false)
	if s := target.Stats.Snapshot(now); s.Inflight != 1 || s.Latency != 0 || s.ErrorRate <= 0 {
		t.Errorf("after a failure: %+v", s)
	}
	before := target.Stats.Snapshot(now).ErrorRate
	target.EndAttempt(ticket, routing.Succeeded, 0, 80*time.Millisecond, now)
	if s := target.Stats.Snapshot(now); s.Inflight != 0 || s.Latency != 80*time.Millisecond || s.ErrorRate >= before {
		t.Errorf("after a success: %+v", s)
	}
}

type chooser func(input []byte, n int) ([]int, string, error)

func (c chooser) Choose(_ context.Context, tenant string, input []byte, n int) ([]int, string, error) {
	if tenant != "team" {
		return nil, "", errors.New("asked for " + tenant)
	}
	return c(input, n)
}

// covers: C15 C69
func TestOrderUsesChooser(t *testing.T) {
	var failed error
	refusal := errors.New("refused")
	summary := func(dst []byte) []byte { return append(dst, `{"model":"x"}`...) }
	order := func(ts []routing.Target, c routing.Chooser) ([]int, string, error) {
		r := routing.Router{Chooser: c, Failed: func(err error) { failed = err }}
		return r.Order(t.Context(), nil, ts, now, "team", summary, func(err error) bool { return err == refusal })
	}

	got, why, err := order(targets(), chooser(func(input []byte, n int) ([]int, string, error) {
		var doc struct {
			Summary struct{ Model string }
			Targets []struct {
				Index    int
				Provider string
				Healthy  bool
				Options  map[string]any
			}
		}
		if err := json.Unmarshal(input, &doc); err != nil {
			t.Fatal(err)
		}
		if n != 4 || len(doc.Targets) != 4 || doc.Summary.Model != "x" || doc.Targets[3].Provider != "d" || !doc.Targets[0].Healthy {
			t.Errorf("input: %s", input)
		}
		return []int{3, 0}, "because", nil
	}))
	if err != nil || why != "because" || !slices.Equal(got, []int{3, 0}) {
		t.Errorf("order: %v %q %v", got, why, err)
	}

	left := targets()
	fail(t, &left[3], 5)
	got, _, err = order(left, chooser(func([]byte, int) ([]int, string, error) { return []int{3, 2, 0}, "", nil }))
	if err != nil || !slices.Equal(got, []int{2, 0, 3}) {
		t.Errorf("a target with an open circuit must come last: %v %v", got, err)
	}

	got, _, err = order(targets(), chooser(func([]byte, int) ([]int, string, error) { return nil, "", errors.New("trap") }))
	if err != nil || failed == nil || !slices.Equal(got, []int{1, 0, 3, 2}) {
		t.Errorf("after a failure of the router: %v, %v, told %v", got, err, failed)
	}

	if _, _, err = order(targets(), chooser(func([]byte, int) ([]int, string, error) { return nil, "", refusal })); err != refusal {
		t.Errorf("a refusal gave %v", err)
	}

	got, _, err = order(targets()[:1], chooser(func([]byte, int) ([]int, string, error) {
		t.Error("asked about a single target")
		return nil, "", nil
	}))
	if err != nil || !slices.Equal(got, []int{0}) {
		t.Errorf("one target: %v %v", got, err)
	}
}

func TestPrune(t *testing.T) {
	var b routing.Registry
	s, g := b.Stats("p", "m"), b.Budget("p")
	b.Stats("p", "n")
	b.Stats("q", "n")
	b.Budget("q")
	if b.Stats("p", "m") != s || b.Stats("p", "n") == s || b.Budget("p") != g || b.Budget("q") == g {
		t.Error("one Stats for each provider and model, one Budget for each provider")
	}
	var names []string
	for _, seen := range b.Snapshot(now) {
		names = append(names, seen.Provider+"/"+seen.Model)
	}
	if want := []string{"p/m", "p/n", "q/n"}; !slices.Equal(names, want) {
		t.Errorf("it has seen %v, want %v", names, want)
	}
	b.Prune(func(p, m string) bool { return p == "p" && m == "n" })
	if b.Stats("p", "m") == s || b.Budget("p") != g {
		t.Error("Keep kept what is not in use, or dropped what is")
	}
	if all := b.Budgets(); len(all) != 1 || all[0].Provider != "p" || all[0].Left != 10 {
		t.Errorf("budgets: %+v", all)
	}
}
