package access

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxGuessers is how many addresses are remembered at a time; the one that guessed longest ago is forgotten first.
const maxGuessers = 1 << 14

// Guesses limits the wrong keys that come from one address. A good key passes all the same: many clients can stand behind
// one address. What is limited is what guessing costs the gateway and its log.
//
// The zero value has seen none. It is safe for concurrent use.
type Guesses struct {
	mu sync.Mutex
	by *simplelru.LRU[netip.Prefix, *guesser] // nil before the first
}

// guesser is an address, or a network that belongs to one client, from which wrong keys have come.
type guesser struct {
	wrong   meter
	refused int64 // that were too many, since the last time that there were none
}

// Wrong counts a wrong key from an address, of which perMinute are answered as such. For one beyond that the error is what
// it is answered instead, and refused how many there have been.
func (g *Guesses) Wrong(from netip.Addr, perMinute int64, now time.Time) (refused int64, e *apierror.Error) {
	network := networkOf(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == nil {
		// It fails for a size that is not positive.
		g.by, _ = simplelru.NewLRU[netip.Prefix, *guesser](maxGuessers, nil)
	}
	c, known := g.by.Get(network)
	if !known {
		c = new(guesser)
		g.by.Add(network, c)
	}
	c.wrong.drain(perMinute, now)
	if c.wrong.level == 0 {
		c.refused = 0
	}
	wait := c.wrong.wait(1, perMinute)
	if wait == 0 {
		c.wrong.put(1)
		return 0, nil
	}
	c.refused++
	return c.refused, &apierror.Error{
		Status: 429, Type: apierror.TypeRateLimit, Code: "too_many_wrong_keys", RetryAfter: wait, NoRetry: true,
		Message: "The API key is not valid, as many before it from the same address.",
	}
}

// networkOf is what one client has of the Internet: an address, or in IPv6 a network of 64 bits.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	// It fails for no address, which is one like any other.
	p, _ := a.Prefix(bits)
	return p
}
