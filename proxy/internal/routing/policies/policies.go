// Package policies builds the routing policies of a configuration: for each model its targets, with the statistics that
// outlive the configuration, its canary, shadows, rules and routers.
//
// It translates a model's configuration into a routing.Policy and binds the router plugins. Package routing makes the
// decisions.
//
// Concurrency: a Set is immutable once Bind has returned it.
package policies

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// Lasting is the state that policies use and that outlives them.
type Lasting struct {
	Registry *routing.Registry
	Canaries *canary.Set
}

// Set is the policies of a configuration.
type Set struct {
	lasting    Lasting
	config     *config.Config
	providers  map[string]*config.Provider // providers that are on
	router     *routing.Router             // router of models that are only listed by providers; nil means the configured order
	configured map[string]*routing.Policy  // by model; only models with a target
	canaries   []*canary.Canary
	measured   map[string]*routing.Measurements // by provider; only of those that are measured
}

// Bind builds the policies of a configuration, whose plugins must be loaded. The redactor removes credentials from the
// explanations of routers, and measured has the measurements of providers. The error joins everything that is wrong, with
// positions in the configuration.
func Bind(ctx context.Context, cfg *config.Config, loaded *plugin.Set, redactor *credential.Redactor, lasting Lasting, measured map[string]*routing.Measurements) (*Set, error) {
	s := &Set{lasting: lasting, config: cfg, measured: measured, providers: make(map[string]*config.Provider), configured: make(map[string]*routing.Policy)}
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; p.Off == "" {
			s.providers[p.Name] = p
		}
	}
	routers := binder{config: &cfg.Router, plugins: loaded, redactor: redactor, bound: make(map[string]*routing.Router)}
	var errs []error
	var err error
	if s.router, err = routers.bind(ctx, config.ModelRouter{Plugin: cfg.Router.Plugin, Settings: cfg.Router.Settings}); err != nil {
		errs = append(errs, cfg.NewError(cfg.Router.Pos, "router", err.Error()))
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		policy, err := s.bind(ctx, &routers, m)
		if err != nil {
			errs = append(errs, cfg.NewError(m.Pos, fmt.Sprintf("models[%d]", i), err.Error()))
		} else if len(policy.Targets) > 0 {
			s.configured[m.ID] = policy
		}
	}
	return s, errors.Join(errs...)
}

// Of returns the policy of a model, with those of its targets whose providers are on. It also works for models that are
// only listed by a provider.
func (s *Set) Of(m *catalog.Model) *routing.Policy {
	if p, ok := s.configured[m.ID]; ok {
		return p
	}
	return s.simple(m.ID, m.Targets, s.config.Router.Affinity, s.router)
}

// Configured returns the policy of a configured model, or nil if the model has no target whose provider is on.
func (s *Set) Configured(model string) *routing.Policy { return s.configured[model] }

// Canaries returns the canaries of all models, including those that are not used because a provider is off.
func (s *Set) Canaries() []*canary.Canary { return s.canaries }

