package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are choices of the operator and facts of a model. They come from the options of a provider and a target.
type options struct {
	refuseOutOfRange bool   // "out_of_range" = "refuse": a number that the API does not take is a 400 instead of the nearest one
	refuseUnknown    bool   // "unknown" = "refuse": a member that the API does not have is a 400 instead of a warning
	inputType        string // "input_type": of texts to embed, where the client says nothing; empty is search_document
	noThinking       bool   // "replay_thinking" = false: the model takes no reasoning of earlier assistant messages
}

// Configure reads the settings of a provider.
func (p *cohere) Configure(o json.Value) error {
	p.settings = options{}
	return p.settings.read(o)
}

// read overlays the members of v.
func (o *options) read(v json.Value) error {
	return translate.Options(v, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "out_of_range":
			o.refuseOutOfRange, ok = translate.OneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.refuseUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
		case "input_type":
			o.inputType = string(r.Text())
			ok = len(o.inputType) > 0
		case "replay_thinking":
			var replay bool
			replay, ok = r.Bool()
			o.noThinking = !replay
		default:
			return false, false
		}
		return true, ok
	})
}
