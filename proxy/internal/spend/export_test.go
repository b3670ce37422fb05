package spend

// Usages returns how many scopes have a usage in memory.
func (b *Book) Usages() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.usages)
}
