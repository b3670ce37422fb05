package routing

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
)

// Registry keeps the Stats of every target, by provider and model, the retry Budget of every provider, the Hedges of every model, and the
// figures of every shadow, so that they survive a reload.
type Registry struct {
	mu      sync.Mutex
	stats   map[TargetName]*Stats
	budgets map[string]*Budget
	hedges  map[string]*Hedges
	tokens  map[[3]string]*PromptTokens // by provider, its model, and the model of the configuration
	shadows map[ShadowName]*shadow.Figures
}

// PromptTokens counts the prompt tokens of complete responses to requests of one model from one of its targets, where the provider
// has said how many of them it had cached.
type PromptTokens struct{ All, Cached atomic.Int64 }

// PromptTokens returns the counts of a configured model at a provider's model, made on first use.
func (r *Registry) PromptTokens(configured, provider, model string) *PromptTokens {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.tokens, [3]string{provider, model, configured})
}

// Stats returns the statistics of a provider's model, made on first use.
func (r *Registry) Stats(provider, model string) *Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.stats, TargetName{provider, model})
}

// Budget returns the retry budget of a provider, made on first use.
func (r *Registry) Budget(provider string) *Budget {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.budgets, provider)
}

// Hedges returns the hedges of a model that clients ask for, made on first use.
func (r *Registry) Hedges(model string) *Hedges {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.hedges, model)
}

// ShadowName is a shadow of a configured model.
type ShadowName struct{ Model, Provider, Target string }

// Shadow returns the figures of a shadow, made on first use.
func (r *Registry) Shadow(name ShadowName) *shadow.Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.shadows, name)
}

// EachShadow calls f for each shadow. It must not call methods of the Registry.
func (r *Registry) EachShadow(f func(name ShadowName, c shadow.Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, figures := range r.shadows {
		f(name, figures.Counts())
	}
}

// EachHedges calls f for the hedges of each model. It must not call methods of the Registry.
func (r *Registry) EachHedges(f func(model string, c HedgeCounts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for model, h := range r.hedges {
		f(model, h.Counts())
	}
}

// PruneModels drops the hedges and shadows of models whose current policy does not have them; policy returns nil for a model without one.
func (r *Registry) PruneModels(policy func(model string) *Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for model := range r.hedges {
		if p := policy(model); p == nil || p.Hedge == nil {
			delete(r.hedges, model)
		}
	}
	for name, figures := range r.shadows {
		if p := policy(name.Model); p == nil || !slices.ContainsFunc(p.Shadows, func(s Shadow) bool { return s.Figures == figures }) {
			delete(r.shadows, name)
		}
	}
}

func getOrMake[K comparable, V any](m *map[K]*V, k K) *V {
	v := (*m)[k]
	if v == nil {
		if *m == nil {
			*m = make(map[K]*V)
		}
		v = new(V)
		(*m)[k] = v
	}
	return v
}

// Prune drops targets that are not in use, and the budgets of providers without any.
func (r *Registry) Prune(inUse func(provider, model string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	providers := make(map[string]bool)
	for t := range r.stats {
		if !inUse(t.Provider, t.Model) {
			delete(r.stats, t)
			continue
		}
		providers[t.Provider] = true
	}
	for k := range r.tokens {
		if !inUse(k[0], k[1]) {
			delete(r.tokens, k)
		}
	}
	for p := range r.budgets {
		if !providers[p] {
			delete(r.budgets, p)
		}
	}
}

// TargetName is a provider's model.
type TargetName struct{ Provider, Model string }

// Snapshots are the statistics of targets.
type Snapshots map[TargetName]Snapshot

// Get returns a target's statistics; one that has not been used is healthy.
func (all Snapshots) Get(name TargetName) Snapshot {
	if s, ok := all[name]; ok {
		return s
	}
	return Snapshot{Ready: true}
}

// Snapshots returns the statistics of all targets at now.
func (r *Registry) Snapshots(now time.Time) Snapshots {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(Snapshots, len(r.stats))
	for name, s := range r.stats {
		all[name] = s.Snapshot(now)
	}
	return all
}

// BudgetStatus is the state of a provider's retry budget.
type BudgetStatus struct {
	Provider string
	Left     float64 // retries
	Denied   uint64  // retries rejected because the budget was exhausted
}

// Budgets returns the state of all retry budgets, by provider.
func (r *Registry) Budgets() []BudgetStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]BudgetStatus, 0, len(r.budgets))
	for p, b := range r.budgets {
		left, denied := b.status()
		all = append(all, BudgetStatus{p, left, denied})
	}
	slices.SortFunc(all, func(x, y BudgetStatus) int { return cmp.Compare(x.Provider, y.Provider) })
	return all
}
