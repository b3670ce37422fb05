package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// minBudget is the smallest budget for thinking that the API takes.
const minBudget = 1024

// budgets says how many tokens of thinking an effort of the convention stands for. Models that decide themselves how
// much they think take the effort, and a budget is turned into one the other way round.
var budgets = [...]struct {
	effort string
	tokens int64
	native string // the effort of output_config
}{
	{"minimal", 1024, "low"},
	{"low", 2048, "low"},
	{"medium", 8192, "medium"},
	{"high", 16384, "high"},
	{"xhigh", 32768, "high"},
}

// thinks says whether the model is asked to think.
func (t *translation) thinks() bool {
	if t.thinking.Kind() == json.Object {
		return !t.thinking.Get("type").Is("disabled")
	}
	return len(t.effort) > 0 && string(t.effort) != "none"
}

// writeThinking writes whether and how the model thinks, the sampling that this leaves, and the form of the answer
// where the model takes it natively. It returns max_tokens. thinking counts before reasoning_effort.
func (t *translation) writeThinking() (limit int64, err error) {
	limit, asked := t.limit()
	budget, effort, err := t.budget(limit, asked)
	if err != nil {
		return 0, err
	}
	w := t.w
	thinks := false
	switch {
	case t.o.adaptive && effort != "":
		w.Name("thinking")
		w.Object()
		w.Name("type")
		w.String("adaptive")
		w.EndObject()
		thinks = true
	case t.o.adaptive:
		effort = ""
	case budget > 0:
		if !asked && budget >= limit {
			limit = budget + limit
			if most := t.r.MaxTokens; most > 0 && limit > most {
				limit = most
			}
		}
		if budget >= limit {
			return 0, tooMuch(budget, limit)
		}
		w.Name("thinking")
		w.Object()
		w.Name("type")
		w.String("enabled")
		w.Name("budget_tokens")
		w.Int(budget)
		w.EndObject()
		thinks = true
	}
	if !thinks && t.thinking.Get("type").Is("disabled") && !t.o.adaptive {
		if t.o.alwaysThinking {
			t.r.Warn(abi.WarnDropped, "thinking")
		} else {
			w.Name("thinking")
			w.Raw([]byte(`{"type":"disabled"}`))
		}
	}
	if err := t.writeOutputConfig(effort); err != nil {
		return 0, err
	}
	return limit, t.writeSampling(thinks)
}

// budget is how many tokens the model may think, and the effort that this stands for; 0 and "" for no thinking.
func (t *translation) budget(limit int64, asked bool) (tokens int64, effort string, err error) {
	if t.thinking.Kind() == json.Object {
		if t.thinking.Get("type").Is("disabled") {
			if t.o.adaptive && t.o.alwaysThinking {
				t.r.Warn(abi.WarnDropped, "thinking")
			}
			return 0, "", nil
		}
		tokens, _ = t.thinking.Get("budget_tokens").Int()
		if t.thinking.Get("type").Is("adaptive") && tokens == 0 {
			if !t.o.adaptive {
				return 0, "", sdk.Refuse("thinking.type", "This model needs a budget: use thinking of type enabled with budget_tokens.")
			}
			return 0, "high", nil
		}
		if tokens < minBudget {
			return 0, "", invalid("integer_below_min_value", "thinking.budget_tokens", "This provider's models need a budget of at least "+number(minBudget)+" tokens to think.")
		}
		if asked && tokens >= limit {
			return 0, "", tooMuch(tokens, limit)
		}
		return tokens, effortOf(tokens), nil
	}
	switch string(t.effort) {
	case "":
		return 0, "", nil
	case "none":
		if t.o.alwaysThinking {
			t.r.Warn(abi.WarnDropped, "reasoning_effort")
		}
		return 0, "", nil
	}
	for _, b := range budgets {
		if string(t.effort) != b.effort {
			continue
		}
		tokens = b.tokens
		// The effort names no number of tokens, so that it gives way to the one that the client did name.
		if asked && tokens >= limit && !t.o.adaptive {
			if tokens = limit / 2; tokens < minBudget {
				t.r.Warn(abi.WarnDropped, "reasoning_effort")
				return 0, "", nil
			}
			t.r.Warn(abi.WarnClamped, "reasoning_effort")
		}
		return tokens, b.native, nil
	}
	return 0, "", invalid("invalid_value", "reasoning_effort", "This provider knows the efforts none, minimal, low, medium, high and xhigh.")
}

func tooMuch(budget, limit int64) error {
	return invalid("invalid_value", "thinking.budget_tokens",
		"The budget for thinking ("+number(int(budget))+") must be below max_tokens ("+number(int(limit))+"), which it is a part of.")
}

