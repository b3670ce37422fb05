package openai

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// The smallest budgets that become an effort of medium and of high.
const (
	mediumBudget = 4096
	highBudget   = 16384
)

// reasoningRequest is the client's reasoning setting: thinking, which takes precedence, or reasoning_effort.
type reasoningRequest struct {
	thinking bool // the member thinking is present
	off      bool
	adaptive bool
	budget   int64  // 0 if unset
	effort   []byte // reasoning_effort in the client's words; empty if unset
}

// readReasoningRequest reads the client's reasoning setting. It removes a member thinking that is null.
func readReasoningRequest(r *provider.Request, o *options) (w reasoningRequest) {
	if thinking := r.Get("/thinking"); thinking.Kind() == json.Object {
		w.readThinking(thinking)
	} else if thinking.Exists() {
		r.Delete("/thinking")
	}
	if w.effort = r.Get("/reasoning_effort").Text(); string(w.effort) == "default" && !o.accepts("reasoning_effort", `"default"`) {
		w.effort = nil
	}
	return w
}

// readThinking reads the member thinking.
func (w *reasoningRequest) readThinking(thinking json.Value) {
	kind := thinking.Get("type")
	w.thinking, w.off, w.adaptive = true, kind.Is("disabled"), kind.Is("adaptive")
	w.budget, _ = thinking.Get("budget_tokens").Int()
}

// budgetEffort maps a budget to an effort.
func (w *reasoningRequest) budgetEffort() string {
	switch {
	case w.budget >= highBudget:
		return "high"
	case w.budget > 0 && w.budget < mediumBudget:
		return "low"
	}
	return "medium"
}

// editThinking translates the client's reasoning setting for the upstream. reasoning_effort is edited in one place, at
// the end, because only one of two edits of a member takes effect.
func editThinking(r *provider.Request, o *options) {
	w := readReasoningRequest(r, o)
	effort, expressed := w.effort, false
	switch {
	case o.thinking == thinkingKeep:
	case o.thinking == thinkingDrop:
		if w.thinking {
			r.Delete("/thinking")
			r.Warn(abi.WarnDropped, "thinking")
		}
	case o.thinking == thinkingEffort:
		effort = editEffort(r, o, &w)
	case w.thinking || len(effort) > 0:
		effort, expressed = editSwitch(r, o, &w)
	}
	setEffort(r, o, w.effort, effort, expressed)
}

// setEffort sends an effort under the upstream's name for it, or removes it. asked is the client's effort; expressed
// reports that another member expresses it.
func setEffort(r *provider.Request, o *options, asked, effort []byte, expressed bool) {
	name := o.effort(effort)
	switch {
	case len(name) > 0 && string(name) == string(asked):
	case len(name) > 0:
		if string(effort) == string(asked) {
			r.Warn(abi.WarnChanged, "reasoning_effort")
		}
		r.SetText("/reasoning_effort", name)
	case r.Delete("/reasoning_effort") && len(asked) > 0 && !expressed:
		r.Warn(abi.WarnDropped, "reasoning_effort")
	}
}

// editEffort handles thinking for upstreams that only know reasoning_effort. It returns the effort to send.
func editEffort(r *provider.Request, o *options, w *reasoningRequest) []byte {
	if !w.thinking {
		return w.effort
	}
	r.Delete("/thinking")
	switch {
	case w.off && len(o.effortOff) > 0:
		return o.effortOff
	case w.off:
		r.Warn(abi.WarnDropped, "thinking") // the model may reason anyway
		return nil
	}
	r.Warn(abi.WarnChanged, "thinking")
	if w.adaptive {
		return w.effort // the client's own effort limits adaptive thinking; without one the model's default applies
	}
	return []byte(w.budgetEffort())
}

// editSwitch handles thinking for upstreams with a member that switches it. It returns the effort to send in addition,
// and whether the member expresses the client's effort. An effort of none switches reasoning off; any other effort does
// not change the switch.
func editSwitch(r *provider.Request, o *options, w *reasoningRequest) (effort []byte, expressed bool) {
	none := !w.thinking && string(w.effort) == "none"
	off := w.off || none
	if !off && (!w.thinking || w.adaptive) {
		effort = w.effort
	}
	if o.thinking == thinkingReasoning {
		if !w.thinking && r.Exists("/reasoning") {
			// The client used the upstream's own member, from which the gateway has moved the effort.
			if name := o.effort(w.effort); len(name) > 0 && !r.Exists("/reasoning/effort") && r.Set("/reasoning/effort", json.AppendString(nil, name)) {
				return nil, true
			}
			return effort, none
		}
		r.Delete("/thinking")
		r.Set("/reasoning", reasoningObject(w, off, o.effort(effort)))
		return nil, none || len(effort) > 0
	}
	if !w.thinking && !none {
		return effort, false
	}
	if w.budget > 0 && !off {
		r.Warn(abi.WarnChanged, "thinking") // a switch has no budget
	}
	on := "true"
	if off {
		on = "false"
	}
	switch o.thinking {
	case thinkingType:
		kind := `{"type":"enabled"}`
		if off {
			kind = `{"type":"disabled"}`
		}
		r.Set("/thinking", []byte(kind))
		return effort, none
	case thinkingEnabled:
		r.Set("/reasoning", []byte(`{"enabled":`+on+`}`))
	case thinkingTemplate:
		name := "enable_thinking"
		if len(o.thinkingMember) > 0 {
			name = string(o.thinkingMember)
		}
		if !r.Set("/chat_template_kwargs"+pointer([]byte(name)), []byte(on)) {
			var w json.Writer
			w.Object()
			w.NameText([]byte(name))
			w.Raw([]byte(on))
			w.EndObject()
			r.Set("/chat_template_kwargs", w.Buf)
		}
	}
	r.Delete("/thinking")
	return effort, none
}

// reasoningObject returns the value of the member reasoning: the client's budget, otherwise its effort, otherwise
// whether reasoning is enabled.
func reasoningObject(w *reasoningRequest, off bool, effort []byte) []byte {
	var object json.Writer
	object.Object()
	switch {
	case w.budget > 0 && !off:
		object.Name("max_tokens")
		object.Int(w.budget)
	case len(effort) > 0:
		object.Name("effort")
		object.Text(effort)
	default:
		object.Name("enabled")
		object.Bool(!off)
	}
	object.EndObject()
	return object.Buf
}
