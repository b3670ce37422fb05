package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// tools writes the tools, and returns how many. tool_choice allowed_tools becomes a list of only these.
func (w *lowering) tools() (n int, e *apierror.Error) {
	choice, allowed := w.r.m.toolChoice, jsondoc.Value{}
	if choice.Get("type").Is("allowed_tools") {
		if allowed = choice.Get("tools"); allowed.Kind() != jsondoc.Array {
			return 0, clientapi.Missing(choice, "tools")
		}
		if allowed.Len() > len(w.r.tools) { // which bounds the look-ups
			return 0, clientapi.TooMany(allowed, len(w.r.tools))
		}
	}
	for i := range w.r.tools {
		t := &w.r.tools[i]
		if allowed.Exists() && !isAllowed(t, allowed) || w.replaced(i) {
			continue
		}
		switch t.kind {
		case toolNativeOnly:
			typ := t.v.Get("type")
			return 0, unsupported(typ, "Tools of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
		case toolSearch:
			w.warn(abi.WarnDropped, t.v)
			continue
		}
		if n == 0 {
			w.string(`,"tools":[`)
		} else {
			w.string(",")
		}
		w.from(originTool, n, 0, t.v)
		n++
		w.tool(t)
	}
	if n > 0 {
		w.string("]")
	}
	return n, nil
}

// replaced reports whether a tool is defined again later, by an item additional_tools. It takes the square of the number of tools,
// which is limited.
func (w *lowering) replaced(i int) bool {
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

// isAllowed reports whether a list of allowed tools has this one.
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

// tool writes a function, or a custom tool as one.
func (w *lowering) tool(t *tool) {
	w.string(`{"type":"function","function":{"name":"`)
	w.dst = appendName(w.dst, t.namespace, t.name)
	w.string(`"`)
	w.given(`,"description":`, t.v.Get("description"))
	if t.kind == toolCustom {
		w.string(`,"parameters":{"type":"object","properties":{"input":{"type":"string"`)
		if f := t.v.Get("format"); f.Get("definition").Kind() == jsondoc.String {
			w.string(`,"description":"Must match this grammar (`)
			w.inside(f.Get("syntax"))
			w.string(`):\n`)
			w.inside(f.Get("definition"))
			w.string(`"`)
		}
		w.string(`}},"required":["input"],"additionalProperties":false}}}`)
		return
	}
	if p := t.v.Get("parameters"); clientapi.Given(p) {
		w.member(`,"parameters":`, p)
	} else {
		w.string(`,"parameters":{"type":"object","properties":{}}`)
	}
	w.given(`,"strict":`, t.v.Get("strict"))
	w.string("}}")
}

// choice writes tool_choice, for n tools.
func (w *lowering) choice(v jsondoc.Value, n int) *apierror.Error {
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
		if n == 0 {
			return noTools(v)
		}
		w.string(`,"tool_choice":{"type":"function","function":{"name":"`)
		w.dst = appendName(w.dst, w.namespaceOf(v.Get("name")), v.Get("name"))
		w.string(`"}}`)
		return nil
	case typ.Exists():
		return unsupported(typ, "Tools of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
	}
	switch {
	case mode.Is("required") && n == 0:
		return noTools(v)
	case mode.Is("none"), mode.Is("auto"), mode.Is("required"):
		if n > 0 {
			w.member(`,"tool_choice":`, mode)
		}
		return nil
	}
	e := clientapi.NotOneOf(mode, "none", "auto", "required")
	e.TryNext = true
	return e
}

// noTools is the error for a choice among no tools.
func noTools(v jsondoc.Value) *apierror.Error {
	return unsupported(v, "There is no tool to choose that this model's provider supports.")
}

// namespaceOf returns the namespace of the tool with a name that no tool outside of namespaces has.
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
