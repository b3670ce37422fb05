package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// lowerTools appends the functions that the model may call. If allowedFunctionNames limits them, the others are left
// out, because not every provider supports such a limit.
func (r *Request) lowerTools() *apierror.Error {
	c := &r.chat
	mode := string(clientapi.Keyword(r.m.mode, &r.scratch))
	limited := r.m.allowed.Exists() && (mode == "ANY" || mode == "VALIDATED")
	for t := elements(r.m.tools); t.Exists(); t = t.next() {
		for v := t.First(); v.Exists(); v = v.Next() {
			if string(r.fieldName(v)) != "functionDeclarations" && clientapi.Given(v) {
				return unsupported(v, "The provider of this model does not support this tool.")
			}
		}
		for v := elements(r.field(t.Value, "functionDeclarations")); v.Exists(); v = v.next() {
			name := r.field(v.Value, "name")
			if limited && !containsName(r.m.allowed, name) {
				continue
			}
			c.StartTool(v.Value)
			r.lowerFunction(v.Value, name)
		}
	}
	c.EndTools()
	return nil
}

// lowerToolChoice appends tool_choice, if there are functions.
func (r *Request) lowerToolChoice() *apierror.Error {
	c := &r.chat
	mode := string(clientapi.Keyword(r.m.mode, &r.scratch))
	if c.Tools() == 0 {
		if mode == "ANY" {
			return unsupported(r.m.mode, "The request has no function that the model may call.")
		}
		return nil
	}
	if retrieval := r.field(r.m.toolConfig, "retrievalConfig"); retrieval.Exists() {
		r.drop(retrieval)
	}
	switch mode {
	case "", "MODE_UNSPECIFIED":
	case "AUTO", "VALIDATED":
		c.Literal(`,"tool_choice":"auto"`)
	case "NONE":
		c.Literal(`,"tool_choice":"none"`)
	case "ANY":
		c.Literal(`,"tool_choice":"required"`)
	default:
		return unsupported(r.m.mode, "The provider of this model does not support this function calling mode.")
	}
	return nil
}

// containsName reports whether a list contains a name.
func containsName(list, name jsondoc.Value) bool {
	for v := elements(list); v.Exists(); v = v.next() {
		if v.SameText(name) {
			return true
		}
	}
	return false
}

// lowerFunction appends a function. The schema of its response is left out, because only this API has one.
func (r *Request) lowerFunction(v, name jsondoc.Value) {
	c := &r.chat
	c.Literal(`{"type":"function","function":{"name":`)
	c.Raw(name)
	for m := v.First(); m.Exists(); m = m.Next() {
		switch string(r.fieldName(m)) {
		case "description":
			if m.Kind() == jsondoc.String {
				c.Member("description", m)
			}
		case "name", "parameters", "parametersJsonSchema", "response", "responseJsonSchema":
		default:
			r.drop(m)
		}
	}
	c.Literal(`,"parameters":`)
	schema := r.field(v, "parametersJsonSchema")
	switch parameters := r.field(v, "parameters"); {
	case schema.First().Exists():
		c.Raw(schema)
	case parameters.First().Exists():
		r.appendSchema(parameters)
	default:
		c.Literal(`{"type":"object","properties":{}}`)
	}
	c.Literal("}}")
}
