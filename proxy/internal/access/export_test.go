package access

// Addresses is how many addresses are remembered.
func (g *Guesses) Addresses() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.by.Len()
}
