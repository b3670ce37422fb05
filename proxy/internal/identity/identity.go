// Package identity authenticates clients by the tokens of identity providers (JSON Web Tokens, RFC 7519) and by client
// certificates, and turns them into principals: an access.Key whose name, team, models, limits and budgets follow from the
// claims of the token, or the names in the certificate, and [[identities]].
//
// It owns what is accepted as a token (token.go) and as a certificate (certificate.go), the issuers' keys (jwk.go,
// keyset.go) and the rules (rules.go). It reads no headers, counts nothing that a principal uses, and never passes a token
// on.
//
// A token is accepted only if it is unambiguous: header and claims are parsed by package jsondoc, which refuses duplicate
// members, before anything else reads them. The algorithm is a property of the issuer's key, never of the token.
//
// Concurrency: a Directory and a Verifier are safe for concurrent use. Each issuer has at most one fetch in progress, in
// a goroutine that ends with it.
package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
)

// Options configures a Directory.
type Options struct {
	// Dir returns a folder for the keys of issuers, so that a gateway can start while an issuer is down. nil keeps nothing.
	Dir func() (string, error)
	Log *slog.Logger
	Now func() time.Time
}

// Directory holds the keys of issuers. It outlives configurations. Create it with New.
type Directory struct {
	o      Options
	client *http.Client

	mu      sync.Mutex
	sources map[sourceID]*source
	fetches sync.WaitGroup
}

// sourceID identifies where keys come from. Configurations that have it in common share the keys.
type sourceID struct{ url, jwks string }

// New returns an empty directory.
func New(o Options) *Directory {
	return &Directory{o: o, client: newClient(), sources: make(map[sourceID]*source)}
}

// Wait waits until no fetch is in progress. Verifiers must have been closed.
func (d *Directory) Wait() { d.fetches.Wait() }

const (
	// verifiedTime is how long a verified token is not verified again.
	verifiedTime = 5 * time.Minute
	// verifiedMemory bounds the memory for verified tokens. A token that is evicted is verified again.
	verifiedMemory = 32 << 20
)

// Verifier verifies tokens and certificates under one configuration.
type Verifier struct {
	issuers      map[string]*issuer // by the claim iss
	certificates *Certificates      // nil if they do not authenticate clients
	rules        []rule
	verified     *fairlru.Cache[*verified] // by the digest of the whole token or certificate
	sources      []*source
	d            *Directory
}

// issuer is an entry of [[issuers]].
type issuer struct {
	config *config.Issuer
	index  int
	source *source
}

// verified is a token or certificate that has been verified.
type verified struct {
	key   *access.Key
	until time.Time // when it must be verified again
}

// Open returns a verifier for the issuers, client certificates and identities of a configuration; nil if there are
// neither issuers nor client certificates. The keys of issuers that are new are fetched in the background.
func (d *Directory) Open(cfg *config.Config) (*Verifier, error) {
	certificates, err := LoadCertificates(cfg.Server.TLS)
	if err != nil || len(cfg.Issuers) == 0 && certificates == nil {
		return nil, err
	}
	v := &Verifier{
		issuers: make(map[string]*issuer, len(cfg.Issuers)), certificates: certificates, rules: newRules(cfg), d: d,
		verified: fairlru.New[*verified](verifiedMemory, verifiedTime, d.o.Now),
	}
	var errs []error
	for i := range cfg.Issuers {
		c := &cfg.Issuers[i]
		s, err := d.open(c)
		if err != nil {
			errs = append(errs, cfg.NewError(c.Pos, fmt.Sprintf("issuers[%d].jwks", i), err.Error()))
			continue
		}
		v.issuers[c.URL] = &issuer{c, i, s}
		v.sources = append(v.sources, s)
	}
	if err := errors.Join(errs...); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// open returns the keys of an issuer, which the caller must release.
func (d *Directory) open(c *config.Issuer) (*source, error) {
	if c.File != "" {
		return d.readFile(c)
	}
	id := sourceID{c.URL, c.JWKS}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sources[id]
	if s == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s = &source{d: d, id: id, name: c.Name, ctx: ctx, cancel: cancel}
		s.load()
		d.sources[id] = s
		s.mu.Lock()
		s.startFetch(d.o.Now())
		s.mu.Unlock()
	}
	s.users++
	return s, nil
}

// release ends the use of an issuer's keys, which are forgotten with the last one.
func (d *Directory) release(s *source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.users--; s.users == 0 {
		if d.sources[s.id] == s {
			delete(d.sources, s.id)
		}
		s.close()
	}
}

// Close releases the keys of issuers that only this verifier uses. A nil Verifier needs no Close.
func (v *Verifier) Close() {
	if v == nil {
		return
	}
	for _, s := range v.sources {
		v.d.release(s)
	}
	v.sources = nil
}

// Verify returns the principal of a token, or the error to respond with. It returns neither if the text does not have
// the form of a token. digest is the SHA-256 of the whole text. A token that has been verified before causes no
// allocation.
//
// A token that names an unknown key waits for the issuer's keys to be fetched, for at most maxWait.
func (v *Verifier) Verify(text []byte, digest config.Digest, now time.Time) (*access.Key, *apierror.Error) {
	if !looksLikeToken(text) {
		return nil, nil
	}
	return v.cached(digest, now, func() (*access.Key, time.Time, error) { return v.verify(text, now) })
}

