package downstream

// clientState is what one check of a client's socket shows.
type clientState uint8

const (
	clientPresent clientState = iota
	clientSentFIN             // it has closed its sending side: gone or half-closed, which only a probe can tell apart
	clientGone
)
