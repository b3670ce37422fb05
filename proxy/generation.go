package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/policies"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// generation is a configuration with everything that was built from it: keys, models, connections to providers, and
// loaded plugins. It does not change once it serves. A request holds the generation that it began with; releasing the
// last reference closes it.
type generation struct {
	config    *config.Config
	keys      *access.Keys // nil: anyone may use everything
	accounts  *spend.Accounts
	catalog   *catalog.Catalog
	plugins   *plugin.Set
	providers map[string]*provider
	policies  *policies.Set
	salt      *routing.Salt
	filters   []*filter.Filter     // in the order in which they run
	redactor  *credential.Redactor // of all credentials that the gateway holds

	number int64 // 1, and one more with each Reload
	made   time.Time

	open     *openGenerations
	panicked func(*rescue.Error)

	refs   atomic.Int64  // requests in flight, and one for being current
	closed chan struct{} // closed when all of it is
}

// provider is what sends to one configured provider.
type provider struct {
	name    string
	binding *plugin.Binding
	client  *upstream.Client // nil: the plugin responds by itself

	// redact replaces credentials in what a provider sent, before anything else reads it.
	redact func([]byte) []byte

	heartbeat    time.Duration // silence after which a stream is kept alive; 0: never
	eventTimeout time.Duration // the longest time between two whole events of a stream; 0: none
	maxEvent     int           // the longest event of a stream, in bytes
	pace         time.Duration // between the events of a response that the plugin gave by itself; 0: none
}

// errClosed is for what needs a generation when there is none any more.
var errClosed = errors.New("the gateway is closed")

// acquire takes a reference; it fails once the last one has been released.
func (g *generation) acquire() bool {
	for {
		n := g.refs.Load()
		if n == 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back.
func (g *generation) release() {
	if g.refs.Add(-1) == 0 {
		// The last reference is mostly a request's: its goroutine has a client to serve.
		go g.close()
	}
}

// close closes each part, even if closing another one panics.
func (g *generation) close() {
	part := func(close func()) {
		defer rescue.Recover(g.panicked)
		close()
	}
	if g.catalog != nil {
		part(g.catalog.Close)
	}
	for _, p := range g.providers {
		if p.client != nil {
			part(p.client.Close)
		}
	}
	part(func() { g.open.remove(g) })
	if g.plugins != nil {
		part(g.plugins.Close)
	}
	close(g.closed)
	g.open.unclosed.Done()
}

// arrival is a request of an endpoint, as admission judges it under this generation.
func (g *generation) arrival(h *fasthttp.RequestHeader, to endpoint.ID, now time.Time) admission.Arrival {
	return admission.Arrival{
		Head: h, Now: now, API: endpoint.GuessAPI(h), HasBody: to.HasBody(), Keys: g.keys, KeyHeaders: g.config.Server.KeyHeaders,
	}
}

// missingModel is for a model that a client cannot have: there is none of this id, or its key may not use it.
func (g *generation) missingModel(h *fasthttp.RequestHeader, key *access.Key, id string, exists bool) *apierror.Error {
	e := modellist.Missing(g.catalog, key, id)
	e.Cause = g.missingModelCause(h, id, exists)
	return e
}

// missingModelCause is, for the log, why a client gets no model of this id: its key may not use it, or it cannot be used.
// The id is the client's own text, and may by mistake be or hold a key.
func (g *generation) missingModelCause(h *fasthttp.RequestHeader, id string, exists bool) error {
	name := clientapi.Quotable(id)
	if g.holdsSecret(h, []byte(id)) {
		name = admission.Redacted
	}
	if exists {
		return fmt.Errorf("the key may not use the model '%s'", name)
	}
	for i := range g.config.Models {
		if m := &g.config.Models[i]; m.ID == id {
			return fmt.Errorf("the model '%s' is off: %s", name, m.Off)
		}
	}
	return fmt.Errorf("no such model '%s'", name)
}

// holdsSecret reports whether a text of a request holds a key that the request presents, is another client key, or holds a credential that
// is known as a text. Without a generation only the first can be known.
func (g *generation) holdsSecret(h *fasthttp.RequestHeader, text []byte) bool {
	switch {
	case admission.PresentsKey(h, string(text)):
		return true
	case g == nil:
		return false
	}
	return g.keys != nil && g.keys.Has(text) || !bytes.Equal(g.redactor.Redact(text), text)
}

// redactorOf returns what takes out of a text every credential that the gateway holds, the keys of clients, and those that a request has
// presented. It works harder than redact, since what it is for may be kept in files.
func (g *generation) redactorOf(presented []string) func([]byte) []byte {
	return func(text []byte) []byte {
		keys := slices.Clone(presented)
		for i := range g.config.Keys {
			keys = append(keys, g.config.Keys[i].Secret.Reveal())
		}
		text = credential.NewRedactor(slices.DeleteFunc(keys, func(k string) bool { return k == "" })...).Redact(g.redactor.Redact(text))
		if g.keys == nil {
			return text
		}
		// Of other keys only digests are known: each word is looked up, in the letters of generated keys, and in all that a key may have.
		out := text
		for _, apart := range []func(rune) bool{
			func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) },
			func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"\\", r) },
		} {
			for w := range bytes.FieldsFuncSeq(text, apart) {
				// The first letter may be that of an escape, as in "\nsk-…".
				for _, key := range [][]byte{w, w[1:]} {
					if len(key) >= admission.MinKey && g.keys.Has(key) {
						out = bytes.ReplaceAll(out, key, []byte(admission.Redacted))
					}
				}
			}
		}
		return out
	}
}

// inherit takes over what the generation before knows of credentials. It is called before this one serves.
func (g *generation) inherit(old *generation) {
	for name, p := range g.providers {
		if was := old.providers[name]; p.client != nil && was != nil && was.client != nil {
			p.client.Inherit(was.client)
		}
	}
}

// hasProvider reports whether there is a provider of that name that is on.
func (g *generation) hasProvider(name string) bool { return g.providers[name] != nil }

// openGenerations are the generations that are not closed, and the counts of those that are, so that no sum decreases.
type openGenerations struct {
	unclosed sync.WaitGroup // a Reload adds to it while it holds a generation

	mu   sync.Mutex
	open map[*generation]struct{}
	past map[string]upstream.Stats // of closed generations, by provider
}

func (o *openGenerations) add(g *generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = make(map[*generation]struct{})
		o.past = make(map[string]upstream.Stats)
	}
	o.open[g] = struct{}{}
}

// remove keeps the counts of a generation that is closed.
func (o *openGenerations) remove(g *generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, open := o.open[g]; !open {
		return // it was never completed
	}
	delete(o.open, g)
	for _, p := range g.providers {
		if p.client != nil {
			o.past[p.name] = o.past[p.name].Plus(p.client.Stats().Counts())
		}
	}
}

func (o *openGenerations) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

// upstreams returns the connections to each provider, of all generations.
func (o *openGenerations) upstreams() map[string]upstream.Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	sums := maps.Clone(o.past)
	for g := range o.open {
		for _, p := range g.providers {
			if p.client != nil {
				sums[p.name] = sums[p.name].Plus(p.client.Stats())
			}
		}
	}
	return sums
}
