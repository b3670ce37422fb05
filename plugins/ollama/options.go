package ollama

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are the options of a provider, overridden by those of a target: choices of the operator, and facts about a
// model.
type options struct {
	model     json.Value // "options": the model's options such as num_ctx, overridden by those of a request
	keepAlive json.Value // "keep_alive": how long the model stays loaded, unless the client sets it
	truncate  json.Value // "truncate" = false: a conversation that is too long is an error
	shift     json.Value // "shift" = false: a response ends when the context is full

	noLevels      bool // "think_levels" = false: the model's thinking has no levels
	maxLevel      bool // "highest_effort" = "max": the model has a level above high
	rejectUnknown bool // "unknown" = "refuse": a member that the API lacks is rejected instead of dropped
}

// Configure reads the settings of a provider.
func (p *ollama) Configure(o json.Value) error {
	p.settings = options{}
	return p.settings.read(o)
}

// read overrides o with the members of v.
func (o *options) read(v json.Value) error {
	return translate.Options(v, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "options":
			ok = r.Kind() == json.Object
			o.model = r.Raw()
		case "keep_alive":
			ok = r.Kind() == json.String || r.Kind() == json.Number
			o.keepAlive = r.Raw()
		case "truncate":
			ok = r.Kind() == json.Bool
			o.truncate = r.Raw()
		case "shift":
			ok = r.Kind() == json.Bool
			o.shift = r.Raw()
		case "think_levels":
			var levels bool
			levels, ok = r.Bool()
			o.noLevels = !levels
		case "highest_effort":
			o.maxLevel, ok = translate.OneOf(r.Text(), "max", "high")
		case "unknown":
			o.rejectUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
		default:
			return false, false
		}
		return true, ok
	})
}
