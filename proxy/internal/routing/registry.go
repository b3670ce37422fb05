package routing

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
)

// Registry stores what must survive a reload: the Stats of every target, the retry Budget of every provider, the Hedges
// of every model, and the figures of every shadow.
type Registry struct {
	mu      sync.Mutex
	stats   map[TargetName]*Stats
	budgets map[string]*Budget
	hedges  map[string]*Hedges
	tokens  map[[3]string]*PromptTokens // by provider, the provider's model and the configured model
	shadows map[ShadowName]*shadow.Figures
}

// PromptTokens counts the prompt tokens of complete responses to requests for one configured model from one of its
// targets, if the provider reports how many of them were cached.
type PromptTokens struct{ All, Cached atomic.Int64 }

// PromptTokens returns the counts for a configured model at a provider's model. It creates them on first use.
func (r *Registry) PromptTokens(configured, provider, model string) *PromptTokens {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.tokens, [3]string{provider, model, configured})
}

// Stats returns the statistics of a provider's model. It creates them on first use.
func (r *Registry) Stats(provider, model string) *Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.stats, TargetName{provider, model})
}

// Budget returns the retry budget of a provider. It creates it on first use.
func (r *Registry) Budget(provider string) *Budget {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.budgets, provider)
}

// Hedges returns the hedges of a configured model. It creates them on first use.
func (r *Registry) Hedges(model string) *Hedges {
	r.mu.Lock()
	defer r.mu.Unlock()
	return getOrMake(&r.hedges, model)
}

// ShadowName identifies a shadow of a configured model.
type ShadowName struct{ Model, Provider, Target string }

// Shadow returns the figures of a shadow. It creates them on first use.
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

// PruneModels drops hedges and shadows that are not in the current policies. policy returns the policy of a model, or
// nil if it has none.
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

// Prune drops the statistics of targets that are not in use, and the budgets of providers without any.
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

// TargetName identifies a provider's model.
type TargetName struct{ Provider, Model string }

// Snapshots are copies of the statistics of targets.
type Snapshots map[TargetName]Snapshot

// Get returns a target's statistics. A target that has not been used is healthy.
func (all Snapshots) Get(name TargetName) Snapshot {
	if s, ok := all[name]; ok {
		return s
	}
	return Snapshot{Ready: true}
}

// Snapshots returns the statistics of all targets as of now.
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
	Left     float64 // retries left
	Denied   uint64  // retries rejected because the budget was exhausted
}

// Budgets returns the state of all retry budgets, sorted by provider.
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