// cached returns the principal of a token or certificate with a digest, which verify verifies unless that has been done
// before.
func (v *Verifier) cached(digest config.Digest, now time.Time, verify func() (*access.Key, time.Time, error)) (*access.Key, *apierror.Error) {
	if known, ok := v.verified.Find(digest[:]); ok && now.Before(known.until) {
		return known.key, nil
	}
	key, until, err := verify()
	if err != nil {
		return nil, refusal(err)
	}
	until = earlier(until, now.Add(verifiedTime))
	size := keySize + len(key.Name()) + len(key.Account())
	v.verified.Put(key.Name(), []string{string(digest[:])}, &verified{key, until}, size, 1, func(*verified, int) bool { return true })
	return key, nil
}

// keySize is about how many bytes an access.Key and a verified take without their texts.
const keySize = 320

// verify verifies a token, and returns its principal and when the token expires.
func (v *Verifier) verify(text []byte, now time.Time) (*access.Key, time.Time, error) {
	var t token
	if err := t.parse(text); err != nil {
		return nil, time.Time{}, &Error{Code: Invalid, Cause: err}
	}
	from := v.issuers[t.issuer]
	if from == nil {
		return nil, time.Time{}, &Error{Code: Invalid, Cause: errIssuer}
	}
	fail := func(code Code, err error) (*access.Key, time.Time, error) {
		return nil, time.Time{}, &Error{Code: code, Issuer: from.config.Name, Cause: err}
	}
	key, err := from.source.find(t.keyID, t.method, from.config.Stale, now)
	switch {
	case errors.Is(err, errUnavailable):
		return fail(Unavailable, err)
	case err != nil:
		return fail(Invalid, err)
	}
	if err := key.verify(&t); err != nil {
		return fail(Invalid, errSignature)
	}
	if err := t.checkAudience(from.config.Audiences); err != nil {
		return fail(Invalid, err)
	}
	if err := t.checkTime(now); err != nil {
		return fail(Expired, err)
	}
	principal, err := v.principal(from.index, &t, from.config)
	if err != nil {
		return fail(NotAllowed, err)
	}
	return principal, t.expires.Add(skew), nil
}

// principal returns the principal with these claims, by the first rule that matches. issuer is that of the rules.
func (v *Verifier) principal(issuer int, c claimant, from *config.Issuer) (*access.Key, error) {
	for i := range v.rules {
		if r := &v.rules[i]; r.config.Issuer == issuer && r.matches(c) {
			return r.principal(c, from)
		}
	}
	return nil, errNoRule
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Code is why a token is refused.
type Code uint8

// The codes.
const (
	Invalid     Code = iota // not a token of a configured issuer
	Expired                 // a token of the issuer, outside of its validity
	NotAllowed              // a valid token that no rule accepts
	Unavailable             // the issuer's keys cannot be fetched

	InvalidCertificate // not a valid certificate of a configured authority
)

// Error is the cause of refusing a token or certificate, for the log. It contains nothing of the token.
type Error struct {
	Code   Code
	Issuer string // "" if it is unknown
	Cause  error
}

func (e *Error) Error() string {
	switch {
	case e.Code == InvalidCertificate, e.Issuer == config.CertificateIssuer:
		return "client certificate: " + e.Cause.Error()
	case e.Issuer == "":
		return "token: " + e.Cause.Error()
	}
	return "token of issuer " + e.Issuer + ": " + e.Cause.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Cause }

var (
	errIssuer = errors.New("its issuer is not one of [[issuers]]")
	errNoRule = errors.New("no entry of [[identities]] matches")
)

// refusal returns the error for the client. An invalid token says nothing about why it is invalid.
func refusal(err error) *apierror.Error {
	e := &apierror.Error{Status: 401, Kind: apierror.KindInvalidRequest, Code: "invalid_token", Authenticate: true, Cause: err, Message: "The token is not valid."}
	refused, _ := errors.AsType[*Error](err)
	switch refused.Code {
	case Expired:
		e.Code, e.Message = "token_expired", "The token has expired, or is not valid yet. Sign in again."
	case NotAllowed:
		e.Status, e.Code, e.Authenticate, e.NoRetry = 403, "identity_not_allowed", false, true
		e.Message = "The token is valid, but its holder may not use this gateway."
		if refused.Issuer == config.CertificateIssuer {
			e.Message = "The client certificate is valid, but its holder may not use this gateway."
		}
	case InvalidCertificate:
		e.Code, e.Message = "invalid_certificate", "The client certificate is not valid."
	case Unavailable:
		e.Status, e.Kind, e.Code, e.Authenticate, e.RetryAfter = 503, apierror.KindServiceUnavailable, "identity_unavailable", false, 5*time.Second
		e.Message = "The token cannot be checked, because the keys of its issuer cannot be fetched."
	}
	return e
}
