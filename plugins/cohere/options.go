package cohere

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are choices of the operator and facts of a model. They come from the options of a provider and a target.
type options struct {
	refuseOutOfRange bool // "out_of_range" = "refuse": a number that the API does not take is a 400 instead of the nearest one
	refuseUnknown    bool // "unknown" = "refuse": a member that the API has no place for is a 400 instead of a warning
	noThinking       bool // "replay_thinking" = false: the model takes no reasoning of earlier answers
}

// Configure reads the settings of a provider.
func (p *cohere) Configure(o json.Value) error {
	p.settings = options{}
	return p.settings.read(o)
}

// read puts the members of v over what is there.
func (o *options) read(v json.Value) error {
	var r json.Reader
	r.Reset(v)
	for m := r.Object(); m.Next(); {
		ok := true
		switch name := string(r.Name()); name {
		case "out_of_range":
			o.refuseOutOfRange, ok = oneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.refuseUnknown, ok = oneOf(r.Text(), "refuse", "drop")
		case "replay_thinking":
			var replay bool
			replay, ok = r.Bool()
			o.noThinking = !replay
		default:
			return errors.New("unknown option " + name)
		}
		if !ok {
			return errors.New("option " + string(r.Name()) + " has a value that it cannot have")
		}
	}
	return r.End()
}

// oneOf says which of two words a text is; ok is false if it is neither.
func oneOf(text []byte, yes, no string) (value, ok bool) {
	switch string(text) {
	case yes:
		return true, true
	case no:
		return false, true
	}
	return false, false
}
