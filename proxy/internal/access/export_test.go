package access

// Networks returns how many networks are remembered.
func (l *AuthLimiter) Networks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.networks.Len()
}
