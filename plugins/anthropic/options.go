package anthropic

import (
	"errors"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// defaultMaxTokens is asked for where neither the client nor the configuration names a number: the API demands one.
const defaultMaxTokens = 4096

// options are facts of a model and choices of the operator. They come from the options of a provider and a target; the
// zero value holds for every model of the API, at the price of the newest abilities.
type options struct {
	version string // the header anthropic-version
	beta    string // the header anthropic-beta; empty: none

	// "betas": which of a Messages client's words for that header are sent on; a * at the end stands for anything. nil: all, and
	// on a cloud those that it takes.
	betas  []string
	noList bool   // "list" = false: the upstream has no list of models
	format string // "reasoning_format": reasoning in another format is never sent to the upstream

	cloud             cloud  // "api": whose API it is
	project, location string // of Vertex AI; needed there

	adaptive       bool // "adaptive_thinking": the model decides itself how much it thinks and refuses a budget
	alwaysThinking bool // "always_thinking": the model always thinks
	highestEffort  int  // "highest_effort": the index in efforts of the most that the model knows; 0 is high
	nativeSchema   bool // "json_schema" = "native": the model takes output_config.format, and strict tools
	bothSampling   bool // "sampling" = "both": the model takes temperature and top_p together
	refuseClamped  bool // "out_of_range" = "refuse": a temperature above 1 is a 400 instead of 1
	refuseUnknown  bool // "unknown" = "refuse": a member that the API does not have is a 400 instead of a warning
}

// settings are the options of the provider, and what they become with those of its targets. Requests for a target come
// with the same options again and again.
type settings struct {
	options options
	merged  [4]merged
	oldest  int // of merged
}

// merged is the provider's options with those of a target over them.
type merged struct {
	written []byte // the target's, as they were read; nil in one that is not in use
	options options
}

// with returns the options with those of a target over them. They are valid until the next call.
func (s *settings) with(v json.Value) (*options, error) {
	for i := range s.merged {
		if m := &s.merged[i]; m.written != nil && string(m.written) == string(v) {
			return &m.options, nil
		}
	}
	o := s.options
	if err := o.read(v); err != nil {
		return nil, err
	}
	m := &s.merged[s.oldest]
	s.oldest = (s.oldest + 1) % len(s.merged)
	m.written, m.options = append(m.written[:0], v...), o
	return &m.options, nil
}

// Configure reads the settings of a provider.
func (p *anthropic) Configure(o json.Value) error {
	p.settings = settings{options: options{version: "2023-06-01", format: format}}
	if err := p.settings.options.read(o); err != nil {
		return err
	}
	if own := &p.settings.options; own.cloud == vertex && (own.project == "" || own.location == "") {
		return errors.New("api \"vertex\" requires the options project and location")
	}
	return nil
}

// read overlays the members of o.
func (o *options) read(v json.Value) error {
	return translate.Options(v, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "version":
			text := r.Text()
			ok = len(text) > 0
			o.version = string(text)
		case "beta":
			text := r.Text()
			ok = text != nil
			o.beta = string(text)
		case "betas":
			ok = r.Kind() == json.Array
			o.betas = []string{}
			for a := r.Array(); a.Next(); {
				text := r.Text()
				ok = ok && len(text) > 0
				o.betas = append(o.betas, string(text))
			}
		case "reasoning_format":
			text := r.Text()
			ok = len(text) > 0
			o.format = string(text)
		case "list":
			var list bool
			list, ok = r.Bool()
			o.noList = !list
		case "api":
			o.cloud, ok = findCloud(r.Text())
		case "project":
			o.project = string(r.Text())
			ok = plainID([]byte(o.project))
		case "location":
			o.location = string(r.Text())
			ok = plainID([]byte(o.location))
		case "adaptive_thinking":
			o.adaptive, ok = r.Bool()
		case "always_thinking":
			o.alwaysThinking, ok = r.Bool()
		case "highest_effort":
			o.highestEffort = findEffort(r.Text())
			ok = o.highestEffort >= effortHigh
		case "json_schema":
			o.nativeSchema, ok = translate.OneOf(r.Text(), "native", "tool")
		case "sampling":
			o.bothSampling, ok = translate.OneOf(r.Text(), "both", "one")
		case "out_of_range":
			o.refuseClamped, ok = translate.OneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.refuseUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
		default:
			return false, false
		}
		return true, ok
	})
}
