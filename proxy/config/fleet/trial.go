package fleet

import (
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Figures are counters of a gateway since its start.
type Figures struct {
	Requests     int64
	Errors       int64   // responses that are the gateway's or a provider's failure
	Traps        int64   // of plugins
	Cost         float64 // in dollars
	FirstEvents  int64
	FirstSeconds float64 // sum of the times to the first events
}

func (f Figures) since(start Figures) Figures {
	return Figures{
		f.Requests - start.Requests, f.Errors - start.Errors, f.Traps - start.Traps, f.Cost - start.Cost, f.FirstEvents - start.FirstEvents,
		f.FirstSeconds - start.FirstSeconds,
	}
}

// slower is the increase of the time to the first event below which no ratio counts.
const slower = time.Second

// worse returns why a bundle is worse than the one before it, by the figures of both; "" if it is not, or if there are
// not enough requests to tell.
func worse(c *config.Bundle, before, now Figures) string {
	if now.Requests < max(1, c.MinRequests) {
		return ""
	}
	share := func(n int64, f Figures) float64 { return float64(n) / float64(max(1, f.Requests)) }
	for _, x := range []struct {
		what        string
		before, now int64
	}{{"requests failed", before.Errors, now.Errors}, {"plugins trapped", before.Traps, now.Traps}} {
		if share(x.now, now) > share(x.before, before)+c.MaxErrors {
			return fmt.Sprintf("%s: %d in %d requests, before %d in %d", x.what, x.now, now.Requests, x.before, before.Requests)
		}
	}
	if before.Requests < c.MinRequests {
		return ""
	}
	cost, usual := now.Cost/float64(now.Requests), before.Cost/float64(max(1, before.Requests))
	if usual > 0 && cost > usual*c.MaxRatio {
		return fmt.Sprintf("a request costs $%.6f, before $%.6f", cost, usual)
	}
	if now.FirstEvents == 0 || before.FirstEvents == 0 {
		return ""
	}
	first, usually := now.FirstSeconds/float64(now.FirstEvents), before.FirstSeconds/float64(before.FirstEvents)
	if first > usually*c.MaxRatio && first > usually+slower.Seconds() {
		return fmt.Sprintf("the first event comes after %.2f s, before after %.2f s", first, usually)
	}
	return ""
}