// effortOf is the effort that comes nearest to a budget without going below it.
func effortOf(tokens int64) string {
	for _, b := range budgets {
		if tokens <= b.tokens {
			return b.native
		}
	}
	return "high"
}

// writeOutputConfig writes how hard the model tries, and the form of its answer.
func (t *translation) writeOutputConfig(effort string) error {
	if !t.o.adaptive {
		effort = ""
	}
	var schema json.Value
	if t.o.nativeSchema {
		var err error
		if schema, _, err = t.answerSchema(); err != nil {
			return err
		}
	}
	if effort == "" && schema == nil {
		return nil
	}
	w := t.w
	w.Name("output_config")
	w.Object()
	if effort != "" {
		w.Name("effort")
		w.String(effort)
	}
	if schema != nil {
		w.Name("format")
		w.Object()
		w.Name("type")
		w.String("json_schema")
		w.Name("schema")
		w.Raw(schema)
		w.EndObject()
	}
	w.EndObject()
	return nil
}

// thought is one block of reasoning from an earlier answer.
type thought struct {
	index     int64    // among the blocks of the answer
	placed    bool     // index is known
	text      [][]byte // insides of strings, to be joined
	signature []byte   // the inside of a string
	data      []byte   // the inside of a string; a redacted block if it is not empty
}

// thoughts reads the reasoning that a message brings back. What has no signature, or comes from another provider, is
// left out: the provider would refuse it.
func (t *translation) thoughts(m *message) ([]thought, error) {
	var all []thought
	var r json.Reader
	if m.details.Kind() == json.Array {
		r.Reset(m.details)
		for a := r.Array(); a.Next(); {
			all = addDetail(all, &r)
		}
	} else if m.blocks.Kind() == json.Array {
		r.Reset(m.blocks)
		for a := r.Array(); a.Next(); {
			all = append(all, readBlock(&r))
		}
	}
	kept := all[:0]
	for _, th := range all {
		if len(th.signature) > 0 || len(th.data) > 0 {
			kept = append(kept, th)
		}
	}
	return kept, nil
}

// addDetail reads an entry of reasoning_details. A client that collected a stream may have the pieces of one block as
// entries of their own.
func addDetail(all []thought, r *json.Reader) []thought {
	var kind, form, text, signature, data []byte
	var index int64
	placed := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Inside()
		case "format":
			form = r.Inside()
		case "text":
			text = r.Inside()
		case "signature":
			signature = r.Inside()
		case "data":
			data = r.Inside()
		case "index":
			index, placed = r.Int()
		}
	}
	if form != nil && string(form) != format {
		return all
	}
	switch string(kind) {
	case "reasoning.encrypted":
		if n := len(all); n > 0 && placed && all[n-1].placed && all[n-1].index == index && len(all[n-1].data) > 0 {
			return all
		}
		return append(all, thought{index: index, placed: placed, data: data})
	case "reasoning.text":
		n := len(all)
		if n == 0 || len(all[n-1].data) > 0 || all[n-1].placed != placed || all[n-1].index != index || !placed && len(all[n-1].signature) > 0 {
			all = append(all, thought{index: index, placed: placed})
			n++
		}
		th := &all[n-1]
		if len(text) > 0 {
			th.text = append(th.text, text)
		}
		if len(signature) > 0 {
			th.signature = signature
		}
	}
	return all
}

// readBlock reads an entry of thinking_blocks, which other gateways use: the provider's own form.
func readBlock(r *json.Reader) (th thought) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "thinking":
			if text := r.Inside(); len(text) > 0 {
				th.text = append(th.text, text)
			}
		case "signature":
			th.signature = r.Inside()
		case "data":
			th.data = r.Inside()
		}
	}
	return th
}

// interleaved says whether there is room for other blocks between the thoughts.
func interleaved(all []thought) bool {
	for i := 1; i < len(all); i++ {
		if !all[i].placed || !all[i-1].placed {
			return false
		}
		if all[i].index > all[i-1].index+1 {
			return true
		}
	}
	return false
}

func (t *translation) writeThought(th *thought) {
	w := t.w
	t.open("assistant")
	w.Object()
	w.Name("type")
	if len(th.data) > 0 {
		w.String("redacted_thinking")
		w.Name("data")
		w.Inside(th.data)
		w.EndObject()
		return
	}
	w.String("thinking")
	w.Name("thinking")
	switch len(th.text) {
	case 0:
		w.String("")
	case 1:
		w.Inside(th.text[0])
	default:
		t.scratch = t.scratch[:0]
		for _, piece := range th.text {
			t.scratch = append(t.scratch, piece...)
		}
		w.Inside(t.scratch)
	}
	w.Name("signature")
	w.Inside(th.signature)
	w.EndObject()
}
