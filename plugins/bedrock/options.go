package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// options are facts of a model and choices of the operator. They come from the options of a provider and a target. What
// is unset follows from the model's family.
type options struct {
	family      family
	familyKnown bool // "family": claude, nova, gpt_oss or other

	adaptive       bool // "adaptive_thinking": the model decides itself how much it thinks and refuses a budget
	alwaysThinking bool // "always_thinking": the model always thinks
	highestEffort  int  // "highest_effort": the index in efforts of the most that the model knows; 0 is high

	schema   translate.Choice // "json_schema": "native" for outputConfig and strict tools, "tool" for a tool that is forced
	sampling translate.Choice // "sampling": "both" for temperature and top_p together, "one"
	cache    translate.Choice // "prompt_cache": whether the model takes cache points

	toolChoice    int        // "tool_choice": the index in toolChoices of the most that the model takes
	refuseClamped bool       // "out_of_range" = "refuse": a temperature above 1 is a 400 instead of 1
	refuseUnknown bool       // "unknown" = "refuse": a member that the API does not have is a 400 instead of a warning
	guardrail     json.Value // "guardrail": the API's guardrailConfig
	latency       []byte     // "latency": the inside of the API's performanceConfig.latency
	fields        json.Value // "fields": members for additionalModelRequestFields in addition to the plugin's
}

// toolChoices are what a model supports as tool choice; each takes those before it, too. The provider's documents name
// the models that lack the later ones.
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

// read overlays the members of v.
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
			o.refuseClamped, ok = translate.OneOf(r.Text(), "refuse", "clamp")
		case "unknown":
			o.refuseUnknown, ok = translate.OneOf(r.Text(), "refuse", "drop")
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

// applyModelDefaults fills in unset options from the model's name.
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
