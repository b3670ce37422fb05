package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// minBudget is the smallest thinking budget that the API accepts.
const minBudget = 1024

// efforts maps reasoning_effort to a number of thinking tokens and to an effort of output_config. A model with a
// thinking budget gets the tokens, a model with adaptive thinking the effort. A client's budget becomes the lowest
// effort with at least as many tokens.
var efforts = [...]struct {
	name   string
	tokens int64
	native string
}{
	{"minimal", 1024, "low"},
	{"low", 2048, "low"},
	{"medium", 8192, "medium"},
	effortHigh: {"high", 16384, "high"},
	{"xhigh", 32768, "xhigh"},
	{"max", 65536, "max"},
}

const (
	effortMedium = 2 // for thinking without a budget
	effortHigh   = 3 // the highest effort that every model with efforts supports
)

// findEffort returns the index of an effort by name, -1 if it is unknown.
func findEffort(name []byte) int {
	for i := range efforts {
		if efforts[i].name == string(name) {
			return i
		}
	}
	return -1
}

// clampEffort limits an effort to the model's highest.
func (o *options) clampEffort(effort int) int { return min(effort, max(o.highestEffort, effortHigh)) }

// thinkingPlan contains the thinking parameters of the request.
type thinkingPlan struct {
	on     bool
	off    bool   // explicitly disabled
	budget int64  // for a model with a thinking budget
	effort string // effort of output_config; empty for the model's default
}

// planThinking decides how the model thinks, and adjusts max_tokens, which includes thinking. The member thinking
// overrides reasoning_effort, which then only sets the effort of a model with adaptive thinking.
func (t *translation) planThinking() (p thinkingPlan, err error) {
	member := "reasoning_effort"
	if t.thinking.Kind() == json.Object {
		member = "thinking"
		p, err = t.planThinkingMember()
	} else if len(t.effort) > 0 {
		p, err = t.planEffort()
	}
	if err != nil {
		return p, err
	}
	if p.on && (t.givesWay() || !t.o.adaptive && t.results && t.bare) {
		// In the second case, the response with these tool calls came without reasoning, or the client dropped it. A
		// model with a budget then accepts the results only without thinking.
		t.r.Warn(abi.WarnDropped, member)
		t.setLimit()
		p = thinkingPlan{}
	}
	t.thinks = p.on || t.o.alwaysThinking
	return p, nil
}

// givesWay reports whether the client leaves thinking to the model and forces a tool call, or a schema that takes one.
// No model combines that with thinking.
func (t *translation) givesWay() bool {
	return t.thinking.Get("type").Is("adaptive") &&
		(translate.ForcesTool(t.toolChoice) || t.responseFormat.Get("type").Is("json_schema") && !t.o.nativeSchema)
}

// planThinkingMember reads the member thinking.
func (t *translation) planThinkingMember() (p thinkingPlan, err error) {
	kind := t.thinking.Get("type")
	tokens, _ := t.thinking.Get("budget_tokens").Int()
	adaptive := kind.Is("adaptive") && tokens == 0
	t.warnDropped(len(t.effort) > 0 && !(adaptive && (t.o.adaptive || findEffort(t.effort) >= 0)), "reasoning_effort")
	switch {
	case kind.Is("disabled"):
		if p.off = !t.o.alwaysThinking; !p.off {
			t.r.Warn(abi.WarnDropped, "thinking")
		}
		return p, nil
	case adaptive && !t.o.adaptive:
		// The client wants adaptive thinking, which this model lacks. The effort determines the budget.
		effort := findEffort(t.effort)
		if effort < 0 {
			effort = effortMedium
		}
		return t.planTokens(efforts[effort].tokens, "thinking"), nil
	case tokens == 0 && t.o.adaptive:
		if effort := findEffort(t.effort); adaptive && effort >= 0 {
			p.effort = efforts[t.adaptiveEffort(effort)].native
		}
		p.on = true
		return p, nil
	case tokens == 0:
		return t.planTokens(efforts[effortMedium].tokens, "thinking"), nil
	case tokens < minBudget:
		return p, translate.Invalid("integer_below_min_value", "thinking.budget_tokens", "This provider's models need a budget of at least "+translate.Itoa(minBudget)+" tokens to think.")
	}
	t.raiseLimit(tokens)
	if tokens >= t.limit {
		return p, translate.Invalid("invalid_value", "thinking.budget_tokens",
			"The budget for thinking ("+translate.Itoa(int(tokens))+") must be below max_tokens ("+translate.Itoa(int(t.limit))+"), which includes it.")
	}
	p.on = true
	if !t.o.adaptive {
		p.budget = tokens
		return p, nil
	}
	effort := 0
	for effort < len(efforts)-1 && efforts[effort].tokens < tokens {
		effort++
	}
	p.effort = efforts[t.o.clampEffort(effort)].native
	return p, nil
}

// planEffort reads the member reasoning_effort.
func (t *translation) planEffort() (p thinkingPlan, err error) {
	if string(t.effort) == "none" {
		t.warnDropped(t.o.alwaysThinking, "reasoning_effort")
		p.off = t.o.adaptive && !t.o.alwaysThinking
		return p, nil
	}
	effort := findEffort(t.effort)
	if effort < 0 {
		return p, translate.Invalid("invalid_value", "reasoning_effort", "Invalid reasoning_effort: want none, minimal, low, medium, high, xhigh or max.")
	}
	if t.o.adaptive {
		effort = t.adaptiveEffort(effort)
	}
	tokens := efforts[effort].tokens
	if t.o.adaptive {
		t.raiseLimit(tokens)
		return thinkingPlan{on: true, effort: efforts[effort].native}, nil
	}
	return t.planTokens(tokens, "reasoning_effort"), nil
}

// planTokens plans a budget that the client did not set itself, so it may be reduced to fit the limit. member is the
// member that requested thinking.
func (t *translation) planTokens(tokens int64, member string) thinkingPlan {
	t.raiseLimit(tokens)
	if tokens >= t.limit {
		if tokens = t.limit / 2; tokens < minBudget {
			t.r.Warn(abi.WarnDropped, member)
			return thinkingPlan{}
		}
		t.r.Warn(abi.WarnClamped, member)
	}
	return thinkingPlan{on: true, budget: tokens}
}

// adaptiveEffort limits an effort to the model's highest, with a warning.
func (t *translation) adaptiveEffort(effort int) int {
	most := t.o.clampEffort(effort)
	if most < effort {
		t.r.Warn(abi.WarnClamped, "reasoning_effort")
	}
	return most
}

// raiseLimit raises max_tokens by the thinking tokens, unless the client set it, so that thinking does not take space
// from the response.
func (t *translation) raiseLimit(tokens int64) {
	if t.limitGiven {
		return
	}
	t.limit += tokens
	if most := t.r.MaxTokens; most > 0 {
		t.limit = min(t.limit, most)
	}
}

func (t *translation) writeThinking(p *thinkingPlan) {
	w := t.w
	if !p.on && !p.off {
		return
	}
	w.Name("thinking")
	w.Object()
	w.Name("type")
	switch {
	case p.off:
		w.String("disabled")
	case p.budget > 0:
		w.String("enabled")
		w.Name("budget_tokens")
		w.Int(p.budget)
	default:
		w.String("adaptive")
	}
	// Models with a budget show a summary by default, and not all clouds accept the member for them.
	if display := t.thinking.Get("display").Inside(); display != nil && p.on && (p.budget == 0 || string(display) != "summarized") {
		w.Name("display")
		w.Inside(display)
	}
	w.EndObject()
}
