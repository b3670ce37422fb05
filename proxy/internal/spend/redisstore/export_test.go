package redisstore

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// SetRecovery sets for how long nothing is granted after a loss of data, before the first report.
func SetRecovery(s *Store, d time.Duration) { s.recovery = d }

// Tags is how many parts the scopes are divided into.
const Tags = tags

// TagOf returns the part that a scope is in.
func TagOf(s spend.Scope) int { return tagOf(scopeName(s)) }
