package messages

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// member returns the field for a member of the request, nil if the gateway does not know the member.
func (m *members) member(name string) *jsondoc.Value {
	switch name {
	case "model":
		return &m.model
	case "messages":
		return &m.messages
	case "system":
		return &m.system
	case "max_tokens":
		return &m.maxTokens
	case "stream":
		return &m.stream
	case "temperature":
		return &m.temperature
	case "top_p":
		return &m.topP
	case "top_k":
		return &m.topK
	case "stop_sequences":
		return &m.stop
	case "metadata":
		return &m.metadata
	case "thinking":
		return &m.thinking
	case "output_config":
		return &m.outputConfig
	case "output_format":
		return &m.outputFormat
	case "tools":
		return &m.tools
	case "tool_choice":
		return &m.toolChoice
	case "cache_control":
		return &m.cacheControl
	case "service_tier":
		return &m.serviceTier
	case "container":
		return &m.container
	case "mcp_servers":
		return &m.mcpServers
	case "thread":
		return &m.thread
	}
	return nil
}

// readRequest finds the request's members and checks them.
func (r *Request) readRequest(root jsondoc.Value) *apierror.Error {
	for v := root.First(); v.Exists(); v = v.Next() {
		if at := r.m.member(string(r.keyword(v.Name()))); at != nil {
			*at = present(v)
		}
	}
	if e := r.readModel(root); e != nil {
		return e
	}
	if e := r.readMaxTokens(root); e != nil {
		return e
	}
	if e := r.readSampling(); e != nil {
		return e
	}
	if e := r.readTools(); e != nil {
		return e
	}
	if e := r.readThinking(); e != nil {
		return e
	}
	if e := r.readOutput(); e != nil {
		return e
	}
	if e := r.readCacheControl(r.m.cacheControl); e != nil {
		return e
	}
	if e := r.readSystem(); e != nil {
		return e
	}
	if e := r.readThread(); e != nil {
		return e
	}
	return r.readMessages(root)
}

// readThread checks the thread that the request creates or continues.
func (r *Request) readThread() *apierror.Error {
	thread := r.m.thread
	if e := r.checkObject(thread); e != nil || string(r.keyword(thread.Get("type"))) != "continue" {
		return e
	}
	return r.needID(present(thread.Get("previous_message_id")), thread, "previous_message_id")
}

func (r *Request) readModel(root jsondoc.Value) *apierror.Error {
	v := r.m.model
	if e := r.needName(v, root, "model"); e != nil {
		return e
	}
	r.facts.Model = v.Text()
	if strings.IndexByte(r.facts.Model, 0) >= 0 {
		return r.invalid(v, clientapi.CodeInvalidValue, "String should not contain the character U+0000")
	}
	return nil
}

func (r *Request) readMaxTokens(root jsondoc.Value) (e *apierror.Error) {
	if r.facts.Stream, e = r.checkBool(r.m.stream); e != nil {
		return e
	}
	v := r.m.maxTokens
	if !v.Exists() && !r.counting {
		return r.missing(root, "max_tokens")
	}
	r.facts.MaxTokens, e = r.checkInteger(v, 0, clientapi.MaxTokensCeiling)
	return e
}

// readSampling checks the members that do not depend on others. Temperatures up to 2 are accepted, because other hosts
// of the API accept them.
func (r *Request) readSampling() *apierror.Error {
	m := &r.m
	if e := r.checkDecimal(m.temperature, 0, 2); e != nil {
		return e
	}
	if e := r.checkDecimal(m.topP, 0, 1); e != nil {
		return e
	}
	if _, e := r.checkInteger(m.topK, 0, clientapi.MaxTokensCeiling); e != nil {
		return e
	}
	if e := r.checkArray(m.stop); e != nil {
		return e
	}
	for n, v := 0, m.stop.First(); v.Exists(); v = v.Next() {
		if n++; n > r.limits.Stop {
			return r.tooMany(m.stop, r.limits.Stop)
		}
		if v.Kind() != jsondoc.String {
			return r.wrongType(v, "string")
		}
	}
	if e := r.checkObject(m.metadata); e != nil {
		return e
	}
	if e := r.checkString(m.metadata.Get("user_id")); e != nil {
		return e
	}
	return r.checkString(m.serviceTier)
}