// Targets returns the targets of the configured models whose providers are on, in the order of the configuration.
func (s *Set) Targets() []routing.TargetName {
	var all []routing.TargetName
	seen := make(map[routing.TargetName]bool)
	add := func(name routing.TargetName) {
		if s.providers[name.Provider] != nil && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	for i := range s.config.Models {
		m := &s.config.Models[i]
		for _, t := range m.Targets {
			add(routing.TargetName{Provider: t.Provider, Model: t.Model})
		}
		if m.Canary != nil {
			add(routing.TargetName{Provider: m.Canary.Provider, Model: m.Canary.Model})
		}
	}
	return all
}

// bind returns the policy of a configured model.
func (s *Set) bind(ctx context.Context, routers *binder, m *config.Model) (*routing.Policy, error) {
	router, err := routers.bind(ctx, m.Router)
	if err != nil {
		return nil, err
	}
	registry := s.lasting.Registry
	p := s.simple(m.ID, m.Targets, m.Affinity, router)
	s.addCanary(p, m)
	for i := range p.Targets {
		t := &p.Targets[i]
		t.Tokens = registry.PromptTokens(m.ID, t.Provider, t.Model)
	}
	p.Retry = m.Retry
	if m.Hedge != nil && len(p.Targets) > 1 {
		p.Hedge, p.Hedges = m.Hedge, registry.Hedges(m.ID)
	}
	s.addShadows(p, m)
	for i := range m.Rules {
		r := &m.Rules[i]
		rule := routing.Rule{Name: r.Name, When: r.When, Router: p.Router}
		for j := range p.Targets {
			rule.Allows = append(rule.Allows, r.Covers(p.Targets[j].Provider, p.Targets[j].Model))
		}
		if r.Router != nil {
			if rule.Router, err = routers.bind(ctx, *r.Router); err != nil {
				return nil, fmt.Errorf("rule %s: %w", r.Name, err)
			}
		}
		p.Rules = append(p.Rules, rule)
		p.ReadsBudget = p.ReadsBudget || r.When != nil && r.When.BudgetLeft != nil
	}
	return p, nil
}

// simple returns a policy that has only targets and a router.
func (s *Set) simple(model string, configured []config.Target, affinity config.Affinity, router *routing.Router) *routing.Policy {
	p := &routing.Policy{
		Model: model, Targets: s.targets(configured), Router: router, Affinity: affinity, Zone: s.config.Router.Zone,
		Retry: config.DefaultRetry(len(configured)),
	}
	for i := range p.Targets {
		when := p.Targets[i].When
		p.ReadsBudget = p.ReadsBudget || when != nil && when.BudgetLeft != nil
		p.SeveralSecrets = p.SeveralSecrets || len(s.providers[p.Targets[i].Provider].Auth.Secrets) > 1
	}
	return p
}

// targets returns the configured targets whose providers are on.
func (s *Set) targets(configured []config.Target) []routing.Target {
	var targets []routing.Target
	registry := s.lasting.Registry
	for i := range configured {
		t := &configured[i]
		p := s.providers[t.Provider]
		if p == nil {
			continue
		}
		targets = append(targets, routing.Target{
			Provider: t.Provider, Model: t.Model, Weight: t.Weight, Priority: t.Priority, Fallback: t.Fallback,
			InputPrice: t.Pricing.Input, OutputPrice: t.Pricing.Output, Prices: t.Pricing.Prices, CachesPrompts: p.CachesPrompts,
			Options: t.Options, ServiceTier: estimate.OptionsTier(t.Options), When: t.When,
			Stats: registry.Stats(t.Provider, t.Model), Breaker: breakerConfig(&p.Breaker), Budget: registry.Budget(t.Provider), RetryShare: p.RetryBudget,
			Measured: s.measured[t.Provider],
		})
	}
	return targets
}

func breakerConfig(c *config.Breaker) breaker.Config {
	return breaker.Config{Consecutive: c.Failures, Share: c.Share, Window: c.Window, Pause: c.Pause, MaxPause: c.MaxPause}
}

// addCanary adds a model's canary and its target to the model's policy. The canary's state is kept even while its
// provider, or all of the model's, are off.
func (s *Set) addCanary(p *routing.Policy, m *config.Model) {
	c := m.Canary
	if c == nil {
		return
	}
	state := s.lasting.Canaries.Get(m.ID, canary.Settings{
		Target: c.Provider + "/" + c.Model, Steps: c.Steps, Every: c.Every, MaxErrors: c.MaxErrors, MaxTraps: c.MaxTraps,
	})
	s.canaries = append(s.canaries, state)
	if len(p.Targets) == 0 || s.providers[c.Provider] == nil {
		return
	}
	p.Canary = &routing.Canary{Target: len(p.Targets), State: state}
	p.Targets = append(p.Targets, s.targets([]config.Target{{Provider: c.Provider, Model: c.Model, Weight: 1, Options: c.Options, Pricing: c.Pricing}})...)
}

// addShadows adds a model's shadows to its policy, except those whose provider is off.
func (s *Set) addShadows(p *routing.Policy, m *config.Model) {
	for i := range m.Shadows {
		c := &m.Shadows[i]
		if s.providers[c.Provider] == nil {
			continue
		}
		p.Shadows = append(p.Shadows, routing.Shadow{
			Target: routing.Target{
				Provider: c.Provider, Model: c.Model, Options: c.Options, ServiceTier: estimate.OptionsTier(c.Options), Prices: c.Pricing.Prices,
			},
			Share:   c.Share,
			Figures: s.lasting.Registry.Shadow(routing.ShadowName{Model: m.ID, Provider: c.Provider, Target: c.Model}),
		})
	}
}
