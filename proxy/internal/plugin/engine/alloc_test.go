//go:build !race

package engine_test

import (
	"testing"
)

func TestCallDoesNotAllocate(t *testing.T) {
	i := instantiate(t, goModule(t, "small"))
	n := withInput(t, i)
	for name, args := range map[string][]uint64{"empty": nil, "event": {n}} {
		f := function(t, i, name)
		allocs := testing.AllocsPerRun(1000, func() {
			i.Seed(n)
			if _, err := i.Call(f, plenty, args...); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%v allocations per call of %q, want none", allocs, name)
		}
	}
}
