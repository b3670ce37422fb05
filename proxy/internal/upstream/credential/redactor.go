package credential

import (
	"slices"
	"sync"
	"sync/atomic"
)

const redacted = "[redacted]"

// Redactor replaces secrets in external text: the secrets that it was created with, and those that Signers and Sets
// obtain later. The zero value replaces nothing. It is safe for concurrent use and must not be copied.
type Redactor struct {
	fixed []patterns

	mu      sync.Mutex
	learned map[any][2][]string        // the current and the previous secrets of each owner
	all     atomic.Pointer[[]patterns] // patterns of fixed and learned
}

// minSecret is the length of the shortest secret that is redacted. Shorter ones occur in ordinary text.
const minSecret = 6

// NewRedactor returns a Redactor for the secrets, both plain and in base64, in hexadecimal, and escaped for a URL or a
// JSON string.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{fixed: groupForms(secrets)}
	r.all.Store(&r.fixed)
	return r
}

// Redactor returns a Redactor for the configured secrets.
func (c Credential) Redactor() *Redactor { return NewRedactor(c.secrets()...) }

// learn adds the secrets that owner has obtained. It keeps the owner's previous secrets, which requests in flight may
// still use, and forgets older ones.
func (r *Redactor) learn(owner any, secrets ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.learned == nil {
		r.learned = map[any][2][]string{}
	}
	r.learned[owner] = [2][]string{secrets, r.learned[owner][0]}
	r.publish()
}

// forget removes the secrets that owner has obtained.
func (r *Redactor) forget(owner any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.learned, owner)
	r.publish()
}

// publish combines the patterns of all secrets, the longest first, since one may be part of another. r.mu is held.
func (r *Redactor) publish() {
	var learned []string
	for _, generations := range r.learned {
		learned = append(append(learned, generations[0]...), generations[1]...)
	}
	all := append(slices.Clone(r.fixed), groupForms(learned)...)
	slices.SortStableFunc(all, func(a, b patterns) int { return b.length - a.length })
	r.all.Store(&all)
}

// hashSearches is the cost of scanning for many strings at once, in searches for a single string.
const hashSearches = 10

// Searches returns the cost of Redact, in searches of the text for a single string.
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

// Redact returns p with its secrets replaced: p itself if it contains none, otherwise a new slice.
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
