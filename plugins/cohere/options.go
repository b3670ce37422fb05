package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are the options of a provider, overridden by those of a target: choices of the operator, and facts about a
// model.
type options struct {
	rejectOutOfRange bool   // "out_of_range" = "refuse": a number outside the API's range is rejected instead of clamped
	rejectUnknown    bool   // "unknown" = "refuse": a member that the API lacks is rejected instead of dropped
	inputType        string // "input_type": default for embeddings; empty means search_document
	noThinking       bool   // "replay_thinking" = false: the model accepts no reasoning in earlier assistant messages
}

// Configure reads the settings of a provider.
func (p *cohere) Configure(o json.Value) error {
	p.settings = options{}
	return p.settings.read(o)
}

// read overrides o with the members of v.
func (o *options) read(v json.Value) error {
	return translate.Options(v, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "out_of_range":
			o.rejectOutOfRange, ok = translate.OneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.rejectUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
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
