package routing

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// maxRetryWait is the longest Retry-After that a request waits for before another attempt at the same target.
const maxRetryWait = 2 * time.Second

// RetryWait returns how long to wait before another attempt at a target where as many attempts as made have failed, or
// false if there must not be another. retryAfter is the target's Retry-After, or 0 if it sent none.
func RetryWait(c config.Retry, made int, retryAfter time.Duration) (time.Duration, bool) {
	if made >= c.Attempts || retryAfter > maxRetryWait {
		return 0, false
	}
	return max(c.Backoff<<min(made-1, 10), retryAfter), true
}
