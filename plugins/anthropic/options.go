package anthropic

import (
	"errors"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// defaultMaxTokens is sent if neither the client nor the configuration sets a limit, because the API requires one.
const defaultMaxTokens = 4096

// options are the options of a provider, overridden by those of a target: facts about a model, and choices of the
// operator. The zero value works with every model of the API, without the newest features.
type options struct {
	version string // the anthropic-version header
	beta    string // the anthropic-beta header; empty for none

	// "betas": the values of a Messages client's anthropic-beta header that are sent on; a trailing * matches any
	// suffix. nil means all, or on a cloud the ones that it accepts.
	betas  []string
	noList bool   // "list" = false: the upstream has no model list
	format string // "reasoning_format": reasoning in any other format is not sent to the upstream

	threads bool // "threads": the upstream holds message threads

	cloud             cloud  // "api": the host of the API
	project, location string // of Vertex AI, where they are required

	adaptive       bool // "adaptive_thinking": the model decides how much it thinks, and rejects a budget
	alwaysThinking bool // "always_thinking": the model always thinks
	highestEffort  int  // "highest_effort": the model's highest effort, as an index in efforts; 0 means high
	nativeSchema   bool // "json_schema" = "native": the model supports output_config.format and strict tools
	bothSampling   bool // "sampling" = "both": the model accepts temperature and top_p together
	rejectClamped  bool // "out_of_range" = "refuse": a temperature above 1 is rejected instead of clamped
	rejectUnknown  bool // "unknown" = "refuse": a member that the API lacks is rejected instead of dropped
}

// settings are the provider's options, and a cache of the merged options of its targets, since requests for a target
// always have the same options.
type settings struct {
	options options
	merged  [4]merged
	oldest  int // index in merged of the entry to replace next
}

// merged is a cache entry: the provider's options, overridden by a target's.
type merged struct {
	written []byte // the target's options as JSON; nil if the entry is unused
	options options
}

// merge returns the provider's options overridden by a target's. They are valid until the next call.
func (s *settings) merge(v json.Value) (*options, error) {
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

// read overrides o with the members of v.
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
		case "threads":
			o.threads, ok = r.Bool()
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
			o.rejectClamped, ok = translate.OneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.rejectUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
		default:
			return false, false
		}
		return true, ok
	})
}
