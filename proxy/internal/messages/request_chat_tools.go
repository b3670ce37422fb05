package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// lowerTools appends the tools that the model may call. The messages may take tools away and give them back.
func (r *Request) lowerTools() *apierror.Error {
	c := &r.chat
	for v := r.m.tools.First(); v.Exists(); v = v.Next() {
		t := r.scanTool(v)
		if !t.custom() {
			return r.unsupported(v, "The provider of this model has no tool %s.", quotable(t.typ.Text()))
		}
		switch {
		case t.allowedCallers.Exists() && !holds(t.allowedCallers, "direct"):
			r.drop(v)
			continue
		case c.removed(t.name):
			continue
		}
		if len(c.names) == 0 {
			c.text(`,"tools":[`)
		} else {
			c.text(",")
		}
		c.names = append(c.names, t.name)
		c.origins.tools = append(c.origins.tools, v)
		c.lowerTool(&t)
	}
	for _, change := range c.changes {
		if !change.removed && !c.offers(change.name) {
			return r.unsupported(change.name, "The provider of this model cannot add a tool that is not one of `tools`.")
		}
	}
	if len(c.names) > 0 {
		c.text("]")
	}
	return nil
}

// lowerTool appends a tool as a function. Examples and the streaming of its input are for providers of the Messages API, and a
// tool that is deferred is sent like all others.
func (c *lowering) lowerTool(t *tool) {
	c.text(`{"type":"function","function":{"name":`)
	c.toolName(t.name)
	c.member("description", t.description)
	c.member("strict", t.strict)
	c.text(`,"parameters":`)
	switch {
	case !t.schema.First().Exists():
		c.text(`{"type":"object","properties":{}}`)
	case !t.schema.Get("type").Exists():
		c.text(`{"type":"object",`)
		c.dst = append(c.dst, t.schema.Raw()[1:]...)
	default:
		c.raw(t.schema)
	}
	c.text("}")
	c.member("cache_control", t.cacheControl)
	c.text("}")
}

// holds reports whether a list holds a string.
func holds(list jsondoc.Value, s string) bool {
	for v := list.First(); v.Exists(); v = v.Next() {
		if v.Is(s) {
			return true
		}
	}
	return false
}

// change records what a message does to the tools. The last change of a tool counts.
func (r *Request) change(b *block, removed bool) *apierror.Error {
	c, name := &r.chat, b.tool.Get("name")
	if !b.tool.Get("type").Is("tool_reference") || name.Kind() != jsondoc.String {
		return r.unsupported(b.self, "The provider of this model cannot change its tools in the middle of a conversation.")
	}
	for i := range c.changes {
		if c.changes[i].name.SameText(name) {
			c.changes[i].removed = removed
			return nil
		}
	}
	if len(c.changes) == r.limits.Tools {
		return r.invalid(b.self, clientapi.CodeArrayAbove, "A conversation should change at most %d tools", r.limits.Tools)
	}
	c.changes = append(c.changes, toolChange{name, removed})
	return nil
}

// removed reports whether the conversation has taken a tool away.
func (c *lowering) removed(name jsondoc.Value) bool {
	for _, change := range c.changes {
		if change.name.SameText(name) {
			return change.removed
		}
	}
	return false
}

// offers reports whether a tool has been written.
func (c *lowering) offers(name jsondoc.Value) bool {
	for _, n := range c.names {
		if n.SameText(name) {
			return true
		}
	}
	return false
}

// lowerToolChoice appends the choice of tools, if there are some.
func (r *Request) lowerToolChoice() *apierror.Error {
	c, m := &r.chat, &r.m
	if len(c.names) == 0 {
		return nil
	}
	switch string(r.keyword(m.choiceType)) {
	case "auto":
		c.text(`,"tool_choice":"auto"`)
	case "any":
		c.text(`,"tool_choice":"required"`)
	case "none":
		c.text(`,"tool_choice":"none"`)
	case "tool":
		if !c.offers(m.choiceName) {
			return r.unsupported(m.choiceName, "Tool '%s' not found in the tools that the provider of this model is given", quotable(m.choiceName.Text()))
		}
		c.text(`,"tool_choice":{"type":"function","function":{"name":`)
		c.toolName(m.choiceName)
		c.text("}}")
	}
	if single, _ := m.noMulti.Bool(); single {
		c.text(`,"parallel_tool_calls":false`)
	}
	return nil
}
