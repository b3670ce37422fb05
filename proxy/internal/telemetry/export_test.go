package telemetry

// SelectWith is Select, with a call between its two parts.
func (c *Recent) SelectWith(q *RecentQuery, between func()) []Entry {
	entries, listed := c.selectInFlight(q)
	between()
	return c.selectEnded(entries, listed, q)
}
