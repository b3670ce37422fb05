package routing_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// TestRendezvousVectors checks the test vectors that plugins/router is tested with as well, so that both choose the
// same targets.
//
// covers: C89
func TestRendezvousVectors(t *testing.T) {
	text, err := os.ReadFile("../../../sdk/abi/testdata/rendezvous.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Affinity string
		Targets  []struct {
			Provider, Model string
			Weight          int
			Cost            uint64
		}
		Order []int
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		t.Fatal(len(vectors), err)
	}
	for _, v := range vectors {
		affinity, err := strconv.ParseUint(v.Affinity, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		var targets []routing.Target
		var want []uint64
		for _, x := range v.Targets {
			targets, want = append(targets, routing.Target{Provider: x.Provider, Model: x.Model, Weight: x.Weight}), append(want, x.Cost)
		}
		if order, costs := routing.Rendezvous(affinity, targets); !slices.Equal(costs, want) || !slices.Equal(order, v.Order) {
			t.Errorf("affinity %s: order %v, costs %v; want %v, %v", v.Affinity, order, costs, v.Order, want)
		}
	}
}

func TestNegativeLog2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint64().Draw(t, "x") >> rapid.IntRange(0, 63).Draw(t, "shift")
		want := (64 - math.Log2(float64(x|1))) * (1 << 24)
		if got := routing.NegativeLog2(x); math.Abs(float64(got)-want) > 2 {
			t.Errorf("NegativeLog2(%d) = %d, want %.1f", x, got, want)
		}
	})
	for x, want := range map[uint64]uint64{0: 64 << 24, 1: 64 << 24, 1 << 63: 1 << 24, math.MaxUint64: 1} {
		if got := routing.NegativeLog2(x); got != want {
			t.Errorf("NegativeLog2(%d) = %d, want %d", x, got, want)
		}
	}
}

// rendezvousTargets returns targets with these weights.
func rendezvousTargets(weights ...int) (targets []routing.Target) {
	for i, w := range weights {
		targets = append(targets, routing.Target{Provider: fmt.Sprint("p", i), Model: "m", Weight: w})
	}
	return targets
}

func TestRendezvousSharesFollowWeights(t *testing.T) {
	const draws = 20_000
	for _, weights := range [][]int{{1, 1, 1}, {9, 1}, {1, 2, 3, 4}, {1 << 20, 1 << 20, 1 << 18}, {5, 0}} {
		sum, first := 0, make([]int, len(weights))
		for _, w := range weights {
			sum += w
		}
		targets := rendezvousTargets(weights...)
		for i := range uint64(draws) {
			order, _ := routing.Rendezvous(i*0x9e3779b97f4a7c15, targets)
			first[order[0]]++
		}
		for i, w := range weights {
			share := float64(w) / float64(sum)
			if d := math.Abs(float64(first[i]) - share*draws); d > 6*math.Sqrt(draws*share*(1-share)) {
				t.Errorf("weights %v: targets were first %v times in %d draws", weights, first, draws)
			}
		}
	}
}

// Removing a target does not change the order of the others.
func TestRendezvousMovesOnlyShareOfRemovedTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := rendezvousTargets(rapid.SliceOfN(rapid.IntRange(1, 100), 2, 12).Draw(t, "weights")...)
		removed := rapid.IntRange(0, len(targets)-1).Draw(t, "removed")
		remaining := slices.Delete(slices.Clone(targets), removed, removed+1)
		for range 20 {
			affinity := rapid.Uint64().Draw(t, "affinity")
			before, _ := routing.Rendezvous(affinity, targets)
			after, _ := routing.Rendezvous(affinity, remaining)
			for n, i := range after {
				if i >= removed {
					after[n]++
				}
			}
			if want := slices.DeleteFunc(before, func(i int) bool { return i == removed }); !slices.Equal(after, want) {
				t.Fatalf("without target %d: order %v, want %v", removed, after, want)
			}
		}
	})
}
