package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// readTools reads tools and tool_choice, and their predecessors functions and function_call.
func (r *Request) readTools(t *topLevel, l *clientapi.Limits) *apierror.Error {
	t.tools, t.functions, t.functionCall = r.dropEmpty(t.tools), r.dropNull(r.dropEmpty(t.functions)), r.dropNull(t.functionCall)
	for _, list := range [...]jsondoc.Value{t.tools, t.functions} {
		if !clientapi.Given(list) {
			continue
		}
		if e := clientapi.CheckArray(list); e != nil {
			return e
		}
		n := list.Len()
		if n > l.Tools {
			return clientapi.TooMany(list, l.Tools)
		}
		r.Tools += n
		r.Flags |= clientapi.FlagTools
		r.TextBytes += len(list.Raw())
		for v := list.First(); v.Exists(); v = v.Next() {
			if v.Kind() != jsondoc.Object {
				return clientapi.WrongType(v, "an object")
			}
			e := (*apierror.Error)(nil)
			if list == t.functions {
				e = r.readFunction(v)
			} else {
				e = r.readTool(v)
			}
			if e != nil {
				return e
			}
		}
	}
	if clientapi.Given(t.parallelToolCalls) {
		if r.Tools > 0 {
			r.Flags |= clientapi.FlagParallelTools
		} else {
			r.edit().DeleteValue(t.parallelToolCalls)
		}
	}
	if e := r.readToolChoice(t.toolChoice); e != nil {
		return e
	}
	if e := r.readFunctionCall(t.functionCall, t.toolChoice, clientapi.Given(t.functions)); e != nil {
		return e
	}
	if clientapi.Given(t.functions) {
		r.renameFunctions(t.functions, t.tools)
	}
	return nil
}

// The types of tools and tool calls.
const (
	toolFunction = "function"
	toolCustom   = "custom"
)

// readTool reads one of the tools.
func (r *Request) readTool(v jsondoc.Value) *apierror.Error {
	if e := r.readCacheControl(v.Get("cache_control")); e != nil {
		return e
	}
	typ := v.Get("type")
	if e := clientapi.NeedString(typ, v, "type"); e != nil {
		return e
	}
	switch string(r.keyword(typ)) {
	case toolFunction:
		f := v.Get("function")
		if e := clientapi.NeedObject(f, v, "function"); e != nil {
			return e
		}
		return r.readFunction(f)
	case toolCustom:
		c := v.Get("custom")
		if e := clientapi.NeedObject(c, v, "custom"); e != nil {
			return e
		}
		name := c.Get("name")
		if e := r.needToolName(name, c); e != nil {
			return e
		}
		r.toolNames = append(r.toolNames, toolName{toolCustom, name})
		if e := clientapi.CheckString(c.Get("description")); e != nil {
			return e
		}
		return clientapi.CheckObject(c.Get("format"))
	}
	return clientapi.NotOneOf(typ, toolFunction, toolCustom)
}

// readFunction reads the definition of a function.
func (r *Request) readFunction(f jsondoc.Value) *apierror.Error {
	var name jsondoc.Value
	for v := f.First(); v.Exists(); v = v.Next() {
		var e *apierror.Error
		switch string(r.keyword(v.Name())) {
		case "name":
			name = v
		case "description":
			e = clientapi.CheckString(v)
		case "parameters":
			e = clientapi.CheckObject(v)
		case "strict":
			_, e = clientapi.CheckBool(v)
		}
		if e != nil {
			return e
		}
	}
	r.toolNames = append(r.toolNames, toolName{toolFunction, name})
	return r.needToolName(name, f)
}

