package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// writeTools writes the tools. With the tool_choice allowed_tools, only the allowed tools are written.
func (w *lowering) writeTools() *apierror.Error {
	choice, allowed := w.r.m.toolChoice, jsondoc.Value{}
	if choice.Get("type").Is("allowed_tools") {
		if allowed = choice.Get("tools"); allowed.Kind() != jsondoc.Array {
			return clientapi.Missing(choice, "tools")
		}
		if allowed.Len() > len(w.r.tools) { // bounds the cost of isAllowed
			return clientapi.TooMany(allowed, len(w.r.tools))
		}
	}
	for i := range w.r.tools {
		t := &w.r.tools[i]
		if allowed.Exists() && !isAllowed(t, allowed) || w.redefinedLater(i) {
			continue
		}
		switch t.kind {
		case toolNativeOnly:
			typ := t.v.Get("type")
			return unsupported(typ, "Tools of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
		case toolWebSearch:
			w.warn(abi.WarnDropped, t.v)
			continue
		}
		w.StartTool(t.v)
		w.writeTool(t)
	}
	w.EndTools()
	return nil
}

// redefinedLater reports whether a later additional_tools item defines the tool again. Its cost is quadratic in the
// number of tools, which is limited.
func (w *lowering) redefinedLater(i int) bool {
	t := &w.r.tools[i]
	if t.kind != toolFunction && t.kind != toolCustom || w.r.m.tools.Len() == len(w.r.tools) {
		return false
	}
	for k := i + 1; k < len(w.r.tools); k++ {
		o := &w.r.tools[k]
		if t.name.SameText(o.name) && bytes.Equal(t.namespace.Inside(), o.namespace.Inside()) && (o.kind == toolFunction || o.kind == toolCustom) {
			return true
		}
	}
	return false
}

// isAllowed reports whether a list of allowed tools contains a tool.
func isAllowed(t *tool, allowed jsondoc.Value) bool {
	typ := t.v.Get("type")
	for a := allowed.First(); a.Exists(); a = a.Next() {
		named := t.kind == toolFunction || t.kind == toolCustom
		if a.Get("type").SameText(typ) && (!named || a.Get("name").SameText(t.name)) {
			return true
		}
	}
	return false
}

// writeTool writes a function, or a custom tool as a function.
func (w *lowering) writeTool(t *tool) {
	w.Literal(`{"type":"function","function":{"name":"`)
	w.Dst = appendName(w.Dst, t.namespace, t.name)
	w.Literal(`"`)
	w.writeOptional("description", t.v.Get("description"))
	if t.kind == toolCustom {
		w.Literal(`,"parameters":{"type":"object","properties":{"input":{"type":"string"`)
		if f := t.v.Get("format"); f.Get("definition").Kind() == jsondoc.String {
			w.Literal(`,"description":"Must match this grammar (`)
			w.Inside(f.Get("syntax"))
			w.Literal(`):\n`)
			w.Inside(f.Get("definition"))
			w.Literal(`"`)
		}
		w.Literal(`}},"required":["input"],"additionalProperties":false}}}`)
		return
	}
	if p := t.v.Get("parameters"); clientapi.Given(p) {
		w.Member("parameters", p)
	} else {
		w.Literal(`,"parameters":{"type":"object","properties":{}}`)
	}
	w.writeOptional("strict", t.v.Get("strict"))
	w.Literal("}}")
}

// writeToolChoice writes tool_choice.
func (w *lowering) writeToolChoice(v jsondoc.Value) *apierror.Error {
	if !v.Exists() {
		return nil
	}
	mode := v
	typ := v.Get("type")
	switch {
	case typ.Is("allowed_tools"):
		if mode = v.Get("mode"); !clientapi.Given(mode) {
			return nil
		}
	case typ.Is("function"), typ.Is("custom"):
		if e := clientapi.NeedName(v.Get("name"), v, "name"); e != nil {
			return e
		}
		if w.Tools() == 0 {
			return noTools(v)
		}
		w.Literal(`,"tool_choice":{"type":"function","function":{"name":"`)
		w.Dst = appendName(w.Dst, w.namespaceOf(v.Get("name")), v.Get("name"))
		w.Literal(`"}}`)
		return nil
	case typ.Exists():
		return unsupported(typ, "Tools of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
	}
	switch {
	case mode.Is("required") && w.Tools() == 0:
		return noTools(v)
	case mode.Is("none"), mode.Is("auto"), mode.Is("required"):
		if w.Tools() > 0 {
			w.Member("tool_choice", mode)
		}
		return nil
	}
	e := clientapi.NotOneOf(mode, "none", "auto", "required")
	e.TryNext = true
	return e
}

// noTools returns the error for a tool choice when no tools are left.
func noTools(v jsondoc.Value) *apierror.Error {
	return unsupported(v, "This model's provider supports none of the tools to choose from.")
}

// namespaceOf returns the namespace of the first tool with a name. It returns an absent value if a tool without a
// namespace has that name.
func (w *lowering) namespaceOf(name jsondoc.Value) (namespace jsondoc.Value) {
	for i := range w.r.tools {
		switch t := &w.r.tools[i]; {
		case !t.name.SameText(name):
		case !t.namespace.Exists():
			return jsondoc.Value{}
		case !namespace.Exists():
			namespace = t.namespace
		}
	}
	return namespace
}
