package routing

// Probe tells whether the attempt finds out for others whether the target is well.
func (t Ticket) Probe() bool { return t.probe }
