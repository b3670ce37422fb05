package bedrock

import "bytes"

// family is a kind of models that share what the API leaves to its models: how reasoning is requested, what they sign
// their reasoning with, and which of the API's newer members they take.
type family uint8

const (
	other family = iota
	claude
	nova
	gptOSS
)

// families are the facts of each. They are defaults: options say otherwise for a model that differs.
var families = [...]struct {
	name   string
	within string // a part of every id of such a model
	format string // of its reasoning; none is ever replayed to another format

	cache        bool // it takes cache points
	nativeSchema bool // it takes outputConfig.textFormat, and strict tools
	oneSampling  bool // it takes temperature or top_p, not both
}{
	// A signature of Claude is good on every platform that serves it, so that its format has one name everywhere.
	claude: {name: "claude", within: "anthropic.", format: "anthropic-claude-v1", cache: true, oneSampling: true},
	nova:   {name: "nova", within: "amazon.nova", format: "amazon-nova-v1", cache: true},
	gptOSS: {name: "gpt_oss", within: "openai.gpt-oss", format: "openai-gpt-oss-v1", nativeSchema: true},
	other:  {name: "other", within: "", format: "bedrock-converse-v1", nativeSchema: true},
}

// modelFamily is the family of a model by its id, such as us.anthropic.claude-sonnet-4-5-20250929-v1:0. The ARN of an
// inference profile need not tell: then the option family does.
func modelFamily(model []byte) family {
	for f := claude; f <= gptOSS; f++ {
		if bytes.Contains(model, []byte(families[f].within)) {
			return f
		}
	}
	return other
}

// parseFamily is the family of this name; ok is false if there is none.
func parseFamily(name []byte) (f family, ok bool) {
	for f := range families {
		if families[f].name == string(name) {
			return family(f), true
		}
	}
	return other, false
}
