package catalog

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Model is a model that clients can request. It is immutable.
type Model struct {
	ID               string
	DisplayName      string
	OwnedBy          string
	Created          int64 // Unix seconds; 0 if unknown
	Pricing          config.Pricing
	MaxTokens        int64           // 0 if unknown
	DefaultMaxTokens int64           // 0 if unset
	MaxImageTokens   int64           // 0 if unknown
	TokensPerByte    float64         // maximum tokens of a byte of a prompt's text; 0 means 1
	Thinking         bool            // thinking may be requested; also true if a list does not say
	Kinds            config.Kinds    // kinds of requests that the model serves; all if a list does not say
	Targets          []config.Target // targets whose provider is on; at least one
	Listed           bool            // the model is from a provider's list, not from the configuration
	Own              string          // the provider's name for the model if ID is a direct name, otherwise ""
	Direct           *Model          // the same model under its direct name; nil if it has none, or if ID is one

	json []byte
}

// Listed is a model in a provider's list, in the JSON that the plugin returns. All members but id are optional.
type Listed struct {
	ID          string   `json:"id"` // the provider's name for the model
	DisplayName string   `json:"display_name"`
	OwnedBy     string   `json:"owned_by"`
	Created     int64    `json:"created"` // Unix seconds
	Pricing     *Price   `json:"pricing"`
	MaxTokens   int64    `json:"max_tokens"`
	Thinking    *bool    `json:"thinking"`
	Kinds       []string `json:"kinds"`
}

// Price is in US dollars per million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// kinds returns the listed kinds except unsupported ones. known is false if the list names none.
func (l *Listed) kinds() (kinds config.Kinds, known bool) {
	for _, name := range l.Kinds {
		kinds |= config.ParseKind(name)
	}
	return kinds, len(l.Kinds) > 0
}

// pricing returns the listed prices. They count as unknown if one of them is invalid.
func (l *Listed) pricing() config.Pricing {
	if l.Pricing == nil {
		return config.Pricing{}
	}
	rates := cost.NoRates()
	var inputOK, outputOK bool
	rates[cost.Input], inputOK = cost.RoundPrice(l.Pricing.Input)
	rates[cost.Output], outputOK = cost.RoundPrice(l.Pricing.Output)
	if !inputOK || !outputOK {
		return config.Pricing{}
	}
	return config.Pricing{Input: l.Pricing.Input, Output: l.Pricing.Output, Known: true, Prices: cost.New(rates), Source: config.PricesListed}
}

// configuredModels returns the configured models that have a target whose provider is on.
func configuredModels(cfg *config.Config) []*Model {
	var out []*Model
	for i := range cfg.Models {
		c := &cfg.Models[i]
		if c.Off != "" {
			continue
		}
		m := &Model{
			ID: c.ID, DisplayName: c.DisplayName, OwnedBy: c.OwnedBy, Created: c.Created, Pricing: c.Pricing,
			MaxTokens: c.MaxTokens, DefaultMaxTokens: c.DefaultMaxTokens, MaxImageTokens: c.MaxImageTokens, TokensPerByte: c.TokensPerByte, Thinking: c.Thinking,
			Kinds: c.Kinds,
		}
		for _, t := range c.Targets {
			if p := cfg.Provider(t.Provider); p != nil && p.Off == "" {
				m.Targets = append(m.Targets, t)
			}
		}
		m.json = m.render(true, true)
		out = append(out, m)
	}
	return out
}

const (
	maxListed = 20000 // maximum number of models of one provider
	maxID     = 256   // maximum length of an id, in bytes
)

// listedModels returns the models of a provider's list, sorted by id. It omits models with an invalid id and those that
// the configuration does not select.
func listedModels(cfg *config.Config, p *config.Provider, list []Listed) []*Model {
	out := make([]*Model, 0, min(len(list), maxListed))
	for i := range list {
		l := &list[i]
		if !validID(l.ID) || !selected(p, l.ID) || len(out) == maxListed {
			continue
		}
		pricing := cfg.PricingOf(p, l.ID, l.pricing())
		m := &Model{
			ID: l.ID, DisplayName: cmp.Or(l.DisplayName, l.ID), OwnedBy: cmp.Or(l.OwnedBy, p.Name), Created: max(l.Created, 0),
			Pricing: pricing, MaxTokens: max(l.MaxTokens, 0), Thinking: l.Thinking == nil || *l.Thinking, Listed: true,
			Targets: []config.Target{{Provider: p.Name, Model: l.ID, Weight: 1, Options: p.Options, Pricing: pricing}},
		}
		kinds, known := l.kinds()
		if m.Kinds = kinds; !known {
			m.Kinds = config.AllKinds
		}
		m.json = m.render(l.Thinking != nil, known)
		if p.ListModels.Direct {
			m.Direct = m.direct()
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b *Model) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b *Model) bool { return a.ID == b.ID })
}

// selected reports whether the provider's configuration selects a listed model.
func selected(p *config.Provider, id string) bool {
	return len(p.ListModels.Only) == 0 || slices.ContainsFunc(p.ListModels.Only, func(g config.Glob) bool { return g.Match(id) })
}

// validID reports whether an id can be used in a path and a header.
func validID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// render returns the model's JSON for clients. It always contains both prices; if they are unknown, they are 0 and
// "pricing_known" is false. "thinking" and "kinds" are omitted if they are unknown, and "kinds" also if it is chat
// only.
func (m *Model) render(thinkingKnown, kindsKnown bool) []byte {
	b := appendString([]byte(`{"id":`), m.ID)
	b = strconv.AppendInt(append(b, `,"object":"model","created":`...), m.Created, 10)
	b = appendString(append(b, `,"owned_by":`...), m.OwnedBy)
	b = appendString(append(b, `,"display_name":`...), m.DisplayName)
	b = strconv.AppendFloat(append(b, `,"pricing":{"input":`...), m.Pricing.Input, 'f', -1, 64)
	b = strconv.AppendFloat(append(b, `,"output":`...), m.Pricing.Output, 'f', -1, 64)
	b = append(b, '}')
	if !m.Pricing.Known {
		b = append(b, `,"pricing_known":false`...)
	}
	if m.MaxTokens > 0 {
		b = strconv.AppendInt(append(b, `,"max_tokens":`...), m.MaxTokens, 10)
	}
	if thinkingKnown {
		b = strconv.AppendBool(append(b, `,"thinking":`...), m.Thinking)
	}
	if kindsKnown && m.Kinds != config.KindChat {
		b = append(b, `,"kinds":[`...)
		for i, name := range m.Kinds.Names() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, name)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	// Marshalling a string cannot fail.
	q, _ := json.Marshal(s)
	return append(b, q...)
}

// AppendModel appends the model's JSON.
func AppendModel(dst []byte, m *Model) []byte { return append(dst, m.json...) }

// AppendList appends the JSON of a list of models.
func AppendList(dst []byte, models []*Model) []byte {
	size := len(dst) + len(`{"object":"list","data":[]}`)
	for _, m := range models {
		size += len(m.json) + 1
	}
	dst = slices.Grow(dst, size-len(dst))
	dst = append(dst, `{"object":"list","data":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.json...)
	}
	return append(dst, ']', '}')
}
