package routing

// For tests of the rendezvous hashing, whose numbers are a part of the contract with plugins.
var NegativeLog2 = negativeLog2

// Rendezvous orders targets by their lots for a hash, and returns the cost that each has drawn.
func Rendezvous(affinity uint64, targets []Target) (order []int, costs []uint64) {
	lots := make([]lot, len(targets))
	for i := range targets {
		t := &targets[i]
		lots[i] = drawLot(affinity, nameHash(t.Provider, t.Model), nth(targets, i), t.Weight)
		order, costs = append(order, i), append(costs, lots[i].cost)
	}
	sortByLot(order, lots)
	return order, costs
}
