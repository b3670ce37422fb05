package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are the options of a provider, overridden by those of a target: facts about a model, and choices of the
// operator. Unset options follow from the model's family.
type options struct {
	family      family // "family": claude, nova, gpt_oss or other
	familyKnown bool   // the option is set

	adaptive       bool // "adaptive_thinking": the model decides how much it thinks, and rejects a budget
	alwaysThinking bool // "always_thinking": the model always thinks
	highestEffort  int  // "highest_effort": the model's highest effort, as an index in efforts; 0 means high

	schema   translate.Choice // "json_schema": "native" for outputConfig and strict tools, or "tool" for a forced tool
	sampling translate.Choice // "sampling": "both" if the model accepts temperature and top_p together, or "one"
	cache    translate.Choice // "prompt_cache": the model supports cache points

	toolChoice    int        // "tool_choice": the strictest tool choice that the model supports, as an index in toolChoices
	rejectClamped bool       // "out_of_range" = "refuse": a temperature above 1 is rejected instead of clamped
	rejectUnknown bool       // "unknown" = "refuse": a member that the API lacks is rejected instead of dropped
	guardrail     json.Value // "guardrail": the API's guardrailConfig
	latency       []byte     // "latency": the API's performanceConfig.latency, as escaped string content
	fields        json.Value // "fields": more members for additionalModelRequestFields
}

// toolChoices are the kinds of tool choice. A model that supports one also supports those before it. The provider
// documents which models lack the later ones.
var toolChoices = [...]string{"auto", "any", "tool"}

const (
	choiceAny  = 1
	choiceTool = 2
)

// Configure reads the settings of a provider.
func (p *bedrock) Configure(o json.Value) error {
	p.options = options{toolChoice: choiceTool}
	return p.options.read(o)
}

// read overrides o with the members of v.
func (o *options) read(v json.Value) error {
	return translate.Options(v, func(name string, r *json.Reader) (known, ok bool) {
		ok = true
		switch name {
		case "family":
			o.family, ok = parseFamily(r.Text())
			o.familyKnown = ok
		case "adaptive_thinking":
			o.adaptive, ok = r.Bool()
		case "always_thinking":
			o.alwaysThinking, ok = r.Bool()
		case "highest_effort":
			o.highestEffort = findEffort(r.Text())
			ok = o.highestEffort >= effortHigh
		case "json_schema":
			o.schema, ok = translate.Choose(translate.OneOf(r.Text(), "native", "tool"))
		case "sampling":
			o.sampling, ok = translate.Choose(translate.OneOf(r.Text(), "both", "one"))
		case "prompt_cache":
			o.cache, ok = translate.Choose(r.Bool())
		case "tool_choice":
			o.toolChoice, ok = findWord(toolChoices[:], r.Text())
		case "out_of_range":
			o.rejectClamped, ok = translate.OneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.rejectUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
		case "guardrail":
			ok = r.Kind() == json.Object
			o.guardrail = r.Raw()
		case "latency":
			o.latency = r.Inside()
			ok = len(o.latency) > 0
		case "fields":
			ok = r.Kind() == json.Object
			o.fields = r.Raw()
		default:
			return false, false
		}
		return true, ok
	})
}

// applyModelDefaults sets the family by the model's ID unless the option is set.
func (o *options) applyModelDefaults(model []byte) {
	if !o.familyKnown {
		o.family = modelFamily(model)
	}
}

func (o *options) nativeSchema() bool { return o.schema.Or(families[o.family].nativeSchema) }
func (o *options) bothSampling() bool { return o.sampling.Or(!families[o.family].oneSampling) }
func (o *options) cachePoints() bool  { return o.cache.Or(families[o.family].cache) }

func findWord(words []string, text []byte) (i int, ok bool) {
	for i := range words {
		if words[i] == string(text) {
			return i, true
		}
	}
	return 0, false
}