// minBudget is the smallest thinking budget.
const minBudget = 1024

// readThinking checks thinking. Unknown types are left to the provider.
//
// A budget must be below max_tokens, except for interleaved thinking, whose budget is for a whole turn. Whether a
// request with tools asks for that depends on its headers and its model, so the budget of a request with tools is left
// to the provider.
func (r *Request) readThinking() (e *apierror.Error) {
	v, f := r.m.thinking, &r.facts
	if !v.Exists() {
		return nil
	}
	if e := r.checkObject(v); e != nil {
		return e
	}
	typ, budget := v.Get("type"), present(v.Get("budget_tokens"))
	if e := r.needString(typ, v, "type"); e != nil {
		return e
	}
	r.m.thinkingType, r.m.budget = typ, budget
	switch string(r.keyword(typ)) {
	case "enabled":
		f.Thinking.Mode = clientapi.ThinkingEnabled
		if !budget.Exists() {
			return r.missing(v, "budget_tokens")
		}
	case "adaptive", "between_tools":
		f.Thinking.Mode = clientapi.ThinkingAdaptive
	case "disabled":
		f.Thinking.Mode = clientapi.ThinkingDisabled
		return nil
	default:
		return nil
	}
	f.Flags |= clientapi.FlagThinking
	if f.Thinking.BudgetTokens, e = r.checkInteger(budget, minBudget, clientapi.MaxTokensCeiling); e != nil {
		return e
	}
	if budget.Exists() && f.Thinking.BudgetTokens >= f.MaxTokens && f.Tools == 0 && !r.counting {
		return apierror.Invalid(clientapi.CodeIntegerAbove, "max_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`.")
	}
	return nil
}

// readOutput checks output_config, and output_format, the former place of output_config.format.
func (r *Request) readOutput() *apierror.Error {
	m, f := &r.m, &r.facts
	if e := r.checkObject(m.outputConfig); e != nil {
		return e
	}
	m.effort, m.format = present(m.outputConfig.Get("effort")), present(m.outputConfig.Get("format"))
	if e := r.checkString(m.effort); e != nil {
		return e
	}
	if m.effort.Exists() {
		f.Flags |= clientapi.FlagReasoning
	}
	if !m.format.Exists() {
		m.format = m.outputFormat
	}
	if !m.format.Exists() {
		return nil
	}
	if e := r.checkObject(m.format); e != nil {
		return e
	}
	if e := r.needString(m.format.Get("type"), m.format, "type"); e != nil {
		return e
	}
	f.Flags |= clientapi.FlagResponseFormat
	f.TextBytes += len(m.format.Get("schema").Raw())
	return r.checkObject(m.format.Get("schema"))
}

// readSystem checks the system prompt, which is a string or a list of text blocks.
func (r *Request) readSystem() *apierror.Error {
	v := r.m.system
	if v.Kind() == jsondoc.String {
		r.facts.TextBytes += len(v.Inside())
		return nil
	}
	if e := r.checkArray(v); e != nil {
		return e
	}
	if e := r.readBlocks(v, 0); e != nil {
		return e
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		if !c.Get("type").Is("text") {
			return r.wrongType(c, "text block")
		}
	}
	return nil
}

// readCacheControl checks the cache_control of a block, a tool or the request, and records that the request has one.
func (r *Request) readCacheControl(v jsondoc.Value) *apierror.Error {
	if clientapi.Given(v) {
		r.facts.Flags |= clientapi.FlagCacheControl
	}
	return r.checkObject(v)
}
