package catalog

import "github.com/sluice-gateway/sluice/proxy/config"

// A model's direct name is PROVIDER/MODEL. Where nothing else has that id, it names the provider's model whatever other providers and
// the configuration have under the model's own id. So two providers that list the same id can both be asked for it.

// directName returns the direct name of a provider's model.
func directName(provider, model string) string { return provider + "/" + model }

// direct returns the model under its direct name.
func (m *Model) direct() *Model {
	d := *m
	d.ID, d.Own, d.Direct = directName(m.Targets[0].Provider, m.Targets[0].Model), m.Targets[0].Model, nil
	d.json = d.render(true, true)
	return &d
}

// configuredDirect returns the models that the configuration has as targets of providers whose models have direct names, each as
// its first target is configured. A target's condition holds for it, too.
func configuredDirect(cfg *config.Config, configured []*Model) (models []*Model, byID map[string]*Model) {
	byID = map[string]*Model{}
	for _, m := range configured {
		for _, t := range m.Targets {
			if p := cfg.Provider(t.Provider); p == nil || !p.Direct || byID[directName(t.Provider, t.Model)] != nil {
				continue
			}
			d := *m
			if t.Pricing.Known {
				d.Pricing = t.Pricing
			}
			t.Weight, t.Priority, t.Fallback = 1, 0, false
			d.DisplayName, d.OwnedBy, d.Targets = t.Model, t.Provider, []config.Target{t}
			of := d.direct()
			models, byID[of.ID] = append(models, of), of
		}
	}
	return models, byID
}
