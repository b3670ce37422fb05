package upstream

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const redacted = "[redacted]"

// Redactor replaces the values of secrets in foreign text: those that it was made with, and those that the Clients that
// share it obtain while they run. The zero value replaces nothing. It is safe for concurrent use and must not be copied.
type Redactor struct {
	fixed []patterns

	mu     sync.Mutex
	learnt map[any][2][][]byte        // by owner: the forms of what it has, and of what it had before
	all    atomic.Pointer[[]patterns] // of fixed and learnt
}

// minSecret is the shortest secret that is looked for: shorter ones would turn ordinary text into holes.
const minSecret = 6

// NewRedactor finds the secrets as they are, and as they look base64-encoded on their own, in hexadecimal, escaped for a
// URL and inside a JSON string.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{fixed: patternsOf(formsOf(secrets))}
	r.all.Store(&r.fixed)
	return r
}

// Redactor finds the secrets that the credential is configured with.
func (c Credential) Redactor() *Redactor { return NewRedactor(c.secrets()...) }

// inString escapes for a JSON string, as those do who escape slashes, and as those who do not.
var inString, inStringSlash = strings.NewReplacer(`\`, `\\`, `"`, `\"`), strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`)

func formsOf(secrets []string) [][]byte {
	var forms [][]byte
	there := make(map[string]bool)
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for _, f := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)),
			base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
			inStringSlash.Replace(s), inString.Replace(s),
		} {
			if !there[f] {
				there[f] = true
				forms = append(forms, []byte(f))
			}
		}
	}
	return forms
}

// learn makes r find what owner has obtained, and no longer what it had two times before: a provider may still be
// answering a request that was sent with the last one.
func (r *Redactor) learn(owner any, secrets ...string) {
	if r == nil {
		return
	}
	forms := formsOf(secrets)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.learnt == nil {
		r.learnt = map[any][2][][]byte{}
	}
	r.learnt[owner] = [2][][]byte{forms, r.learnt[owner][0]}
	r.publish()
}

// forget makes r no longer find what owner has obtained.
func (r *Redactor) forget(owner any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.learnt, owner)
	r.publish()
}

// publish puts all forms together, the longest first: a form may be a part of another. r.mu is held.
func (r *Redactor) publish() {
	var learnt [][]byte
	for _, generations := range r.learnt {
		learnt = append(append(learnt, generations[0]...), generations[1]...)
	}
	all := append(slices.Clone(r.fixed), patternsOf(learnt)...)
	slices.SortStableFunc(all, func(a, b patterns) int { return b.length - a.length })
	r.all.Store(&all)
}

// Redact returns p without the secrets. It is p itself where none is in it, and a new slice otherwise.
func (r *Redactor) Redact(p []byte) []byte {
	if r == nil {
		return p
	}
	all := r.all.Load()
	if all == nil {
		return p
	}
	for i := range *all {
		p = (*all)[i].replace(p)
	}
	return p
}
