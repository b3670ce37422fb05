package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// efforts maps reasoning_effort to a number of thinking tokens. 0 means the model's default.
var efforts = [...]struct {
	name   string
	tokens int64
}{
	{"minimal", 1024}, {"low", 2048}, {"medium", 8192}, {"high", 0}, {"xhigh", 0}, {"max", 0},
}

// writeThinking writes whether the model thinks, and its token budget. The member thinking overrides reasoning_effort.
// Without either the model uses its default.
func (t *translation) writeThinking() error {
	if t.Thinking.Kind() == json.Object {
		if len(t.Effort) > 0 {
			t.warnDropped("reasoning_effort")
		}
		tokens, _ := t.Thinking.Get("budget_tokens").Int()
		t.writeThinkingMember(!t.Thinking.Get("type").Is("disabled"), tokens)
		return nil
	}
	if len(t.Effort) == 0 {
		return nil
	}
	if string(t.Effort) == "none" {
		t.writeThinkingMember(false, 0)
		return nil
	}
	for _, e := range efforts {
		if e.name == string(t.Effort) {
			t.writeThinkingMember(true, e.tokens)
			return nil
		}
	}
	return translate.Invalid("invalid_value", "reasoning_effort", "Invalid reasoning_effort: want none, minimal, low, medium, high, xhigh or max.")
}

func (t *translation) writeThinkingMember(on bool, tokens int64) {
	w := t.w
	w.Name("thinking")
	w.Object()
	w.Name("type")
	if !on {
		w.String("disabled")
	} else {
		w.String("enabled")
		if tokens > 0 {
			w.Name("token_budget")
			w.Int(tokens)
		}
	}
	w.EndObject()
}

// replaysThinking reports whether reasoning of earlier assistant messages is sent back, which the API rejects if
// thinking is disabled. It must be called before the messages are read, because they are written while they are read.
func (t *translation) replaysThinking() bool {
	if t.o.noThinking || !t.r.Has(sdk.FlagReasoningHistory) {
		return false
	}
	if thinking := t.r.Get("/thinking/type"); thinking.Exists() {
		return !thinking.Is("disabled")
	}
	return !t.r.Get("/reasoning_effort").Is("none")
}

// thought is a block of reasoning of an earlier assistant message: a range of the translation's scratch buffer, which
// contains escaped string content.
type thought struct {
	from, to int
	index    int64
}

// readThoughts reads the reasoning in an assistant message. It omits reasoning of other providers.
func (t *translation) readThoughts(m *chat.Message) {
	t.thoughts, t.scratch = t.thoughts[:0], t.scratch[:0]
	if t.replay {
		var r json.Reader
		r.Reset(m.ReasoningDetails)
		for a := r.Array(); a.Next(); {
			t.addDetail(&r)
		}
		if !m.ReasoningDetails.Exists() && len(m.Reasoning) > 0 {
			t.addThought(0, m.Reasoning)
		}
	}
	if len(t.thoughts) == 0 {
		if m.ReasoningDetails.Exists() {
			t.warnDropped("messages[].reasoning_details")
		}
		if m.Reasoning != nil {
			t.warnDropped("messages[].reasoning_content")
		}
	}
}

// addDetail reads an entry of reasoning_details. A client that collected a stream may have the pieces of one block as
// separate entries.
func (t *translation) addDetail(r *json.Reader) {
	var kind, form, text []byte
	var index int64
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "format":
			form = r.Text()
		case "text":
			text = r.Inside()
		case "index":
			index, _ = r.Int()
		}
	}
	if string(kind) == "reasoning.text" && (form == nil || string(form) == format) && len(text) > 0 {
		t.addThought(index, text)
	}
}

func (t *translation) addThought(index int64, text []byte) {
	from := len(t.scratch)
	t.scratch = append(t.scratch, text...)
	if n := len(t.thoughts); n > 0 && t.thoughts[n-1].index == index {
		t.thoughts[n-1].to = len(t.scratch)
		return
	}
	t.thoughts = append(t.thoughts, thought{from, len(t.scratch), index})
}

// writeThoughts writes the blocks of reasoning into an open array.
func (t *translation) writeThoughts() {
	for _, th := range t.thoughts {
		t.w.Object()
		t.w.Name("type")
		t.w.String("thinking")
		t.w.Name("thinking")
		t.w.Inside(t.scratch[th.from:th.to])
		t.w.EndObject()
	}
}
