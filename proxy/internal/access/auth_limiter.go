package access

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/tokenbucket"
)

// maxNetworks bounds the networks that are remembered. The network whose last invalid key is oldest is evicted first.
const maxNetworks = 1 << 14

// AuthLimiter limits the invalid keys from one address. Valid keys always pass, because many clients can share an
// address; the limit only bounds what guessing costs the gateway and its log.
//
// The zero value is ready to use. It is safe for concurrent use.
type AuthLimiter struct {
	mu       sync.Mutex
	networks *simplelru.LRU[netip.Prefix, *network] // nil before the first invalid key
}

// network is an address, or a network that belongs to one client, that sent invalid keys.
type network struct {
	invalid tokenbucket.Bucket
	limited int64 // attempts beyond the limit since the bucket was last empty
}

// RecordInvalidKey counts an invalid key from an address, of which perMinute are allowed. Beyond that it returns the
// error to respond with, and the number of attempts beyond the limit.
func (l *AuthLimiter) RecordInvalidKey(from netip.Addr, perMinute int64, now time.Time) (limited int64, e *apierror.Error) {
	prefix := clientNetwork(from)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.networks == nil {
		// NewLRU fails only if the size is not positive.
		l.networks, _ = simplelru.NewLRU[netip.Prefix, *network](maxNetworks, nil)
	}
	n, known := l.networks.Get(prefix)
	if !known {
		n = new(network)
		l.networks.Add(prefix, n)
	}
	n.invalid.Drain(perMinute, now)
	if n.invalid.Empty() {
		n.limited = 0
	}
	wait := n.invalid.Wait(1, perMinute)
	if wait == 0 {
		n.invalid.Add(1)
		return 0, nil
	}
	n.limited++
	return n.limited, &apierror.Error{
		Status: 429, Kind: apierror.KindRateLimit, Code: "too_many_wrong_keys", RetryAfter: wait, NoRetry: true,
		Message: "Too many invalid API keys from this address.",
	}
}

// clientNetwork returns the network that belongs to one client: an IPv4 address, or a /64 of IPv6.
func clientNetwork(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	// Prefix fails only for the zero Addr, whose zero Prefix counts like any other.
	p, _ := a.Prefix(bits)
	return p
}
