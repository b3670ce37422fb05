package gemini

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

func (c *lowering) int(n int64) { c.dst = strconv.AppendInt(c.dst, n, 10) }

// lowerTools appends the functions that the model may call. Where only some of them may be called, these are
// all that the model gets: not every provider can be told otherwise.
func (r *Request) lowerTools() *apierror.Error {
	c := &r.chat
	mode := string(clientapi.Keyword(r.m.mode, &r.scratch))
	limited := r.m.allowed.Exists() && (mode == "ANY" || mode == "VALIDATED")
	for t := elements(r.m.tools); t.Exists(); t = t.next() {
		for v := t.First(); v.Exists(); v = v.Next() {
			if string(r.fieldName(v)) != "functionDeclarations" && clientapi.Given(v) {
				return unsupported(v, "The provider of this model has no such tool.")
			}
		}
		for v := elements(r.field(t.Value, "functionDeclarations")); v.Exists(); v = v.next() {
			name := r.field(v.Value, "name")
			if limited && !allows(r.m.allowed, name) {
				continue
			}
			if c.tools++; c.tools == 1 {
				c.text(`,"tools":[`)
			} else {
				c.text(",")
			}
			c.origins.tools = append(c.origins.tools, v.Value)
			r.lowerFunction(v.Value, name)
		}
	}
	if c.tools > 0 {
		c.text("]")
	}
	return nil
}

// lowerToolChoice appends whether the model may or must call functions.
func (r *Request) lowerToolChoice() *apierror.Error {
	c := &r.chat
	mode := string(clientapi.Keyword(r.m.mode, &r.scratch))
	if c.tools == 0 {
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
		c.text(`,"tool_choice":"auto"`)
	case "NONE":
		c.text(`,"tool_choice":"none"`)
	case "ANY":
		c.text(`,"tool_choice":"required"`)
	default:
		return unsupported(r.m.mode, "The provider of this model does not support this mode of calling functions.")
	}
	return nil
}

// allows reports whether a list holds a name.
func allows(list, name jsondoc.Value) bool {
	for v := elements(list); v.Exists(); v = v.next() {
		if v.SameText(name) {
			return true
		}
	}
	return false
}

// lowerFunction appends a function. What it returns is for providers of this API.
func (r *Request) lowerFunction(v, name jsondoc.Value) {
	c := &r.chat
	c.text(`{"type":"function","function":{"name":`)
	c.raw(name)
	for m := v.First(); m.Exists(); m = m.Next() {
		switch string(r.fieldName(m)) {
		case "description":
			if m.Kind() == jsondoc.String {
				c.member("description", m)
			}
		case "name", "parameters", "parametersJsonSchema", "response", "responseJsonSchema":
		default:
			r.drop(m)
		}
	}
	c.text(`,"parameters":`)
	schema := r.field(v, "parametersJsonSchema")
	switch parameters := r.field(v, "parameters"); {
	case schema.First().Exists():
		c.raw(schema)
	case parameters.First().Exists():
		r.appendSchema(parameters)
	default:
		c.text(`{"type":"object","properties":{}}`)
	}
	c.text("}}")
}
