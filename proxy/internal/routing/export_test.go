package routing

import "slices"

// NegativeLog2 is exported for tests, because router plugins must compute the same numbers.
var NegativeLog2 = negativeLog2

// Rendezvous orders targets by rendezvous hashing, and also returns the cost of each target.
func Rendezvous(affinity uint64, targets []Target) (order []int, costs []uint64) {
	lots := make([]lot, len(targets))
	for i := range targets {
		t := &targets[i]
		lots[i] = drawLot(affinity, t.nameHash(), nth(targets, order, i), t.Weight)
		order, costs = append(order, i), append(costs, lots[i].cost)
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareLots(&lots[a], &lots[b]) })
	return order, costs
}
