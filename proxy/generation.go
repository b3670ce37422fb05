package proxy

import (
	"bytes"
	"context"
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
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/policies"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// generation is a configuration with everything that was built from it: keys, models, connections to providers, and
// loaded plugins. It is immutable once it serves. A request keeps the generation it started with. Releasing the last
// reference closes the generation.
type generation struct {
	config    *config.Config
	keys      *access.Keys         // nil if authentication is disabled
	tokens    *identity.Verifier   // nil without [[issuers]] and client certificates
	authorize *identity.Authorizer // nil without [authorization]
	accounts  *spend.Accounts
	catalog   *catalog.Catalog
	plugins   *plugin.Set
	providers map[string]*exchange.Provider
	policies  *policies.Set
	salt      *routing.Salt
	filters   []*filter.Filter     // in execution order
	redactor  *credential.Redactor // redacts all credentials of the gateway

	number  int64 // 1 for the first generation, incremented by each Reload
	builtAt time.Time

	open     *openGenerations
	panicked func(*rescue.Error)

	refs   atomic.Int64  // requests in flight, plus one while it is the current generation
	closed chan struct{} // closed when everything in the generation is
}

// errClosed is the error of operations on a closed gateway.
var errClosed = errors.New("the gateway is closed")

// Acquire takes a reference. It returns false if the last one has been released.
func (g *generation) Acquire() bool {
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

// Release releases a reference.
func (g *generation) Release() {
	if g.refs.Add(-1) == 0 {
		// The last reference is usually a request's, whose goroutine must not be delayed.
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
		if p.Probe != nil {
			part(p.Probe.Close)
		}
		if p.Client != nil {
			part(p.Client.Close)
		}
	}
	part(g.tokens.Close)
	part(g.authorize.Close)
	part(func() { g.open.remove(g) })
	if g.plugins != nil {
		part(g.plugins.Close)
	}
	close(g.closed)
	g.open.unclosed.Done()
}

// arrival returns the facts by which a request to an endpoint is admitted under this generation.
func (g *generation) arrival(h *fasthttp.RequestHeader, to endpoint.ID, now time.Time) admission.Arrival {
	return admission.Arrival{
		Head: h, Now: now, API: endpoint.GuessAPI(h), HasBody: to.HasBody(), Keys: g.keys, KeyHeaders: endpoint.KeyHeaders(h, g.config.Server.KeyHeaders),
	}
}

// authorizeRequest asks the service of [authorization], if there is one, about a request whose client is known. It returns
// the key with what the verdict says of it, and sets the user if the verdict names one.
func (g *generation) authorizeRequest(r *telemetry.Record, key *access.Key, user *access.User, now time.Time) (*access.Key, *apierror.Error) {
	if g.authorize == nil {
		return key, nil
	}
	by, name, e := g.authorize.Authorize(key, identity.Question{Method: r.Method, Path: r.Path, Model: r.Model, Principal: key.Name()}, now)
	if e != nil {
		return key, e
	}
	if r.Team = by.Team(); name != "" && by.Users() != nil {
		*user = by.NamedUser(name, g.config.Router.Salt)
	}
	return by, nil
}

// missingModel returns the error for a model that does not exist or that the key may not use.
func (g *generation) missingModel(h *fasthttp.RequestHeader, key *access.Key, id string, exists bool) *apierror.Error {
	e := modellist.Missing(g.catalog, key, id)
	e.Cause = g.missingModelCause(h, id, exists)
	return e
}

// missingModelCause returns, for the log, why the client does not get the model: it does not exist, it is disabled, or
// the key may not use it. The id is the client's own text, which may be or contain a key by mistake.
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

// holdsSecret reports whether a text from a request contains a key that the request presents, is another client key, or
// contains a credential that is known in plain text. Without a generation it can only check the presented keys.
func (g *generation) holdsSecret(h *fasthttp.RequestHeader, text []byte) bool {
	switch {
	case admission.PresentsKey(h, string(text)):
		return true
	case g == nil:
		return false
	}
	return g.keys != nil && g.keys.Has(text) || !bytes.Equal(g.redactor.Redact(text), text)
}

// NewFileRedactor returns a function that removes from a text every credential of the gateway, the keys of clients, and
// the keys that a request has presented. It is more thorough, and slower, than redactor, because its output may be kept
// in files.
func (g *generation) NewFileRedactor(presented []string) func([]byte) []byte {
	return func(text []byte) []byte {
		keys := slices.Clone(presented)
		for i := range g.config.Keys {
			keys = append(keys, g.config.Keys[i].Secret.Reveal())
		}
		text = credential.NewRedactor(slices.DeleteFunc(keys, func(k string) bool { return k == "" })...).Redact(g.redactor.Redact(text))
		if g.keys == nil {
			return text
		}
		// Other keys are known by their digests only. Look up each word, once with the letters of generated keys and
		// once with all characters that a key may have.
		out := text
		for _, isSeparator := range []func(rune) bool{
			func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) },
			func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"\\", r) },
		} {
			for w := range bytes.FieldsFuncSeq(text, isSeparator) {
				// The first letter may belong to an escape, as in "\nsk-…".
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

// inherit takes over from the previous generation what its connections know about credentials, and what it has measured.
// It is called before this generation serves.
func (g *generation) inherit(old *generation) {
	for name, p := range g.providers {
		previous := old.providers[name]
		if p.Client == nil || previous == nil || previous.Client == nil {
			continue
		}
		p.Client.Inherit(previous.Client)
		if p.Probe != nil && previous.Probe != nil && g.config.Provider(name).BaseURL == old.config.Provider(name).BaseURL {
			p.Probe.Inherit(previous.Probe)
		}
	}
}

// storesAtProviders reports whether a provider may store responses or threads of clients.
func (g *generation) storesAtProviders() bool {
	for _, p := range g.providers {
		if stores(p) {
			return true
		}
	}
	return false
}

// stores reports whether the provider may store responses or threads of clients.
func stores(p *exchange.Provider) bool {
	return p.Binding.Forms()&(abi.FormResponses|abi.FormMessages) != 0
}

// unsharedAccounts returns the names of providers that store responses or threads but whose other objects no client may
// refer to.
func (g *generation) unsharedAccounts() (names []string) {
	for name, p := range g.providers {
		if stores(p) && !p.SharedObjects {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// hasProvider reports whether a provider of that name is enabled.
func (g *generation) hasProvider(name string) bool { return g.providers[name] != nil }

// generations are the gateway's current generation, and what replaces it.
type generations struct {
	builder builder
	current atomic.Pointer[generation]
	open    openGenerations
	health  health

	reloading    sync.Mutex              // held while a Reload starts, and while it replaces the generation
	cancelReload context.CancelCauseFunc // cancels the latest Reload
}

// openGenerations tracks the generations that have not been closed. It keeps the counters of closed ones, so that no
// sum decreases.
type openGenerations struct {
	unclosed sync.WaitGroup // a Reload adds to it only while it holds a reference to a generation

	mu          sync.Mutex
	open        map[*generation]struct{}
	closedStats map[string]upstream.Stats // counters of closed generations, by provider
}

func (o *openGenerations) add(g *generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = make(map[*generation]struct{})
		o.closedStats = make(map[string]upstream.Stats)
	}
	o.open[g] = struct{}{}
}

// remove removes a closed generation, and keeps its counters.
func (o *openGenerations) remove(g *generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, open := o.open[g]; !open {
		return // it was never completely built
	}
	delete(o.open, g)
	for _, p := range g.providers {
		if p.Client != nil {
			o.closedStats[p.Name] = o.closedStats[p.Name].Plus(p.Client.Stats().Counts())
		}
	}
}

func (o *openGenerations) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

// upstreams returns the connection statistics of each provider, summed over all generations.
func (o *openGenerations) upstreams() map[string]upstream.Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	sums := maps.Clone(o.closedStats)
	for g := range o.open {
		for _, p := range g.providers {
			if p.Client != nil {
				sums[p.Name] = sums[p.Name].Plus(p.Client.Stats())
			}
		}
	}
	return sums
}
