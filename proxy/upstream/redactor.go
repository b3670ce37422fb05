package upstream

import (
	"bytes"
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
	fixed [][]byte

	mu     sync.Mutex
	learnt map[any][2][][]byte      // by owner: the forms of what it has, and of what it had before
	forms  atomic.Pointer[[][]byte] // all of them
}

// minSecret is the shortest secret that is looked for: shorter ones would turn ordinary text into holes.
const minSecret = 6

// NewRedactor finds the secrets as they are, and as they look base64-encoded on their own, in hexadecimal, escaped for a
// URL and inside a JSON string.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{fixed: formsOf(secrets)}
	r.forms.Store(&r.fixed)
	return r
}

// Redactor finds the secrets that the credential is configured with.
func (c Credential) Redactor() *Redactor { return NewRedactor(c.secrets()...) }

func formsOf(secrets []string) [][]byte {
	var forms [][]byte
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for _, f := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)),
			base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
			strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`).Replace(s), strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s),
		} {
			if !slices.ContainsFunc(forms, func(g []byte) bool { return string(g) == f }) {
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
	all := slices.Clone(r.fixed)
	for _, generations := range r.learnt {
		all = append(append(all, generations[0]...), generations[1]...)
	}
	slices.SortStableFunc(all, func(a, b []byte) int { return len(b) - len(a) })
	r.forms.Store(&all)
}

// Redact returns p without the secrets. It is p itself where none is in it, and a new slice otherwise.
func (r *Redactor) Redact(p []byte) []byte {
	if r == nil {
		return p
	}
	forms := r.forms.Load()
	if forms == nil {
		return p
	}
	for _, f := range *forms {
		if bytes.Contains(p, f) {
			p = bytes.ReplaceAll(p, f, []byte(redacted))
		}
	}
	return p
}
