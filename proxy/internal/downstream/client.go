package downstream

// clientState is the result of one check of a client's socket.
type clientState uint8

const (
	clientPresent clientState = iota
	clientSentFIN             // the client has closed its sending side; only a probe can tell whether it still reads
	clientGone
)
