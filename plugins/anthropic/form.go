package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// outputFormat is the response format. There are three ways to enforce it, and planFormat chooses one:
//
//   - A schema goes into output_config.format if the model supports that (option json_schema).
//   - Otherwise the model is forced to call a tool whose input has the schema, and the arguments of the call become the
//     text of the response. This is impossible in combination with the client's own tools or with thinking, so such
//     requests are rejected.
//   - json_object requires any JSON object. The native format needs a closed schema, so this is a forced tool as well;
//     with tools or thinking it is an instruction at the end of the system prompt instead.
type outputFormat struct {
	schema     json.Value // anyObject if the client gave none
	name       []byte     // escaped string content
	native     bool
	forced     bool
	instructed bool
}

const (
	// anyObject is the schema of an arbitrary JSON object.
	anyObject = `{"type":"object","additionalProperties":true}`

	// outputTool is the name of the forced tool if the schema has no valid name.
	outputTool = "json_answer"

	// instruction asks for an object in the system prompt.
	instruction = "Answer with one JSON object and nothing else: no words around it and no code fence."
)

// planFormat decides how the response format is enforced. It must be called after planThinking.
func (t *translation) planFormat() error {
	kind := t.responseFormat.Get("type")
	free := t.tools.Kind() != json.Array && !t.thinks
	switch {
	case !kind.Exists() || kind.Is("text"):
	case kind.Is("json_object"):
		t.form = outputFormat{schema: json.Value(anyObject), name: []byte(outputTool), forced: free, instructed: !free}
	case kind.Is("json_schema"):
		asked := t.responseFormat.Get("json_schema")
		f := outputFormat{schema: asked.Get("schema"), name: asked.Get("name").Inside(), native: t.o.nativeSchema}
		if f.schema.Kind() != json.Object {
			f.schema, f.native = json.Value(anyObject), false
		}
		if !translate.ValidName(f.name) {
			f.name = []byte(outputTool)
		}
		if f.forced = !f.native; f.forced && !free {
			if t.thinks {
				return sdk.Refuse("response_format", "This model does not support a schema together with thinking.")
			}
			return sdk.Refuse("response_format", "This model does not support a schema together with tools.")
		}
		t.form = f
	default:
		return sdk.Refuse("response_format.type", "This provider does not support this response format.")
	}
	return nil
}

// writeOutputConfig writes the effort, and the response format if the model supports it.
func (t *translation) writeOutputConfig(effort string) {
	if effort == "" && !t.form.native {
		return
	}
	w := t.w
	w.Name("output_config")
	w.Object()
	if effort != "" {
		w.Name("effort")
		w.String(effort)
	}
	if t.form.native {
		w.Name("format")
		w.Object()
		w.Name("type")
		w.String("json_schema")
		w.Name("schema")
		w.Raw(t.form.schema)
		w.EndObject()
	}
	w.EndObject()
}

// writeOutputTool writes the tool whose call is the response.
func (t *translation) writeOutputTool() {
	w := t.w
	w.Name("tools")
	w.Array()
	w.Object()
	w.Name("name")
	w.Inside(t.form.name)
	w.Name("description")
	w.String("Give the answer by calling this tool. Its input is the whole answer.")
	w.Name("input_schema")
	t.writeSchema(t.form.schema)
	w.EndObject()
	w.EndArray()
}
