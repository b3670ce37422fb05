package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/route"
)

var now = time.Unix(1_700_000_000, 0)

func targets() []route.Target {
	return []route.Target{
		{Provider: "a", Model: "m1", Weight: 1, Stats: new(route.Stats)},
		{Provider: "b", Model: "m2", Weight: 9, Stats: new(route.Stats)},
		{Provider: "c", Model: "m3", Weight: 5, Fallback: true, Stats: new(route.Stats)},
		{Provider: "d", Model: "m4", Weight: 1, Priority: 1, Stats: new(route.Stats)},
	}
}

func fail(s *route.Stats, times int) {
	for range times {
		s.Begin()
		s.End(route.Failed, 0, now)
	}
}

func TestConfiguredOrder(t *testing.T) {
	ts := targets()
	if got, want := route.Configured(nil, ts, now), []int{1, 0, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("all healthy: %v, want %v", got, want)
	}
	fail(ts[1].Stats, 3)
	if got, want := route.Configured(nil, ts, now), []int{0, 3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("b unhealthy: %v, want %v", got, want)
	}
}

func TestUnhealthyAfterRepeatedFailuresUntilThePauseEnds(t *testing.T) {
	s := new(route.Stats)
	fail(s, 2)
	if !s.Healthy(now) {
		t.Error("two failures made it unhealthy")
	}
	fail(s, 1)
	if s.Healthy(now) || !s.Healthy(now.Add(2*time.Second)) {
		t.Error("the third failure should pause it for two seconds")
	}
	fail(s, 20)
	if s.Healthy(now.Add(59*time.Second)) || !s.Healthy(now.Add(time.Minute)) {
		t.Error("the pause should stop growing at a minute")
	}
	s.Begin()
	s.End(route.Neither, 0, now)
	if s.Healthy(now) {
		t.Error("a departed client says nothing of the target")
	}
	s.Begin()
	s.End(route.Answered, 80*time.Millisecond, now)
	got := s.Snapshot(now)
	if !got.Healthy || got.Inflight != 0 || got.Latency != 80*time.Millisecond || got.ErrorRate <= 0 || got.ErrorRate >= 1 {
		t.Errorf("after an answer: %+v", got)
	}
}

type chooser func(input []byte, n int) ([]int, string, error)

func (c chooser) Choose(_ context.Context, tenant string, input []byte, n int) ([]int, string, error) {
	if tenant != "team" {
		return nil, "", errors.New("asked for " + tenant)
	}
	return c(input, n)
}

func TestOrderAsksTheChooser(t *testing.T) {
	var failed error
	refusal := errors.New("refused")
	summary := func(dst []byte) []byte { return append(dst, `{"model":"x"}`...) }
	order := func(ts []route.Target, c route.Chooser) ([]int, string, error) {
		r := route.Router{Chooser: c, Failed: func(err error) { failed = err }}
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

func TestBoardKeepsStatsOfTargetsInUse(t *testing.T) {
	var b route.Board
	s := b.Stats("p", "m")
	if b.Stats("p", "m") != s || b.Stats("p", "n") == s {
		t.Error("one Stats for each provider and model")
	}
	b.Keep(func(p, m string) bool { return m == "n" })
	if b.Stats("p", "m") == s {
		t.Error("Keep kept what is not in use")
	}
}
