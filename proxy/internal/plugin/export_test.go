package plugin

// Sweep does a sweep, as the Host's goroutine does at each tick.
func (h *Host) Sweep() { h.sweepOnce() }

// SweepsPerAge is the number of sweeps after which an unused instance is closed.
const SweepsPerAge = sweepsPerAge
