// Package access authenticates clients by their keys and decides which models a key may use.
//
// It parses the Authorization header and other headers that carry a key, looks up keys, and limits invalid keys per
// address. What keys use is counted by package spend. Keys come from the configuration, and all state is in memory. A
// client that presents a token instead of a key is authenticated by a Verifier, which gives it a Key of its own.
//
// A presented key is hashed first, and only the digest is looked up, so that neither timing nor a log or error reveals
// any part of a key.
//
// Concurrency: Keys and Key are immutable; they and AuthLimiter are safe for concurrent use.
package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Keys is a set of client keys.
type Keys struct {
	byDigest map[config.Digest]*Key
	tokens   Verifier // nil if only keys are accepted
	unknown  *Key     // stands in for a key that does not exist, so that lookups take the same path
}

// Verifier authenticates clients by tokens. It is safe for concurrent use.
type Verifier interface {
	// Verify returns the key of a token's holder, or the error to respond with. It returns neither if the text is not a
	// token. digest is the SHA-256 of text, which Verify does not retain.
	Verify(text []byte, digest config.Digest, now time.Time) (*Key, *apierror.Error)

	// VerifyCertificate returns the key of the holder of a client certificate, or the error to respond with. It returns
	// neither if certificates do not authenticate clients. chain is what the client has presented, its own certificate
	// first, with the SHA-256 of that.
	VerifyCertificate(chain []*x509.Certificate, digest config.Digest, now time.Time) (*Key, *apierror.Error)
	// AcceptsCertificates reports whether certificates authenticate clients.
	AcceptsCertificates() bool
}

// AcceptsCertificates reports whether clients that present no key can be authenticated by their certificates.
func (k *Keys) AcceptsCertificates() bool { return k.tokens != nil && k.tokens.AcceptsCertificates() }

// AuthenticateCertificate returns the key of the holder of a client certificate. It returns neither a key nor an error if
// certificates do not authenticate clients.
func (k *Keys) AuthenticateCertificate(chain []*x509.Certificate, digest config.Digest, now time.Time) (*Key, *apierror.Error) {
	if len(chain) == 0 || k.tokens == nil {
		return nil, nil
	}
	return k.tokens.VerifyCertificate(chain, digest, now)
}

// Key is one client key, or a principal: the holder of a token, who has the rights and limits of an entry of
// [[identities]].
type Key struct {
	name      string
	digest    config.Digest
	models    []config.Glob
	notBefore time.Time
	expires   time.Time
	disabled  bool
	hash      uint64 // of the name
	team      string
	tags      map[string]string
	explain   bool
	tagText   string // the tags in the ledger's format

	principal *config.Bounds      // nil for a key of the configuration
	users     *config.Users       // nil if the clients of a key are not told apart
	account   string              // of a principal
	series    string              // of a principal
	claims    map[string][]string // of a principal, those that conditions name
}

// New returns the set of the configured keys. tokens verifies what is not a key; it may be nil.
func New(keys []config.Key, tokens Verifier) *Keys {
	k := &Keys{tokens: tokens, byDigest: make(map[config.Digest]*Key, len(keys)), unknown: &Key{disabled: true}}
	all := make([]Key, len(keys))
	for i := range keys {
		c := &keys[i]
		all[i] = Key{
			name: c.Name, digest: c.Digest, models: c.Models, notBefore: c.NotBefore, expires: c.Expires, disabled: c.Disabled,
		}
		all[i].hash, all[i].team, all[i].tags = Hash(c.Name), c.Team, c.Tags
		all[i].explain, all[i].users = c.Explain, c.Users
		all[i].tagText = formatTags(c.Tags)
		k.byDigest[c.Digest] = &all[i]
		for j, d := range c.Digests {
			own := &all[i]
			if j > 0 {
				copied := all[i]
				own = &copied
			}
			own.digest, own.expires = d.Digest, c.Expires
			if !d.Expires.IsZero() && (c.Expires.IsZero() || d.Expires.Before(c.Expires)) {
				own.expires = d.Expires
			}
			k.byDigest[d.Digest] = own
		}
	}
	return k
}

var anonymous = &Key{models: []config.Glob{"*"}, explain: true}

// Anonymous returns the key of every client if auth = "none". Its name is "".
func Anonymous() *Key { return anonymous }

// Name returns the key's name in the configuration. It is not a secret.
func (k *Key) Name() string { return k.name }

// Team returns the name of the team that the key belongs to, "" for none.
func (k *Key) Team() string { return k.team }

// Tags returns the key's tags, which must not be changed.
func (k *Key) Tags() map[string]string { return k.tags }

// Users returns how the users of the key are told apart; nil if they are not.
func (k *Key) Users() *config.Users { return k.users }

// MayExplain reports whether the client may ask how its requests are routed.
func (k *Key) MayExplain() bool { return k.explain }

// Claims returns the claims of a principal's token that conditions of the configuration name. It must not be changed.
func (k *Key) Claims() map[string][]string { return k.claims }

// TagText returns the key's tags in the ledger's format: "name=value" pairs, sorted by name and separated by spaces,
// which neither names nor values contain.
func (k *Key) TagText() string { return k.tagText }

