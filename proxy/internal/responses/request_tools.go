package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// tool is a tool of the request, of an additional_tools item or of a namespace.
type tool struct {
	v         jsondoc.Value
	name      jsondoc.Value
	namespace jsondoc.Value // the name of the namespace that the tool belongs to
	kind      toolKind
}

// toolKind determines how AppendChat handles a tool.
type toolKind uint8

const (
	toolNativeOnly toolKind = iota // supported only by providers of this API
	toolFunction
	toolCustom
	toolWebSearch // dropped with a warning, because some clients add it to every request
)

// Tool is a tool whose name or type in the chat completions request differs from the client's. The names are still
// escaped: the inside of JSON strings.
type Tool struct {
	Called          []byte // the name in the chat completions request
	Namespace, Name []byte // the name in the client's request; Namespace may be empty
	Custom          bool   // a custom tool: the arguments of its calls are an object with the string input
}

// readTools checks an optional list of tools.
func (r *Request) readTools(list jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckObjects(list); e != nil {
		return e
	}
	for v := list.First(); v.Exists(); v = v.Next() {
		if e := r.readTool(list, v, jsondoc.Value{}); e != nil {
			return e
		}
	}
	if r.facts.Tools > 0 {
		r.facts.Flags |= clientapi.FlagTools
	}
	return nil
}

// readTool checks a tool of a list. namespace is absent for a tool that is not part of a namespace.
func (r *Request) readTool(list, v, namespace jsondoc.Value) *apierror.Error {
	typ := v.Get("type")
	if e := clientapi.NeedString(typ, v, "type"); e != nil {
		return e
	}
	t := tool{v: v, name: v.Get("name"), namespace: namespace}
	word := string(r.keyword(typ))
	switch word {
	case "function":
		t.kind = toolFunction
	case "custom":
		t.kind = toolCustom
	case "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11":
		t.kind = toolWebSearch
	case "namespace":
		if !namespace.Exists() {
			return r.readNamespace(v, t.name)
		}
	}
	if r.facts.Tools++; r.facts.Tools > r.limits.Tools {
		return clientapi.TooMany(list, r.limits.Tools)
	}
	r.tools = append(r.tools, t)
	if t.kind != toolFunction && t.kind != toolCustom {
		return nil
	}
	if e := clientapi.NeedName(t.name, v, "name"); e != nil {
		return e
	}
	if e := clientapi.CheckString(v.Get("description")); e != nil {
		return e
	}
	if t.kind == toolCustom {
		return clientapi.CheckObject(v.Get("format"))
	}
	if e := clientapi.CheckObject(v.Get("parameters")); e != nil {
		return e
	}
	_, e := clientapi.CheckBool(v.Get("strict"))
	return e
}

// readNamespace checks the tools of a namespace.
func (r *Request) readNamespace(v, name jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedName(name, v, "name"); e != nil {
		return e
	}
	list := v.Get("tools")
	if e := clientapi.CheckObjects(list); e != nil {
		return e
	}
	for t := list.First(); t.Exists(); t = t.Next() {
		if e := r.readTool(list, t, name); e != nil {
			return e
		}
	}
	return nil
}

// namespaceSeparator separates the names of a namespace and its tool.
const namespaceSeparator = "__"

// appendName appends the name of a tool in the chat completions request.
func appendName(dst []byte, namespace, name jsondoc.Value) []byte {
	if len(namespace.Inside()) > 0 {
		dst = append(append(dst, namespace.Inside()...), namespaceSeparator...)
	}
	return append(dst, name.Inside()...)
}

// Tools returns the tools whose calls the renderer must rename or convert to custom calls. The result is valid until
// Reset.
func (r *Request) Tools() []Tool {
	if r.expanded {
		return r.full.Tools()
	}
	r.renamed, r.names = r.renamed[:0], r.names[:0]
	for i := range r.tools {
		t := &r.tools[i]
		if t.kind != toolCustom && (t.kind != toolFunction || !t.namespace.Exists()) {
			continue
		}
		from := len(r.names)
		r.names = appendName(r.names, t.namespace, t.name)
		r.renamed = append(r.renamed, Tool{
			Called: r.names[from:len(r.names):len(r.names)], Namespace: t.namespace.Inside(), Name: t.name.Inside(), Custom: t.kind == toolCustom,
		})
	}
	return r.renamed
}
