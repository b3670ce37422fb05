package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// outputFormat is the response format. There are three ways to enforce it, and planFormat chooses one:
//
//   - A schema goes into outputConfig.textFormat if the model supports that (option json_schema).
//   - Otherwise the model is forced to call a tool whose input has the schema, and the arguments of the call become the
//     text of the response. This is impossible in combination with the client's own tools or with thinking, so such
//     requests are rejected.
//   - json_object requires any JSON object. The native format needs a closed schema, so this is a forced tool as well,
//     if the model supports that; otherwise, and with tools or thinking, it is an instruction at the end of the system
//     prompt.
type outputFormat struct {
	schema      json.Value // anyObject if the client gave none
	name        []byte     // escaped string content
	description []byte     // escaped string content
	native      bool
	forced      bool
	instructed  bool
}

const (
	// anyObject is the schema of an arbitrary JSON object.
	anyObject = `{"type":"object","additionalProperties":true}`

	// outputTool is the name of the schema or forced tool if the client's schema has no valid name.
	outputTool = "json_answer"

	// instruction asks for an object in the system prompt.
	instruction = "Answer with one JSON object and nothing else: no words around it and no code fence."
)

// planFormat decides how the response format is enforced. It must be called after planThinking.
func (t *translation) planFormat() error {
	kind := t.ResponseFormat.Get("type")
	free := t.Tools.Kind() != json.Array && len(t.called) == 0 && !t.thinks
	switch {
	case !kind.Exists() || kind.Is("text"):
	case kind.Is("json_object"):
		forced := free && !t.o.nativeSchema() && t.o.toolChoice == choiceTool
		t.form = outputFormat{schema: json.Value(anyObject), name: []byte(outputTool), forced: forced, instructed: !forced}
	case kind.Is("json_schema"):
		given := t.ResponseFormat.Get("json_schema")
		f := outputFormat{schema: given.Get("schema"), name: given.Get("name").Inside(), description: given.Get("description").Inside()}
		f.native = t.o.nativeSchema()
		if f.schema.Kind() != json.Object {
			f.schema, f.native = json.Value(anyObject), false
		}
		if !validName(f.name) {
			f.name = []byte(outputTool)
		}
		switch f.forced = !f.native; {
		case !f.forced:
		case t.thinks:
			return sdk.Refuse("response_format", "This model does not support a schema together with thinking.")
		case !free:
			return sdk.Refuse("response_format", "This model does not support a schema together with tools.")
		case t.o.toolChoice < choiceTool:
			return sdk.Refuse("response_format", "This model does not support a schema.")
		}
		t.form = f
	default:
		return sdk.Refuse("response_format.type", "This provider does not support this response format.")
	}
	if t.form.instructed {
		t.r.Warn(abi.WarnChanged, "response_format")
	}
	return nil
}

// writeOutputConfig writes the response format if the model supports it. The API expects the schema as a string.
func (t *translation) writeOutputConfig() {
	if !t.form.native {
		return
	}
	w := t.w
	w.Name("outputConfig")
	w.Object()
	w.Name("textFormat")
	w.Object()
	w.Name("type")
	w.String("json_schema")
	w.Name("structure")
	w.Object()
	w.Name("jsonSchema")
	w.Object()
	w.Name("schema")
	w.Text(t.form.schema)
	w.Name("name")
	w.Inside(t.form.name)
	if len(t.form.description) > 0 {
		w.Name("description")
		w.Inside(t.form.description)
	}
	for range 4 {
		w.EndObject()
	}
}

// writeOutputTool writes the forced tool.
func (t *translation) writeOutputTool() error {
	w := t.w
	w.Name("toolConfig")
	w.Object()
	w.Name("tools")
	w.Array()
	w.Object()
	w.Name("toolSpec")
	w.Object()
	w.Name("name")
	w.Inside(t.form.name)
	w.Name("description")
	w.String("Give the answer by calling this tool. Its input is the whole answer.")
	w.Name("inputSchema")
	w.Object()
	w.Name("json")
	if !t.writeSchema(t.form.schema) {
		return translate.Invalid("invalid_value", "response_format.json_schema.schema", "The schema of a response must be of type object.")
	}
	w.EndObject()
	w.EndObject()
	w.EndObject()
	w.EndArray()
	w.Name("toolChoice")
	w.Object()
	w.Name(toolChoices[choiceTool])
	w.Object()
	w.Name("name")
	w.Inside(t.form.name)
	for range 3 {
		w.EndObject()
	}
	return nil
}
