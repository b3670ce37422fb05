package redisstore

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// SetRecovery sets the duration of a recovery. It must be called before the first report.
func SetRecovery(s *Store, d time.Duration) { s.recovery = d }

// Tags is the number of tags.
const Tags = tags

// TagOf returns the tag of a scope.
func TagOf(s spend.Scope) int { return scopeTag(scopeName(s)) }