func formatTags(tags map[string]string) string {
	all := make([]string, 0, len(tags))
	for name, value := range tags {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// Hash returns a hash of the key's name, which is the same in every gateway that has the key.
func (k *Key) Hash() uint64 { return k.hash }

// Hash returns a hash of a client's name or address.
func Hash(client string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, client)
	return h.Sum64()
}

// Allows reports whether the key may use a model. It does not allocate.
func (k *Key) Allows(model string) bool {
	for _, g := range k.models {
		if g.Match(model) {
			return true
		}
	}
	return false
}

// The causes of a rejected key, for the log. The client gets the same message for all of them.
var (
	ErrUnknown     = errors.New("unknown key")
	ErrDisabled    = errors.New("disabled key")
	ErrExpired     = errors.New("expired key")
	ErrNotYetValid = errors.New("key is not valid yet")
	ErrMalformed   = errors.New("malformed authorization")
)

// KeyError is the cause of rejecting a configured key.
type KeyError struct {
	Name  string
	Cause error
}

func (e *KeyError) Error() string { return "key " + e.Name + ": " + e.Cause.Error() }

// Unwrap returns the reason.
func (e *KeyError) Unwrap() error { return e.Cause }

// Authenticate returns the key in the Authorization headers of a request. The values are only read, and a valid key
// causes no allocation.
func (k *Keys) Authenticate(authorization [][]byte, now time.Time) (*Key, *apierror.Error) {
	switch len(authorization) {
	case 0:
		return nil, missingKey()
	case 1:
	default:
		return nil, duplicateHeader()
	}
	header := trim(authorization[0])
	switch {
	case len(header) == 0:
		return nil, missingKey()
	case bytes.IndexByte(header, ',') >= 0:
		// An intermediary may have joined two headers. No key has a comma.
		return nil, duplicateHeader()
	}
	presented, ok := bearer(header)
	return k.find(presented, ok, now)
}

// AuthenticateWith is like Authenticate, but also accepts a key from other headers, whose values are the bare key. A
// request may repeat its key in several headers, but must not have different keys.
func (k *Keys) AuthenticateWith(authorization, others [][]byte, now time.Time) (*Key, *apierror.Error) {
	var other []byte
	for _, v := range others {
		switch v = trim(v); {
		case len(v) == 0:
		case len(other) > 0 && !bytes.Equal(v, other):
			return nil, differentKeys()
		default:
			other = v
		}
	}
	if len(other) == 0 {
		return k.Authenticate(authorization, now)
	}
	key, e := k.Authenticate(authorization, now)
	if e != nil && e.Code == codeMissing {
		return k.find(other, visible(other), now)
	}
	if len(authorization) == 1 {
		if presented, _ := bearer(trim(authorization[0])); !bytes.Equal(presented, other) {
			return nil, differentKeys()
		}
	}
	return key, e
}

// find returns the key that a client has presented. ok is false if the presented text is malformed.
func (k *Keys) find(presented []byte, ok bool, now time.Time) (*Key, *apierror.Error) {
	// A malformed key takes the same path as an unknown one: it is hashed, looked up and compared.
	digest := config.Digest(sha256.Sum256(presented))
	key, known := k.byDigest[digest]
	if !known {
		key = k.unknown
	}
	same := subtle.ConstantTimeCompare(key.digest[:], digest[:]) == 1
	cause := key.validAt(now)
	switch {
	case !ok:
		return nil, invalidKey(ErrMalformed)
	case !known || !same:
		if k.tokens != nil {
			if key, e := k.tokens.Verify(presented, digest, now); key != nil || e != nil {
				return key, e
			}
		}
		return nil, invalidKey(ErrUnknown)
	case cause != nil:
		return nil, invalidKey(&KeyError{key.name, cause})
	}
	return key, nil
}

// Has reports whether text is the secret of a key, valid or not.
func (k *Keys) Has(text []byte) bool {
	_, known := k.byDigest[sha256.Sum256(text)]
	return known
}

// Named returns the key with the given name, and an error if it is not valid at the given time or does not exist. A key
// with several secrets is valid if one of them is. It scans all keys.
func (k *Keys) Named(name string, now time.Time) (found *Key, err error) {
	err = ErrUnknown
	for _, key := range k.byDigest {
		if key.name == name {
			if found, err = key, key.validAt(now); err == nil {
				break
			}
		}
	}
	return found, err
}

// validAt returns the reason why the key is not valid at a time, or nil if it is.
func (k *Key) validAt(now time.Time) error {
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

// bearer returns the key in a trimmed Authorization header. The scheme is case-insensitive, and followed by any number
// of spaces and tabs. ok is false if the header is malformed; key is then the text in the key's place.
func bearer(header []byte) (key []byte, ok bool) {
	const scheme = "bearer"
	if len(header) <= len(scheme) || !isSpace(header[len(scheme)]) {
		return header, false
	}
	ok = httpfield.EqualFold(header[:len(scheme)], scheme)
	key = trim(header[len(scheme):])
	return key, ok && visible(key)
}

// visible reports whether a key has only printable ASCII characters and no spaces.
func visible(key []byte) bool {
	for _, c := range key {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
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

const codeMissing = "missing_api_key"

func missingKey() *apierror.Error {
	return &apierror.Error{
		Status: 401, Kind: apierror.KindInvalidRequest, Code: codeMissing, Authenticate: true,
		Message: "No API key was given. Send it in the header Authorization: Bearer YOUR_KEY.",
	}
}

func invalidKey(cause error) *apierror.Error {
	return &apierror.Error{
		Status: 401, Kind: apierror.KindInvalidRequest, Code: "invalid_api_key", Authenticate: true, Cause: cause,
		Message: "The API key is not valid.",
	}
}

func duplicateHeader() *apierror.Error {
	return apierror.Invalid("duplicate_authorization", "", "The request has more than one Authorization header.")
}

func differentKeys() *apierror.Error {
	return apierror.Invalid("duplicate_authorization", "", "The request has different API keys in several headers.")
}
