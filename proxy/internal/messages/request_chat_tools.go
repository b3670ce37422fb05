package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// lowerTools appends the tools that the model may call: those that can be called directly and that no message has
// removed.
func (r *Request) lowerTools() *apierror.Error {
	c := &r.chat
	for v := r.m.tools.First(); v.Exists(); v = v.Next() {
		t := r.scanTool(v)
		if !t.custom() {
			return r.unsupported(v, "The provider of this model does not support tools of the type '%s'.", quotable(t.typ.Text()))
		}
		switch {
		case t.allowedCallers.Exists() && !containsString(t.allowedCallers, "direct"):
			r.drop(v)
			continue
		case c.removed(t.name):
			continue
		}
		c.toolNames = append(c.toolNames, t.name)
		c.StartTool(v)
		c.lowerTool(&t)
	}
	for _, change := range c.toolChanges {
		if !change.removed && !c.offers(change.name) {
			return r.unsupported(change.name, "The provider of this model cannot add a tool that is not one of `tools`.")
		}
	}
	c.EndTools()
	return nil
}

// lowerTool appends a tool as a function. Members that only the Messages API has, such as input_examples, are left out,
// and a tool with defer_loading is sent like all others.
func (c *lowering) lowerTool(t *tool) {
	c.Literal(`{"type":"function","function":{"name":`)
	c.Raw(t.name)
	c.Member("description", t.description)
	c.Member("strict", t.strict)
	c.Literal(`,"parameters":`)
	switch {
	case !t.schema.First().Exists():
		c.Literal(`{"type":"object","properties":{}}`)
	case !t.schema.Get("type").Exists():
		c.Literal(`{"type":"object",`)
		c.Bytes(t.schema.Raw()[1:])
	default:
		c.Raw(t.schema)
	}
	c.Literal("}")
	c.Member("cache_control", t.cacheControl)
	c.Literal("}")
}

// containsString reports whether an array contains a string.
func containsString(list jsondoc.Value, s string) bool {
	for v := list.First(); v.Exists(); v = v.Next() {
		if v.Is(s) {
			return true
		}
	}
	return false
}

// recordToolChange records that a message removes a tool or adds it back. The last change of a tool counts.
func (r *Request) recordToolChange(b *block, removed bool) *apierror.Error {
	c, name := &r.chat, b.tool.Get("name")
	if !b.tool.Get("type").Is("tool_reference") || name.Kind() != jsondoc.String {
		return r.unsupported(b.self, "The provider of this model cannot change its tools in the middle of a conversation.")
	}
	for i := range c.toolChanges {
		if c.toolChanges[i].name.SameText(name) {
			c.toolChanges[i].removed = removed
			return nil
		}
	}
	if len(c.toolChanges) == r.limits.Tools {
		return r.invalid(b.self, clientapi.CodeArrayAbove, "A conversation should change at most %d tools", r.limits.Tools)
	}
	c.toolChanges = append(c.toolChanges, toolChange{name, removed})
	return nil
}

// removed reports whether the conversation has removed a tool.
func (c *lowering) removed(name jsondoc.Value) bool {
	for _, change := range c.toolChanges {
		if change.name.SameText(name) {
			return change.removed
		}
	}
	return false
}

// offers reports whether a tool is among those written.
func (c *lowering) offers(name jsondoc.Value) bool {
	for _, n := range c.toolNames {
		if n.SameText(name) {
			return true
		}
	}
	return false
}

// lowerToolChoice appends tool_choice, if there are tools.
func (r *Request) lowerToolChoice() *apierror.Error {
	c, m := &r.chat, &r.m
	if len(c.toolNames) == 0 {
		return nil
	}
	switch string(r.keyword(m.choiceType)) {
	case "auto":
		c.Literal(`,"tool_choice":"auto"`)
	case "any":
		c.Literal(`,"tool_choice":"required"`)
	case "none":
		c.Literal(`,"tool_choice":"none"`)
	case "tool":
		if !c.offers(m.choiceName) {
			return r.unsupported(m.choiceName, "Tool '%s' not found in the tools for the provider of this model", quotable(m.choiceName.Text()))
		}
		c.Literal(`,"tool_choice":{"type":"function","function":{"name":`)
		c.Raw(m.choiceName)
		c.Literal("}}")
	}
	if single, _ := m.noParallel.Bool(); single {
		c.Literal(`,"parallel_tool_calls":false`)
	}
	return nil
}
