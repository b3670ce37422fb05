package credential

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

// Redactor replaces secrets in foreign text: those that it was made with, and those that Signers obtain while they run. The zero
// value replaces nothing. It is safe for concurrent use and must not be copied.
type Redactor struct {
	fixed []patterns

	mu      sync.Mutex
	learned map[any][2][][]byte        // by owner: the forms of its current and of its previous secrets
	all     atomic.Pointer[[]patterns] // of fixed and learned
}

// minSecret is the shortest secret that is redacted: shorter ones occur in ordinary text.
const minSecret = 6

// NewRedactor returns a Redactor of secrets as they are, in base64, in hexadecimal, and escaped for a URL or a JSON string.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{fixed: groupPatterns(secretForms(secrets))}
	r.all.Store(&r.fixed)
	return r
}

// Redactor returns a Redactor of the configured secrets.
func (c Credential) Redactor() *Redactor { return NewRedactor(c.secrets()...) }

// escapeJSON escapes for a JSON string, and escapeJSONSlash also slashes, as some encoders do.
var escapeJSON, escapeJSONSlash = strings.NewReplacer(`\`, `\\`, `"`, `\"`), strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`)

func secretForms(secrets []string) [][]byte {
	var forms [][]byte
	there := make(map[string]bool)
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for _, f := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)),
			base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
			escapeJSONSlash.Replace(s), escapeJSON.Replace(s),
		} {
			if !there[f] {
				there[f] = true
				forms = append(forms, []byte(f))
			}
		}
	}
	return forms
}

// learn adds the secrets that owner has obtained, and forgets those before its previous ones, which requests in flight may still
// use.
func (r *Redactor) learn(owner any, secrets ...string) {
	if r == nil {
		return
	}
	forms := secretForms(secrets)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.learned == nil {
		r.learned = map[any][2][][]byte{}
	}
	r.learned[owner] = [2][][]byte{forms, r.learned[owner][0]}
	r.publish()
}

// forget removes what owner has obtained.
func (r *Redactor) forget(owner any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.learned, owner)
	r.publish()
}

// publish combines all forms, the longest first, since one may be part of another. r.mu is held.
func (r *Redactor) publish() {
	var learned [][]byte
	for _, generations := range r.learned {
		learned = append(append(learned, generations[0]...), generations[1]...)
	}
	all := append(slices.Clone(r.fixed), groupPatterns(learned)...)
	slices.SortStableFunc(all, func(a, b patterns) int { return b.length - a.length })
	r.all.Store(&all)
}

// hashSearches is what a scan for many strings at once costs, in searches for one string.
const hashSearches = 10

// Searches returns how many times Redact goes through a text, in searches for one string.
func (r *Redactor) Searches() (n int) {
	if r == nil {
		return 0
	}
	all := r.all.Load()
	if all == nil {
		return 0
	}
	for i := range *all {
		if n += len((*all)[i].few); (*all)[i].many != nil {
			n += hashSearches
		}
	}
	return n
}

// Redact returns p with secrets replaced: p itself if it has none, otherwise a new slice.
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
