package routing_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
)

// shadows returns two shadows of a model. The second one is also one of its targets.
func shadows(share float64) []routing.Shadow {
	return []routing.Shadow{
		{Target: routing.Target{Provider: "x", Model: "new"}, Share: share, Figures: new(shadow.Figures)},
		{Target: routing.Target{Provider: "b", Model: "m2"}, Share: share, Figures: new(shadow.Figures)},
	}
}

// TestShadowsAreDrawn checks that each shadow gets its share of the requests independently of the other, that the
// request's random number determines which, and that shadows do not change the order.
func TestShadowsAreDrawn(t *testing.T) {
	const requests, share = 20_000, 0.1
	plain, p := &routing.Policy{Targets: targets()}, &routing.Policy{Targets: targets(), Shadows: shadows(share)}
	random := rand.New(rand.NewPCG(1, 2))
	var copies [2]int
	both := 0
	for range requests {
		r := request("c1")
		r.Random = random.Uint64()
		d, err := decide(t, p, r)
		again, _ := decide(t, p, r)
		without, _ := decide(t, plain, r)
		if err != nil || !slices.Equal(d.Shadows(), again.Shadows()) || !slices.Equal(d.Order(), without.Order()) || len(d.Attempts()) != 0 {
			t.Fatalf("%v: shadows %v, then %v; order %v, without shadows %v", err, d.Shadows(), again.Shadows(), d.Order(), without.Order())
		}
		for _, i := range d.Shadows() {
			copies[i]++
		}
		if len(d.Shadows()) == 2 {
			both++
		}
	}
	near := func(n int, want float64) bool { return math.Abs(float64(n)-want*requests) < 6*math.Sqrt(want*requests) }
	if !near(copies[0], share) || !near(copies[1], share) || !near(both, share*share) {
		t.Errorf("of %d requests, %v are copied to each shadow, and %d to both", requests, copies, both)
	}
}

func TestShadowsAreExplained(t *testing.T) {
	p := &routing.Policy{Model: "m", Targets: targets(), Shadows: shadows(1)}
	p.Shadows[1].Share = never
	d, err := decide(t, p, request("c1"))
	if err != nil {
		t.Fatal(err)
	}
	if line := string(d.AppendLine(nil)); !strings.HasSuffix(line, "; shadow x/new") {
		t.Error(line)
	}
	if text := string(d.AppendText(nil)); !strings.Contains(text, "shadow    x/new in (100%)\nshadow    b/m2 out (1e-16%)\n") {
		t.Error(text)
	}
	if json := string(d.AppendJSON(nil)); !strings.Contains(json, `"shadows":[{"target":"x/new","share":1,"in":true},{"target":"b/m2","share":0.000000000000000001,"in":false}]`) {
		t.Error(json)
	}
}

// TestShadowsDoNotAllocate checks decisions with and without copies.
func TestShadowsDoNotAllocate(t *testing.T) {
	for _, share := range []float64{0, 1} {
		p, r, d := &routing.Policy{Targets: targets(), Shadows: shadows(share)}, request("c1"), new(routing.Decision)
		if n := testing.AllocsPerRun(100, func() {
			if err := p.Decide(t.Context(), r, now, d); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("share %v: %v allocations", share, n)
		}
	}
}