// needToolName checks the name of a tool, and records whether OpenAI accepts it.
func (r *Request) needToolName(v, parent jsondoc.Value) *apierror.Error {
	const longest = 64
	name := v.Inside()
	plain := len(name) <= longest
	for _, c := range name {
		plain = plain && (c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !plain {
		r.Flags |= clientapi.FlagToolNames
	}
	return clientapi.NeedName(v, parent, "name")
}

// readToolChoice reads tool_choice: a keyword, or an object that names one or some of the tools.
func (r *Request) readToolChoice(v jsondoc.Value) *apierror.Error {
	if !clientapi.Given(v) {
		return nil
	}
	if v.Kind() != jsondoc.String && v.Kind() != jsondoc.Object {
		return clientapi.WrongType(v, "a string or an object")
	}
	if r.Tools == 0 {
		if v.Is("none") || v.Is("auto") {
			r.edit().DeleteValue(v)
			return nil
		}
		return apierror.Invalid(clientapi.CodeInvalidValue, "tool_choice", "'tool_choice' is only allowed when there are 'tools'.")
	}
	if v.Kind() == jsondoc.String {
		switch string(r.keyword(v)) {
		case "none", "auto", "required", "any": // "any" is the name of "required" in other APIs
			return nil
		}
		return clientapi.NotOneOf(v, "none", "auto", "required")
	}
	typ := v.Get("type")
	if e := clientapi.NeedString(typ, v, "type"); e != nil {
		return e
	}
	switch string(r.keyword(typ)) {
	case toolFunction:
		return r.readChosen(v, toolFunction)
	case toolCustom:
		return r.readChosen(v, toolCustom)
	case "allowed_tools":
		return r.readAllowed(v)
	}
	return clientapi.NotOneOf(typ, toolFunction, toolCustom, "allowed_tools")
}

// readChosen reads {type, [kind]: {name}}. The name must be that of a tool in the request.
func (r *Request) readChosen(v jsondoc.Value, kind string) *apierror.Error {
	chosen := v.Get(kind)
	if e := clientapi.NeedObject(chosen, v, kind); e != nil {
		return e
	}
	name := chosen.Get("name")
	if e := clientapi.NeedName(name, chosen, "name"); e != nil {
		return e
	}
	return r.checkChosen(name, kind)
}

// checkChosen checks that there is a tool of this kind and name.
func (r *Request) checkChosen(name jsondoc.Value, kind string) *apierror.Error {
	for _, t := range r.toolNames {
		if t.kind == kind && t.name.SameText(name) {
			return nil
		}
	}
	return clientapi.InvalidValue(name, clientapi.CodeInvalidValue, "'%s' is '%s', but no tool has this name.", clientapi.Quotable(name.Text()))
}

// readAllowed reads {type, allowed_tools: {mode, tools}}.
func (r *Request) readAllowed(v jsondoc.Value) *apierror.Error {
	allowed := v.Get("allowed_tools")
	if e := clientapi.NeedObject(allowed, v, "allowed_tools"); e != nil {
		return e
	}
	mode, list := allowed.Get("mode"), allowed.Get("tools")
	if e := clientapi.NeedString(mode, allowed, "mode"); e != nil {
		return e
	}
	if w := string(r.keyword(mode)); w != "auto" && w != "required" {
		return clientapi.NotOneOf(mode, "auto", "required")
	}
	if !list.Exists() {
		return clientapi.Missing(allowed, "tools")
	}
	if list.Kind() != jsondoc.Array {
		return clientapi.WrongType(list, "an array")
	}
	// Limiting the list to the number of tools bounds the number of comparisons.
	if list.Len() > len(r.toolNames) {
		return clientapi.TooMany(list, len(r.toolNames))
	}
	for t := list.First(); t.Exists(); t = t.Next() {
		if t.Kind() != jsondoc.Object {
			return clientapi.WrongType(t, "an object")
		}
		typ := t.Get("type")
		if e := clientapi.NeedString(typ, t, "type"); e != nil {
			return e
		}
		kind := toolFunction
		if typ.Is(toolCustom) {
			kind = toolCustom
		} else if !typ.Is(toolFunction) {
			return clientapi.NotOneOf(typ, toolFunction, toolCustom)
		}
		if e := r.readChosen(t, kind); e != nil {
			return e
		}
	}
	return nil
}

// readFunctionCall reads function_call, the predecessor of tool_choice.
func (r *Request) readFunctionCall(v, toolChoice jsondoc.Value, functions bool) *apierror.Error {
	if !clientapi.Given(v) {
		return nil
	}
	if v.Kind() != jsondoc.String && v.Kind() != jsondoc.Object {
		return clientapi.WrongType(v, "a string or an object")
	}
	isKeyword := v.Is("none") || v.Is("auto")
	switch {
	case !functions && isKeyword:
		r.edit().DeleteValue(v)
		return nil
	case !functions:
		return apierror.Invalid(clientapi.CodeInvalidValue, "function_call", "'function_call' is only allowed when there are 'functions'.")
	case v.Kind() == jsondoc.String && !isKeyword:
		return clientapi.NotOneOf(v, "none", "auto")
	case v.Kind() == jsondoc.Object:
		name := v.Get("name")
		if e := clientapi.NeedName(name, v, "name"); e != nil {
			return e
		}
		if e := r.checkChosen(name, toolFunction); e != nil {
			return e
		}
	}
	r.renameFunctionCall(v, toolChoice)
	return nil
}

// readCacheControl reads cache_control of a message, part or tool, which marks the end of a prefix that the provider
// should cache.
func (r *Request) readCacheControl(v jsondoc.Value) *apierror.Error {
	if clientapi.Given(v) {
		r.Flags |= clientapi.FlagCacheControl
	}
	return clientapi.CheckObject(v)
}
