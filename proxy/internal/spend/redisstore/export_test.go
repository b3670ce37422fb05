package redisstore

import "time"

// SetRecovery sets for how long nothing is granted after a loss of data, before the first report.
func SetRecovery(s *Store, d time.Duration) { s.recovery = d }

// Tags is how many parts the scopes are divided into.
const Tags = tags
