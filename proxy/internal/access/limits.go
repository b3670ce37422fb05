package access

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Ledger remembers what keys with limits have used. It outlives configurations: a reload gives no key its limits anew.
// The zero value is ready.
//
// Concurrency: all of it is safe for concurrent use. A Ledger's lock is never held with that of an account.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account // by the key's name
}

// account is what one key has used.
type account struct {
	mu       sync.Mutex
	requests meter
	tokens   meter
	reserved int64 // tokens of requests in flight
	inflight int64
}

// account returns that of a key, and makes it where there is none.
func (l *Ledger) account(name string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		if l.accounts == nil {
			l.accounts = make(map[string]*account)
		}
		a = new(account)
		l.accounts[name] = a
	}
	return a
}

// Keep forgets the accounts of all keys that are not in k, or have no limits there.
func (l *Ledger) Keep(k *Keys) {
	limited := make(map[string]bool)
	if k != nil {
		for _, key := range k.byDigest {
			if key.account != nil {
				limited[key.name] = true
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.accounts {
		if !limited[name] {
			delete(l.accounts, name)
		}
	}
}

// Admission is a request that was let in under its key's limits. The zero value is one of a key without limits.
type Admission struct {
	account  *account
	limits   config.KeyLimits
	reserved int64
}

// Admit lets a request in, or says which limit is in its way. A request that is let in counts at once, and holds the tokens
// that it may need, by an estimate of its prompt and of its answer, until Settle; one that is not changes nothing.
func (k *Key) Admit(prompt, answer int64, now time.Time) (Admission, *apierror.Error) {
	if k.account == nil {
		return Admission{}, nil
	}
	a, l := k.account, &k.limits
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain(l, now)
	if l.Concurrent > 0 && a.inflight >= l.Concurrent {
		return Admission{}, limited(time.Second, "The key may have %d requests at a time.", l.Concurrent)
	}
	if l.RequestsPerMinute > 0 {
		if wait := a.requests.wait(1, l.RequestsPerMinute); wait > 0 {
			return Admission{}, limited(wait, "The key may make %d requests a minute. The next one can be made in %s.", l.RequestsPerMinute, wait)
		}
	}
	reserved := int64(0)
	if most := l.TokensPerMinute; most > 0 {
		if prompt > most {
			e := limited(0, "The key may use %d tokens a minute, and the request has about %d.", most, prompt)
			e.NoRetry = true
			return Admission{}, e
		}
		// What may be more than a whole minute's tokens waits for the whole, and no longer.
		reserved = min(prompt+answer, most)
		if wait := a.tokens.wait(a.reserved+reserved, most); wait > 0 {
			if a.reserved+reserved > most {
				// Only requests in flight can make room, and nobody knows when.
				wait = max(a.tokens.reset(most), time.Second)
			}
			return Admission{}, limited(wait, "The key may use %d tokens a minute, of which %d are left, and the request may need %d. They may be there in %s.",
				most, a.tokensLeft(most), reserved, wait)
		}
	}
	if l.RequestsPerMinute > 0 {
		a.requests.put(1)
	}
	a.inflight++
	a.reserved += reserved
	return Admission{a, *l, reserved}, nil
}

// Settle ends a request that was let in, which has used so many tokens. It must be called once.
func (a *Admission) Settle(used int64, now time.Time) {
	if a.account == nil {
		return
	}
	a.account.mu.Lock()
	defer a.account.mu.Unlock()
	a.account.inflight--
	a.account.reserved -= a.reserved
	if a.limits.TokensPerMinute > 0 {
		a.account.drain(&a.limits, now)
		a.account.tokens.put(used)
	}
	a.account = nil
}

func (a *account) drain(l *config.KeyLimits, now time.Time) {
	if l.RequestsPerMinute > 0 {
		a.requests.drain(l.RequestsPerMinute, now)
	}
	if l.TokensPerMinute > 0 {
		a.tokens.drain(l.TokensPerMinute, now)
	}
}

func (a *account) tokensLeft(limit int64) int64 { return max(0, a.tokens.left(limit)-a.reserved) }

// Standing is how much of a key's limits is left.
type Standing struct {
	Limits        config.KeyLimits // a limit of 0 is none
	Requests      int64            // that can be made at once
	RequestsReset time.Duration    // until all of them can
	Tokens        int64
	TokensReset   time.Duration
}

// Limited tells whether the key has limits.
func (k *Key) Limited() bool { return k.account != nil }

// Standing says how much of its limits the key has left; limited is false for a key that has none.
func (k *Key) Standing(now time.Time) (s Standing, limited bool) {
	if k.account == nil {
		return Standing{}, false
	}
	a := k.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain(&k.limits, now)
	s.Limits = k.limits
	if l := k.limits.RequestsPerMinute; l > 0 {
		s.Requests, s.RequestsReset = a.requests.left(l), a.requests.reset(l)
	}
	if l := k.limits.TokensPerMinute; l > 0 {
		s.Tokens, s.TokensReset = a.tokensLeft(l), a.tokens.reset(l)
	}
	return s, true
}

func limited(wait time.Duration, format string, args ...any) *apierror.Error {
	e := apierror.Invalid("rate_limit_exceeded", "", format, args...)
	e.Status, e.Type, e.RetryAfter = 429, apierror.TypeRateLimit, wait
	return e
}
