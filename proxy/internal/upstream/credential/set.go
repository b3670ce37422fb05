package credential

import (
	"crypto/sha256"
	"encoding/binary"
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

// MaxSecrets is the maximum number of secrets of a provider.
const MaxSecrets = 64

const (
	// limitedPause is how long a rate-limited secret is not used if the provider does not say.
	limitedPause = 5 * time.Second
	// rejectedPause is how long a secret that the provider has rejected is not used.
	rejectedPause = time.Minute
)

// Set is the credentials of one provider, ready to be added to requests.
//
// If there are several secrets, each client has a preferred one, chosen by a hash of the client, because a provider
// caches prompts per account. A secret that the provider has rate-limited or rejected is paused, and its requests use
// the next one. When a secret is replaced, the Set also keeps the previous one: a request is sent once with the
// previous secret if the provider rejects the new one, which may not be active yet.
//
// It is safe for concurrent use.
type Set struct {
	credential Credential
	signer     Signer // nil if the credential is static
	accounts   []*account
	now        func() time.Time
	redactor   *Redactor
	renewing   sync.Mutex // serialises Renew
}

// account is one secret, and until when it is paused.
type account struct {
	secrets     atomic.Pointer[secrets]
	pausedUntil atomic.Int64 // Unix time in nanoseconds
}

// secrets are one secret and the one that it replaced. They are immutable.
type secrets struct{ current, previous prepared }

// prepared is a secret as it is sent.
type prepared struct {
	secret      string // "" if there is none
	fingerprint uint32 // the beginning of a hash of the secret
	Addition
}

// Account identifies the credential of a request, and with it the provider's account that stores what the request has
// made, across restarts and replaced secrets: it has the credential's place in the configuration, and so little of a
// hash of its secret that it reveals nothing. The zero value is that of no credential in particular.
type Account uint64

// Addition is the header or query parameter that authenticates a request. The zero value adds nothing.
type Addition struct {
	Header Header // not sent if its value is empty
	Query  string // "name=value", escaped; may be empty
}

// Prepare checks the credential and returns its Set, which must be closed. now is the clock for signatures, expiry
// times and pauses. The redactor learns the secrets that are obtained later; it may be nil.
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
	}
	sum := sha256.Sum256([]byte("sluice account\n" + secret))
	fingerprint := binary.LittleEndian.Uint32(sum[:])
	if c.Query != "" {
		return prepared{secret, fingerprint, Addition{Query: url.QueryEscape(c.Query) + "=" + url.QueryEscape(secret)}}, nil
	}
	return prepared{secret, fingerprint, Addition{Header: Header{c.Header, c.Prefix + secret}}}, nil
}

// Signer returns the Signer that authorizes each request, or nil if the credential is static.
func (s *Set) Signer() Signer { return s.signer }

// Close cancels a fetch in flight, and removes the obtained secrets from the redactor.
func (s *Set) Close() {
	if s.signer != nil {
		s.signer.Close()
	}
	for _, a := range s.accounts {
		s.redactor.forget(a)
	}
}

// Renew replaces the secrets, in the configured order, and reports whether any of them changed. Requests in flight keep
// theirs.
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
			a.pausedUntil.Store(0)
			changed = true
		}
	}
	return changed, nil
}

// Inherit takes over the pauses and the previous secrets of an older Set for the same provider. It must be called
// before the Set is used.
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
			a.pausedUntil.Store(old.accounts[at].pausedUntil.Load())
		case i < len(old.accounts) && !s.holds(old.accounts[i].secrets.Load().current.secret):
			s.replace(a, secrets{current: now.current, previous: old.accounts[i].secrets.Load().current})
		}
	}
}

// holds reports whether a secret is one of the current ones.
func (s *Set) holds(secret string) bool {
	return slices.ContainsFunc(s.accounts, func(a *account) bool { return a.secrets.Load().current.secret == secret })
}

// replace makes the redactor learn an account's new secrets, and then stores them.
func (s *Set) replace(a *account, to secrets) {
	s.redactor.learn(a, to.current.secret, to.previous.secret)
	a.secrets.Store(&to)
}

// Choice selects one secret after another for a single request. It is not safe for concurrent use.
type Choice struct {
	set      *Set
	client   uint64
	secrets  *secrets
	account  int
	previous bool
	pinned   bool   // no other account is tried
	tried    uint64 // bit set of the accounts that were tried
}

// Choose returns the secret for a request: the most preferred one of its client that is not paused, or if all are
// paused, the most preferred one. client is a hash of the client.
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

// ChooseAccount returns the secret for a request that refers to what an earlier request has made: the same secret, or if
// that has been replaced, the one in its place. If there is none, it chooses as Choose does.
func (s *Set) ChooseAccount(a Account, client uint64) Choice {
	at := slices.IndexFunc(s.accounts, func(b *account) bool { return b.secrets.Load().current.fingerprint == uint32(a>>8) })
	if place := int(a&0xff) - 1; at < 0 && place < len(s.accounts) {
		at = place
	}
	if a == 0 || at < 0 {
		return s.Choose(client)
	}
	return Choice{set: s, account: at, secrets: s.accounts[at].secrets.Load(), pinned: true}
}

// Account returns the account of the current secret.
func (c *Choice) Account() Account {
	fingerprint := c.secrets.current.fingerprint
	if c.previous {
		fingerprint = c.secrets.previous.fingerprint
	}
	return Account(fingerprint)<<8 | Account(c.account+1)
}

// best returns the index of the untried account with the highest score for the client (rendezvous hashing), or -1 if
// there is none. It skips accounts that are paused beyond now, unless now is 0.
func (c *Choice) best(now int64) int {
	best, highest := -1, uint64(0)
	for i := range c.set.accounts {
		if c.tried>>i&1 != 0 || now != 0 && c.set.accounts[i].pausedUntil.Load() > now {
			continue
		}
		high, low := bits.Mul64(c.client^0x9E3779B97F4A7C15, uint64(i+1)*0xD6E8FEB86659FD93)
		if score := high ^ low; best < 0 || score > highest {
			best, highest = i, score
		}
	}
	return best
}

// Addition returns the header or query parameter to send the request with.
func (c *Choice) Addition() Addition {
	if c.previous {
		return c.secrets.previous.Addition
	}
	return c.secrets.current.Addition
}

// Next reports whether a request whose response has this status is to be sent again with another secret, which it
// selects. limitedFor returns how long the provider wants no requests, or 0 if it does not say.
func (c *Choice) Next(status int, limitedFor func() time.Duration) bool {
	pause := time.Duration(0)
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired:
		pause = rejectedPause
	case http.StatusForbidden: // try another secret without a pause: the request itself may be forbidden
	case http.StatusTooManyRequests:
		pause = limitedPause
	default:
		return false
	}
	if status == http.StatusUnauthorized {
		latest := c.set.accounts[c.account].secrets.Load()
		switch {
		case latest.current.secret != c.secrets.current.secret:
			c.secrets, c.previous = latest, false // the secret was replaced after the request had been sent
			return true
		case !c.previous && c.secrets.previous.secret != "":
			c.previous = true
			return true
		}
	}
	if len(c.set.accounts) == 1 || c.pinned {
		return false
	}
	if status == http.StatusTooManyRequests {
		if d := limitedFor(); d > 0 {
			pause = d
		}
	}
	now := c.set.now()
	if pause > 0 {
		c.set.accounts[c.account].pausedUntil.Store(now.Add(pause).UnixNano())
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
