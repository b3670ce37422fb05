package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// tool holds the members of a tool.
type tool struct {
	self, typ, name, description, schema, strict jsondoc.Value
	cacheControl, allowedCallers                 jsondoc.Value
}

// scanTool finds the members of a tool. An optional member that is null counts as absent.
func (r *Request) scanTool(v jsondoc.Value) tool {
	t := tool{self: v}
	for c := v.First(); c.Exists(); c = c.Next() {
		switch string(r.keyword(c.Name())) {
		case "type":
			t.typ = present(c)
		case "name":
			t.name = c
		case "description":
			t.description = present(c)
		case "input_schema":
			t.schema = c
		case "strict":
			t.strict = present(c)
		case "cache_control":
			t.cacheControl = present(c)
		case "allowed_callers":
			t.allowedCallers = present(c)
		}
	}
	return t
}

// custom reports whether the client defines the tool, in contrast to one that Anthropic defines by its type.
func (t *tool) custom() bool { return !t.typ.Exists() || t.typ.Is("custom") }

// readTools checks tools and tool_choice.
func (r *Request) readTools() *apierror.Error {
	list, f := r.m.tools, &r.facts
	if e := r.checkArray(list); e != nil {
		return e
	}
	for v := list.First(); v.Exists(); v = v.Next() {
		if f.Tools++; f.Tools > r.limits.Tools {
			return r.tooMany(list, r.limits.Tools)
		}
		if v.Kind() != jsondoc.Object {
			return r.wrongType(v, "dictionary")
		}
		if e := r.readTool(v); e != nil {
			return e
		}
	}
	if f.Tools > 0 {
		f.Flags |= clientapi.FlagTools
		f.TextBytes += len(list.Raw())
	}
	return r.readToolChoice()
}

func (r *Request) readTool(v jsondoc.Value) *apierror.Error {
	t := r.scanTool(v)
	if e := r.checkString(t.typ); e != nil {
		return e
	}
	if e := r.readCacheControl(t.cacheControl); e != nil {
		return e
	}
	if !t.custom() {
		return nil
	}
	if e := r.needName(t.name, v, "name"); e != nil {
		return e
	}
	if e := r.needObject(t.schema, v, "input_schema"); e != nil {
		return e
	}
	if e := r.checkString(t.description); e != nil {
		return e
	}
	if _, e := r.checkBool(t.strict); e != nil {
		return e
	}
	return r.checkArray(t.allowedCallers)
}

// readToolChoice checks tool_choice.
func (r *Request) readToolChoice() *apierror.Error {
	m, v := &r.m, r.m.toolChoice
	if !v.Exists() {
		return nil
	}
	if e := r.checkObject(v); e != nil {
		return e
	}
	m.choiceType, m.choiceName, m.noParallel = v.Get("type"), v.Get("name"), present(v.Get("disable_parallel_tool_use"))
	if e := r.needString(m.choiceType, v, "type"); e != nil {
		return e
	}
	if _, e := r.checkBool(m.noParallel); e != nil {
		return e
	}
	if m.noParallel.Exists() && r.facts.Tools > 0 {
		r.facts.Flags |= clientapi.FlagParallelTools
	}
	switch string(r.keyword(m.choiceType)) {
	case "auto", "any", "none":
		return nil
	case "tool":
		return r.needName(m.choiceName, v, "name")
	}
	return r.notOneOf(m.choiceType, "auto", "any", "tool", "none")
}
