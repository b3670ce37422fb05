// Package access tells which client key a request carries and what that key may use.
//
// It owns the reading of the Authorization header, the look-up, the allow-list of models, what keys have used of their
// limits, and how many wrong keys came from where. It does not own the writing of an answer or the counting of tokens, and
// the configuration alone says which keys there are: none is made at run time. All that it remembers is in memory.
//
// A presented key is hashed before anything else is done with it, and only the digest is looked up, so that neither the
// look-up's time nor a log nor an error can give a part of it away.
//
// Concurrency: Keys and Key do not change once they are made; these, Ledger and Guesses may be used from any goroutine. An
// Admission belongs to its request.
package access

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"

	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Keys is a set of client keys.
type Keys struct {
	byDigest map[config.Digest]*Key
	nobody   *Key
}

// Key is one client key.
type Key struct {
	name      string
	digest    config.Digest
	models    []config.Glob
	notBefore time.Time
	expires   time.Time
	disabled  bool
	limits    config.KeyLimits
	account   *account // nil: there are no limits
}

// New makes the set of the configured keys. What those with limits have used is in the ledger.
func New(keys []config.Key, ledger *Ledger) *Keys {
	k := &Keys{byDigest: make(map[config.Digest]*Key, len(keys)), nobody: &Key{disabled: true}}
	all := make([]Key, len(keys))
	for i := range keys {
		c := &keys[i]
		all[i] = Key{
			name: c.Name, digest: c.Digest, models: c.Models, notBefore: c.NotBefore, expires: c.Expires, disabled: c.Disabled, limits: c.Limits,
		}
		if c.Limits != (config.KeyLimits{}) {
			all[i].account = ledger.account(c.Name)
		}
		k.byDigest[c.Digest] = &all[i]
	}
	return k
}

// anyone is the key of every request where none is asked for.
var anyone = &Key{models: []config.Glob{"*"}}

// Anyone returns the key that stands for every client of a gateway with auth = "none". Its name is "".
func Anyone() *Key { return anyone }

// Name returns the key's name in the configuration, which may be logged.
func (k *Key) Name() string { return k.name }

// Allows tells whether the key may use a model. It does not allocate.
func (k *Key) Allows(model string) bool {
	for _, g := range k.models {
		if g.Match(model) {
			return true
		}
	}
	return false
}

// The causes of a refusal, for the log. The client sees the same words for all of them.
var (
	ErrUnknown     = errors.New("unknown key")
	ErrDisabled    = errors.New("disabled key")
	ErrExpired     = errors.New("expired key")
	ErrNotYetValid = errors.New("key is not valid yet")
	ErrMalformed   = errors.New("malformed authorization")
)

// refusal is the cause of a refused key that is known by name.
type refusal struct {
	name string
	why  error
}

func (r *refusal) Error() string { return "key " + r.name + ": " + r.why.Error() }

func (r *refusal) Unwrap() error { return r.why }

// Check returns the key that the Authorization headers of a request carry. now decides about expiry. The values are
// only read, and a request with a good key allocates nothing.
func (k *Keys) Check(authorization [][]byte, now time.Time) (*Key, *apierror.Error) {
	switch len(authorization) {
	case 0:
		return nil, missing()
	case 1:
	default:
		return nil, twice()
	}
	header := trim(authorization[0])
	switch {
	case len(header) == 0:
		return nil, missing()
	case bytes.IndexByte(header, ',') >= 0:
		// What an intermediary makes of two headers. No key has a comma.
		return nil, twice()
	}
	presented, ok := bearer(header)
	// What has not the form of a key takes the same way as one that is unknown: it is hashed, looked up and compared.
	digest := config.Digest(sha256.Sum256(presented))
	key, known := k.byDigest[digest]
	if !known {
		key = k.nobody
	}
	same := subtle.ConstantTimeCompare(key.digest[:], digest[:]) == 1
	why := key.refused(now)
	switch {
	case !ok:
		return nil, invalid(ErrMalformed)
	case !known || !same:
		return nil, invalid(ErrUnknown)
	case why != nil:
		return nil, invalid(&refusal{key.name, why})
	}
	return key, nil
}

// refused tells why a key that is known is not good at the time.
func (k *Key) refused(now time.Time) error {
	switch {
	case k.disabled:
		return ErrDisabled
	case !k.expires.IsZero() && !now.Before(k.expires):
		return ErrExpired
	case now.Before(k.notBefore):
		return ErrNotYetValid
	}
	return nil
}

// bearer returns the key in a trimmed Authorization header. The scheme is read without regard to case, and any number
// of spaces and tabs may stand behind it. ok is false where the header has another form; what is returned then
// is what stands in the key's place, so that it can take the same way.
func bearer(header []byte) (key []byte, ok bool) {
	const scheme = "bearer"
	if len(header) <= len(scheme) || !isSpace(header[len(scheme)]) {
		return header, false
	}
	ok = httpfield.EqualFold(header[:len(scheme)], scheme)
	key = trim(header[len(scheme):])
	for _, c := range key {
		ok = ok && c > ' ' && c < 0x7f
	}
	return key, ok
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func trim(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func missing() *apierror.Error {
	return &apierror.Error{
		Status: 401, Type: apierror.TypeInvalidRequest, Code: "missing_api_key", Authenticate: true,
		Message: "No API key was given. Send it in the header Authorization: Bearer YOUR_KEY.",
	}
}

func invalid(cause error) *apierror.Error {
	return &apierror.Error{
		Status: 401, Type: apierror.TypeInvalidRequest, Code: "invalid_api_key", Authenticate: true, Cause: cause,
		Message: "The API key is not valid.",
	}
}

func twice() *apierror.Error {
	return apierror.Invalid("duplicate_authorization", "", "The request has more than one Authorization header.")
}
