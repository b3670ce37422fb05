package credential

import (
	"errors"
	"math/bits"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// MaxSecrets is how many secrets a provider may have.
const MaxSecrets = 64

const (
	// limitedPause is how long a secret that a provider has limited rests if the provider does not say.
	limitedPause = 5 * time.Second
	// refusedPause is how long a secret rests that a provider has refused.
	refusedPause = time.Minute
)

// Set is the credentials of one provider, ready to be added to requests.
//
// Each request prefers one of several secrets, by a hash of its client: what a provider caches belongs to an account. A secret that
// the provider has limited or refused rests for a while, and its requests go to the next. Of a secret that was replaced the one
// before is kept: it is tried once when the provider refuses the new one, which it may not know yet.
//
// It is safe for concurrent use.
type Set struct {
	credential Credential
	signer     Signer // nil for a credential that is the same for all requests
	accounts   []*account
	now        func() time.Time
	redactor   *Redactor
	renewing   sync.Mutex // held by Renew
}

// account is one secret, and how the provider treats it.
type account struct {
	secrets atomic.Pointer[secrets]
	resting atomic.Int64 // until when, in nanoseconds since 1970
}

// secrets are one secret and the one that it replaced. They are immutable.
type secrets struct{ current, previous prepared }

// prepared is a secret as it is sent.
type prepared struct {
	secret string // "": there is none
	Addition
}

// Addition is what authenticates a request. The zero value adds nothing.
type Addition struct {
	Header Header // without a value, there is none
	Query  string // "name=value", escaped
}

// Prepare checks the credential. now is the clock that signatures, expiry times and pauses depend on. The redactor learns the secrets
// that are obtained later; it may be nil. The Set must be closed.
func (c Credential) Prepare(now func() time.Time, redactor *Redactor) (*Set, error) {
	kinds := 0
	for _, set := range []bool{len(c.Secrets) > 0, c.AWS != nil, c.Google != nil} {
		if set {
			kinds++
		}
	}
	s := &Set{credential: c, now: now, redactor: redactor, accounts: make([]*account, max(1, len(c.Secrets)))}
	for i := range s.accounts {
		s.accounts[i] = new(account)
		s.accounts[i].secrets.Store(new(secrets))
	}
	switch {
	case kinds == 0:
	case kinds > 1:
		return nil, errors.New("there is more than one credential")
	case c.AWS != nil:
		signer, err := newAWS(*c.AWS, now, redactor)
		if err != nil {
			return nil, err
		}
		s.signer = signer
	case c.Google != nil:
		s.signer = newGoogle(*c.Google, now, redactor)
	case (c.Header == "") == (c.Query == ""):
		return nil, errors.New("the credential needs a header or a query parameter, and not both")
	case len(c.Secrets) > MaxSecrets:
		return nil, errors.New("there are too many secrets")
	default:
		for i, secret := range c.Secrets {
			p, err := c.prepare(secret)
			if err != nil {
				return nil, err
			}
			s.accounts[i].secrets.Store(&secrets{current: p})
		}
	}
	return s, nil
}

// prepare returns a secret as it is sent.
func (c *Credential) prepare(secret string) (prepared, error) {
	switch {
	case secret == "":
		return prepared{}, errors.New("the credential is empty")
	case c.Header != "" && (!httpfield.ValidName(c.Header) || !httpfield.ValidValue(c.Prefix) || !httpfield.ValidValue(secret)):
		return prepared{}, errors.New("the credential cannot be sent in a header")
	case c.Query != "":
		return prepared{secret, Addition{Query: url.QueryEscape(c.Query) + "=" + url.QueryEscape(secret)}}, nil
	}
	return prepared{secret, Addition{Header: Header{c.Header, c.Prefix + secret}}}, nil
}

// Signer returns what signs each request; nil for a credential that is the same for all of them.
func (s *Set) Signer() Signer { return s.signer }

// Close cancels what is being obtained.
func (s *Set) Close() {
	if s.signer != nil {
		s.signer.Close()
	}
	for _, a := range s.accounts {
		s.redactor.forget(a)
	}
}

// Renew replaces the secrets, in their order, and reports whether one has changed. Requests in flight keep theirs.
func (s *Set) Renew(renewed []string) (changed bool, err error) {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	if s.signer != nil || len(renewed) != len(s.accounts) {
		return false, errors.New("the number of secrets has changed")
	}
	all := make([]prepared, len(renewed))
	for i, secret := range renewed {
		if all[i], err = s.credential.prepare(secret); err != nil {
			return false, err
		}
	}
	for i := range all {
		a := s.accounts[i]
		if was := a.secrets.Load(); was.current.secret != all[i].secret {
			s.replace(a, secrets{current: all[i], previous: was.current})
			a.resting.Store(0)
			changed = true
		}
	}
	return changed, nil
}

// Inherit takes over what is known of the secrets of an older Set for the same provider: which rest, and which were replaced. It is
// called before the Set is used.
func (s *Set) Inherit(old *Set) {
	if s.signer != nil || old.signer != nil || s.credential.Header != old.credential.Header || s.credential.Query != old.credential.Query {
		return
	}
	for i := range s.accounts {
		a, now := s.accounts[i], s.accounts[i].secrets.Load()
		if now.current.secret == "" {
			return
		}
		at := slices.IndexFunc(old.accounts, func(b *account) bool { return b.secrets.Load().current.secret == now.current.secret })
		switch {
		case at >= 0:
			s.replace(a, *old.accounts[at].secrets.Load())
			a.resting.Store(old.accounts[at].resting.Load())
		case i < len(old.accounts) && !s.holds(old.accounts[i].secrets.Load().current.secret):
			s.replace(a, secrets{current: now.current, previous: old.accounts[i].secrets.Load().current})
		}
	}
}

func (s *Set) holds(secret string) bool {
	return slices.ContainsFunc(s.accounts, func(a *account) bool { return a.secrets.Load().current.secret == secret })
}

// replace stores secrets that the redactor has learned.
func (s *Set) replace(a *account, to secrets) {
	s.redactor.learn(a, to.current.secret, to.previous.secret)
	a.secrets.Store(&to)
}

// Choice goes through the secrets for one request. It belongs to the request.
type Choice struct {
	set      *Set
	client   uint64
	secrets  *secrets
	account  int
	previous bool
	tried    uint64 // a bit for each account
}

// Choose returns the secret for a request: the preferred one of its client that does not rest, or if all do, the preferred one. client
// is a hash of the client.
func (s *Set) Choose(client uint64) Choice {
	c := Choice{set: s, client: client}
	if len(s.accounts) > 1 {
		if c.account = c.best(s.now().UnixNano()); c.account < 0 {
			c.account = c.best(0)
		}
	}
	c.secrets = s.accounts[c.account].secrets.Load()
	return c
}

// best returns the untried account with the highest score for the client (rendezvous hashing) among those that do not rest after a
// time; 0: all. -1: there is none.
func (c *Choice) best(now int64) int {
	best, highest := -1, uint64(0)
	for i := range c.set.accounts {
		if c.tried>>i&1 != 0 || now != 0 && c.set.accounts[i].resting.Load() > now {
			continue
		}
		high, low := bits.Mul64(c.client^0x9E3779B97F4A7C15, uint64(i+1)*0xD6E8FEB86659FD93)
		if score := high ^ low; best < 0 || score > highest {
			best, highest = i, score
		}
	}
	return best
}

// Addition returns what the request is sent with.
func (c *Choice) Addition() Addition {
	if c.previous {
		return c.secrets.previous.Addition
	}
	return c.secrets.current.Addition
}

// Next reports whether the request is to be sent again with another secret, as the response has this status. limitedFor returns how
// long the provider wants no requests, 0 if it does not say.
func (c *Choice) Next(status int, limitedFor func() time.Duration) bool {
	pause := time.Duration(0)
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired:
		pause = refusedPause
	case http.StatusForbidden: // it may be about the request
	case http.StatusTooManyRequests:
		pause = limitedPause
	default:
		return false
	}
	if status == http.StatusUnauthorized {
		latest := c.set.accounts[c.account].secrets.Load()
		switch {
		case latest.current.secret != c.secrets.current.secret:
			c.secrets, c.previous = latest, false // it was replaced after the request had been sent
			return true
		case !c.previous && c.secrets.previous.secret != "":
			c.previous = true
			return true
		}
	}
	if len(c.set.accounts) == 1 {
		return false
	}
	if status == http.StatusTooManyRequests {
		if d := limitedFor(); d > 0 {
			pause = d
		}
	}
	now := c.set.now()
	if pause > 0 {
		c.set.accounts[c.account].resting.Store(now.Add(pause).UnixNano())
	}
	c.tried |= 1 << c.account
	next := c.best(now.UnixNano())
	if next < 0 {
		return false
	}
	c.account, c.previous = next, false
	c.secrets = c.set.accounts[next].secrets.Load()
	return true
}
