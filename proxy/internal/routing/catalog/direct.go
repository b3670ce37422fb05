package catalog

import "github.com/sluice-gateway/sluice/proxy/config"

// A model's direct name is PROVIDER/MODEL. Unless another model has that id, it selects the provider's model even if
// the configuration or another provider has a model with the same own id. So clients can choose between providers that
// list the same id.

// directName returns the direct name of a provider's model.
func directName(provider, model string) string { return provider + "/" + model }

// direct returns a copy of the model under its direct name.
func (m *Model) direct() *Model {
	d := *m
	d.ID, d.Own, d.Direct = directName(m.Targets[0].Provider, m.Targets[0].Model), m.Targets[0].Model, nil
	d.json = d.render(true, true)
	return &d
}

// configuredDirect returns the models that are configured as targets, under their direct names, if their providers have
// direct names enabled. A model that is a target more than once has the settings of the first one, including its
// condition.
func configuredDirect(cfg *config.Config, configured []*Model) (models []*Model, byID map[string]*Model) {
	byID = map[string]*Model{}
	for _, m := range configured {
		for _, t := range m.Targets {
			if p := cfg.Provider(t.Provider); p == nil || !p.Direct || byID[directName(t.Provider, t.Model)] != nil {
				continue
			}
			d := *m
			d.Pricing = t.Pricing
			t.Weight, t.Priority, t.Fallback = 1, 0, false
			d.DisplayName, d.OwnedBy, d.Targets = t.Model, t.Provider, []config.Target{t}
			direct := d.direct()
			models, byID[direct.ID] = append(models, direct), direct
		}
	}
	return models, byID
}
