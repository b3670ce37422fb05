package plugin

// Sweep does what the Host's goroutine does at a tick.
func (h *Host) Sweep() { h.sweepOnce() }

// SweepsPerAge is after how many sweeps an unused instance is closed.
const SweepsPerAge = sweepsPerAge
