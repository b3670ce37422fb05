package ollama

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// levels maps the efforts of the OpenAI API to levels. Not all models support the level max.
var levels = [...]struct{ effort, level string }{
	{"minimal", "low"}, {"low", "low"}, {"medium", "medium"}, {"high", "high"}, {"xhigh", "max"}, {"max", "max"},
}

// writeThink writes whether the model thinks, or its level. The member thinking overrides reasoning_effort. Without
// either the model uses its default.
func (t *translation) writeThink() error {
	w := t.w
	if t.Thinking.Kind() == json.Object {
		if len(t.Effort) > 0 {
			t.warnDropped("reasoning_effort")
		}
		if t.Thinking.Get("budget_tokens").Kind() == json.Number {
			t.warnDropped("thinking.budget_tokens")
		}
		w.Name("think")
		w.Bool(!t.Thinking.Get("type").Is("disabled"))
		return nil
	}
	switch effort := string(t.Effort); effort {
	case "":
	case "none":
		w.Name("think")
		w.Bool(false)
	default:
		level := ""
		for _, l := range levels {
			if l.effort == effort {
				level = l.level
			}
		}
		if level == "" {
			return translate.Invalid("invalid_value", "reasoning_effort", "Invalid reasoning_effort: want none, minimal, low, medium, high, xhigh or max.")
		}
		if level == "max" && !t.o.maxLevel {
			level = "high"
			t.r.Warn(abi.WarnClamped, "reasoning_effort")
		}
		w.Name("think")
		if t.o.noLevels {
			w.Bool(true)
		} else {
			w.String(level)
		}
	}
	return nil
}

// readThoughts appends the reasoning in an assistant message to the scratch buffer, as escaped string content. It omits
// reasoning of other providers.
func (t *translation) readThoughts(m *chat.Message) {
	from := len(t.scratch)
	var r json.Reader
	r.Reset(m.ReasoningDetails)
	for a := r.Array(); a.Next(); {
		t.addDetail(&r)
	}
	if !m.ReasoningDetails.Exists() {
		t.scratch = append(t.scratch, m.Reasoning...)
	}
	if len(t.scratch) == from && m.ReasoningDetails.Exists() {
		t.warnDropped("messages[].reasoning_details")
		if m.Reasoning != nil {
			t.warnDropped("messages[].reasoning_content")
		}
	}
}

// addDetail reads an entry of reasoning_details. A client that collected a stream may have the pieces of the reasoning
// as separate entries.
func (t *translation) addDetail(r *json.Reader) {
	var kind, form, text []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "format":
			form = r.Text()
		case "text":
			text = r.Inside()
		}
	}
	if string(kind) == "reasoning.text" && (form == nil || string(form) == format) {
		t.scratch = append(t.scratch, text...)
	}
}
