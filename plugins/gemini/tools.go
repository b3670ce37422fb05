package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// nameRule is the rule for the names of functions. The length is what older models accept:
// https://ai.google.dev/api/caching#FunctionDeclaration,
// https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/FunctionDeclaration
var nameRule = translate.NameRule{Max: 64, Others: "-.:"}

// writeTools writes the tools.
func (t *translation) writeTools() error {
	w := t.w
	some := t.Tools.Kind() == json.Array
	if !some && !t.search {
		return nil
	}
	w.Name("tools")
	w.Array()
	if some {
		w.Object()
		w.Name("functionDeclarations")
		w.Array()
		var r json.Reader
		r.Reset(t.Tools)
		for a, n := r.Array(), 0; a.Next(); n++ {
			if err := t.writeTool(&r, n); err != nil {
				return err
			}
		}
		w.EndArray()
		w.EndObject()
	}
	if t.search {
		w.Raw([]byte(`{"googleSearch":{}}`))
	}
	w.EndArray()
	return nil
}

func (t *translation) writeTool(r *json.Reader, n int) error {
	var kind, name, description []byte
	var parameters json.Value
	strict := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					name = r.Inside()
				case "description":
					description = r.Inside()
				case "parameters":
					parameters = r.Raw()
				case "strict":
					strict, _ = r.Bool()
				}
			}
		}
	}
	param := "tools[" + translate.Itoa(n) + "]"
	if string(kind) != "function" {
		return sdk.Refuse(param+".type", "This provider supports only tools of type function.")
	}
	t.warnDropped(strict, "tools[].function.strict")
	w := t.w
	w.Object()
	w.Name("name")
	w.Inside(t.names.Fit(name))
	if len(description) > 0 {
		w.Name("description")
		w.Inside(description)
	}
	switch {
	case !hasParameters(parameters):
	case t.o.openAPI:
		w.Name("parameters")
		if err := t.writeReduced(parameters, param+".function.parameters"); err != nil {
			return err
		}
	default:
		w.Name("parametersJsonSchema")
		w.Raw(parameters)
	}
	w.EndObject()
	return nil
}

// hasParameters reports whether a schema allows any parameter. If not, the provider requires that the schema is absent.
func hasParameters(schema json.Value) bool {
	var r json.Reader
	r.Reset(schema)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type", "required", "title", "description", "$schema", "$id", "$defs", "definitions":
		case "additionalProperties":
			if allowed, ok := r.Bool(); allowed || !ok {
				return true
			}
		case "properties":
			for o := r.Object(); o.Next(); {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// writeToolConfig writes the tool choice. It is written after the contents because it may differ between two turns.
func (t *translation) writeToolConfig() error {
	if t.Tools.Kind() != json.Array {
		return nil
	}
	mode := ""
	var name []byte
	var allowed json.Value
	switch {
	case t.ToolChoice.Is("auto"):
		mode = "AUTO"
	case t.ToolChoice.Is("none"):
		mode = "NONE"
	case t.ToolChoice.Is("required"):
		mode = "ANY"
	case t.ToolChoice.Get("type").Is("allowed_tools"):
		// allowed_tools restricts the tools, whether or not one must be called. The mode VALIDATED is AUTO with such a
		// list.
		list := t.ToolChoice.Get("allowed_tools")
		allowed = list.Get("tools")
		if mode = "VALIDATED"; list.Get("mode").Is("required") {
			mode = "ANY"
		}
	case t.ToolChoice.Kind() == json.Object:
		if name = t.ToolChoice.Get("function").Get("name").Inside(); name == nil {
			return sdk.Refuse("tool_choice", "This provider does not support this tool_choice.")
		}
		mode = "ANY"
	}
	streamed := t.o.streamArguments && t.o.vertex && t.r.Stream
	if mode == "" && !streamed {
		return nil
	}
	w := t.w
	w.Name("toolConfig")
	w.Object()
	w.Name("functionCallingConfig")
	w.Object()
	if mode != "" {
		w.Name("mode")
		w.String(mode)
	}
	if name != nil || allowed.Exists() {
		w.Name("allowedFunctionNames")
		w.Array()
		if name != nil {
			w.Inside(t.names.Fit(name))
		}
		var r json.Reader
		r.Reset(allowed)
		for a := r.Array(); a.Next(); {
			inside := json.Value(r.Raw()).Get("function").Get("name").Inside()
			if inside == nil {
				return sdk.Refuse("tool_choice", "This provider supports only tools of type function.")
			}
			w.Inside(t.names.Fit(inside))
		}
		w.EndArray()
	}
	if streamed {
		w.Name("streamFunctionCallArguments")
		w.Bool(true)
	}
	w.EndObject()
	w.EndObject()
	return nil
}
