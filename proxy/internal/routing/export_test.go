package routing

import "slices"

// For tests of the rendezvous hashing, whose numbers are a part of the contract with plugins.
var NegativeLog2 = negativeLog2

// Rendezvous orders targets by their lots for a hash, and returns the cost that each has drawn.
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
