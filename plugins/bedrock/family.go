package bedrock

import "bytes"

// family is a family of models with the same behavior in what the Converse API does not unify: how reasoning is
// requested and signed, and which of the API's newer members are supported.
type family uint8

const (
	other family = iota
	claude
	nova
	gptOSS
)

// families describes each family. Options override these properties for a model that differs.
var families = [...]struct {
	name   string
	idPart string // substring of the IDs of all its models
	format string // format of its reasoning, which is only replayed to models with the same format

	cache        bool // supports cache points
	nativeSchema bool // supports outputConfig.textFormat and strict tools
	oneSampling  bool // accepts temperature or top_p, but not both
}{
	// The format of Claude has the same name on all platforms, because all of them accept its signatures.
	claude: {name: "claude", idPart: "anthropic.", format: "anthropic-claude-v1", cache: true, oneSampling: true},
	nova:   {name: "nova", idPart: "amazon.nova", format: "amazon-nova-v1", cache: true},
	gptOSS: {name: "gpt_oss", idPart: "openai.gpt-oss", format: "openai-gpt-oss-v1", nativeSchema: true},
	other:  {name: "other", idPart: "", format: "bedrock-converse-v1", nativeSchema: true},
}

// modelFamily returns the family of a model by its ID, such as us.anthropic.claude-sonnet-4-5-20250929-v1:0. The ARN of
// an inference profile may not reveal it; such a model needs the option family.
func modelFamily(model []byte) family {
	for f := claude; f <= gptOSS; f++ {
		if bytes.Contains(model, []byte(families[f].idPart)) {
			return f
		}
	}
	return other
}

// parseFamily returns the family with a name. ok is false if there is none.
func parseFamily(name []byte) (f family, ok bool) {
	for f := range families {
		if families[f].name == string(name) {
			return family(f), true
		}
	}
	return other, false
}
