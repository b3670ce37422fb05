package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// outputFormat is the form that the answer is to have. There are three ways to it, and which one is taken is written here
// and nowhere else:
//
//   - A schema goes into outputConfig.textFormat where the model takes that (the option json_schema).
//   - Otherwise the model is forced to call a tool whose input has the schema. The call is the answer: it is read as text.
//     That cannot go together with tools of the client's or with thinking, and is refused then.
//   - json_object asks for any object. The native form takes no open schema, so that it is a forced tool where the model
//     can be forced; else, and beside tools or thinking, it is an instruction at the end of the system prompt.
type outputFormat struct {
	schema     json.Value // nil: any form
	name       []byte     // the inside of a string
	about      []byte     // the inside of the schema's description
	native     bool
	forced     bool
	instructed bool
}

const (
	// anyObject is the schema for an answer that is to be any JSON object.
	anyObject = `{"type":"object","additionalProperties":true}`

	// outputTool is the tool that stands for an answer without a name.
	outputTool = "json_answer"

	// instruction asks for an object in words.
	instruction = "Answer with one JSON object and nothing else: no words around it and no code fence."
)

// planFormat decides how the answer gets its form. It is called when it is known whether the model thinks.
func (t *translation) planFormat() error {
	kind := t.ResponseFormat.Get("type")
	free := t.Tools.Kind() != json.Array && len(t.called) == 0 && !t.thinks
	switch {
	case !kind.Exists() || kind.Is("text"):
	case kind.Is("json_object"):
		forced := free && !t.o.nativeSchema() && t.o.toolChoice == choiceTool
		t.form = outputFormat{schema: json.Value(anyObject), name: []byte(outputTool), forced: forced, instructed: !forced}
	case kind.Is("json_schema"):
		asked := t.ResponseFormat.Get("json_schema")
		f := outputFormat{schema: asked.Get("schema"), name: asked.Get("name").Inside(), about: asked.Get("description").Inside()}
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
			return sdk.Refuse("response_format", "This model cannot be held to a schema while it thinks.")
		case !free:
			return sdk.Refuse("response_format", "This model cannot be held to a schema and given tools at once.")
		case t.o.toolChoice < choiceTool:
			return sdk.Refuse("response_format", "This model cannot be held to a schema.")
		}
		t.form = f
	default:
		return sdk.Refuse("response_format.type", "This provider has no such form of answer.")
	}
	if t.form.instructed {
		t.r.Warn(abi.WarnChanged, "response_format")
	}
	return nil
}

// writeOutputConfig writes the form of the answer where the model takes one. The schema is a document in a string.
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
	if len(t.form.about) > 0 {
		w.Name("description")
		w.Inside(t.form.about)
	}
	for range 4 {
		w.EndObject()
	}
}

// writeOutputTool writes the tool whose call is the answer.
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
		return translate.Invalid("invalid_value", "response_format.json_schema.schema", "The schema of an answer must be of type object.")
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
