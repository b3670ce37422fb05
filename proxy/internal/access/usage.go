package access

import (
	"fmt"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// Usage remembers how much keys have used of their limits. It survives reloads. The zero value is ready to use.
//
// Concurrency: it is safe for concurrent use. Its lock is never held together with that of a keyUsage.
type Usage struct {
	mu   sync.Mutex
	keys map[string]*keyUsage // by the key's name
}

// keyUsage is the usage of one key.
type keyUsage struct {
	mu       sync.Mutex
	requests bucket
	tokens   bucket
	reserved int64 // tokens of requests in flight
	inflight int64
}

// key returns the usage of a key, made on first use.
func (u *Usage) key(name string) *keyUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	k := u.keys[name]
	if k == nil {
		if u.keys == nil {
			u.keys = make(map[string]*keyUsage)
		}
		k = new(keyUsage)
		u.keys[name] = k
	}
	return k
}

// Prune forgets the usage of keys that are not in k, or have no limits there.
func (u *Usage) Prune(k *Keys) {
	limited := make(map[string]bool)
	if k != nil {
		for _, key := range k.byDigest {
			if key.usage != nil {
				limited[key.name] = true
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.keys {
		if !limited[name] {
			delete(u.keys, name)
		}
	}
}

// Admission is a request that was admitted under its key's limits. The zero value is that of a key without limits.
type Admission struct {
	usage    *keyUsage
	limits   config.KeyLimits
	reserved int64
}

// Admit admits a request, or returns the limit that it would exceed. An admitted request counts at once, and reserves the
// estimated tokens of its prompt and completion until Release. A rejected one changes nothing.
func (k *Key) Admit(prompt, completion int64, now time.Time) (Admission, *apierror.Error) {
	if k.usage == nil {
		return Admission{}, nil
	}
	u, l := k.usage, &k.limits
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drain(l, now)
	if l.Concurrent > 0 && u.inflight >= l.Concurrent {
		return Admission{}, rateLimited(&LimitError{k.name, LimitConcurrent, l.Concurrent}, time.Second, "The key is limited to %d concurrent requests.", l.Concurrent)
	}
	if l.RequestsPerMinute > 0 {
		if wait := u.requests.wait(1, l.RequestsPerMinute); wait > 0 {
			return Admission{}, rateLimited(&LimitError{k.name, LimitRequests, l.RequestsPerMinute}, wait, "The key is limited to %d requests per minute. Retry in %s.", l.RequestsPerMinute, wait)
		}
	}
	reserved := int64(0)
	if limit := l.TokensPerMinute; limit > 0 {
		if prompt > limit {
			e := rateLimited(&LimitError{k.name, LimitTokens, limit}, 0, "The key is limited to %d tokens per minute, and the prompt has about %d.", limit, prompt)
			e.NoRetry = true
			return Admission{}, e
		}
		// A request that may need more than the limit waits for all of it, and no longer.
		reserved = min(prompt+completion, limit)
		if wait := u.tokens.wait(u.reserved+reserved, limit); wait > 0 {
			if u.reserved+reserved > limit {
				// Only requests in flight can release tokens, and it is unknown when.
				wait = max(u.tokens.reset(limit), time.Second)
			}
			return Admission{}, rateLimited(&LimitError{k.name, LimitTokens, limit}, wait, "The key is limited to %d tokens per minute: %d remain, and the request may need %d. Retry in %s.",
				limit, u.remainingTokens(limit), reserved, wait)
		}
	}
	if l.RequestsPerMinute > 0 {
		u.requests.add(1)
	}
	u.inflight++
	u.reserved += reserved
	return Admission{u, *l, reserved}, nil
}

// Release ends an admitted request and counts the tokens that it used. Further calls do nothing.
func (a *Admission) Release(tokens int64, now time.Time) {
	if a.usage == nil {
		return
	}
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	a.usage.inflight--
	a.usage.reserved -= a.reserved
	if a.limits.TokensPerMinute > 0 {
		a.usage.drain(&a.limits, now)
		a.usage.tokens.add(tokens)
	}
	a.usage = nil
}

func (u *keyUsage) drain(l *config.KeyLimits, now time.Time) {
	if l.RequestsPerMinute > 0 {
		u.requests.drain(l.RequestsPerMinute, now)
	}
	if l.TokensPerMinute > 0 {
		u.tokens.drain(l.TokensPerMinute, now)
	}
}

func (u *keyUsage) remainingTokens(limit int64) int64 {
	return max(0, u.tokens.remaining(limit)-u.reserved)
}

// Remaining is what remains of a key's limits.
type Remaining struct {
	Limits        config.KeyLimits // 0 is unlimited
	Requests      int64
	RequestsReset time.Duration // until all requests of the limit remain
	Tokens        int64
	TokensReset   time.Duration
}

// Limited reports whether the key has limits.
func (k *Key) Limited() bool { return k.usage != nil }

// Remaining returns what remains of the key's limits; limited is false for a key without limits.
func (k *Key) Remaining(now time.Time) (r Remaining, limited bool) {
	if k.usage == nil {
		return Remaining{}, false
	}
	u := k.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drain(&k.limits, now)
	r.Limits = k.limits
	if l := k.limits.RequestsPerMinute; l > 0 {
		r.Requests, r.RequestsReset = u.requests.remaining(l), u.requests.reset(l)
	}
	if l := k.limits.TokensPerMinute; l > 0 {
		r.Tokens, r.TokensReset = u.remainingTokens(l), u.tokens.reset(l)
	}
	return r, true
}

// Limit is one of the limits of a key.
type Limit uint8

// The limits.
const (
	LimitRequests   Limit = iota // requests per minute
	LimitTokens                  // tokens per minute
	LimitConcurrent              // requests in flight
)

var limitNames = [...]string{LimitRequests: "requests_per_minute", LimitTokens: "tokens_per_minute", LimitConcurrent: "concurrent"}

// String returns the limit's name in the configuration.
func (l Limit) String() string { return limitNames[l] }

// LimitError says which limit a request exceeds, for the log.
type LimitError struct {
	Key   string
	Limit Limit
	Value int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limits.%s = %d of key %s is reached", e.Limit, e.Value, e.Key)
}

func rateLimited(cause *LimitError, wait time.Duration, format string, args ...any) *apierror.Error {
	e := apierror.Invalid("rate_limit_exceeded", "", format, args...)
	e.Status, e.Kind, e.RetryAfter, e.Cause = 429, apierror.KindRateLimit, wait, cause
	return e
}
