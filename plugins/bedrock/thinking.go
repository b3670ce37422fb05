package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// minBudget is the smallest thinking budget that Claude accepts.
const minBudget = 1024

// efforts maps reasoning_effort to a number of thinking tokens, an effort of Claude, and a level of Nova and gpt-oss. A
// Claude model with a thinking budget gets the tokens, one with adaptive thinking the native effort. A client's budget
// becomes the lowest effort with at least as many tokens.
var efforts = [...]struct {
	name   string
	tokens int64
	native string
	level  string
}{
	{"minimal", 1024, "low", "low"},
	{"low", 2048, "low", "low"},
	{"medium", 8192, "medium", "medium"},
	effortHigh: {"high", 16384, "high", "high"},
	{"xhigh", 32768, "xhigh", "high"},
	{"max", 65536, "max", "high"},
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

// effortFor returns the lowest effort with at least as many tokens as a budget, or the highest.
func effortFor(tokens int64) (effort int) {
	for effort < len(efforts)-1 && efforts[effort].tokens < tokens {
		effort++
	}
	return effort
}

// thinkingPlan contains the thinking parameters of the request.
type thinkingPlan struct {
	on     bool
	off    bool  // explicitly disabled
	budget int64 // for a Claude model with a thinking budget
	effort int   // index in efforts, -1 for the model's default
}

// setLimit sets maxTokens: the client's value, otherwise the model's default if one is configured.
func (t *translation) setLimit() {
	t.limitGiven = true
	switch {
	case t.MaxCompletionTokens > 0:
		t.limit = t.MaxCompletionTokens
		return
	case t.MaxTokens > 0:
		t.limit = t.MaxTokens
		return
	}
	t.limitGiven = false
	t.limit = max(t.r.DefaultMaxTokens, 0)
	if most := t.r.MaxTokens; most > 0 {
		t.limit = min(t.limit, most)
	}
}

// planThinking decides how the model thinks, and adjusts maxTokens, which includes thinking. The member thinking
// overrides reasoning_effort, which then only sets the effort of adaptive thinking.
func (t *translation) planThinking() (p thinkingPlan, err error) {
	p.effort = -1
	hasThinking := t.Thinking.Kind() == json.Object
	member := "reasoning_effort"
	if hasThinking {
		member = "thinking"
	} else if len(t.Effort) == 0 {
		t.thinks = t.o.family == claude && t.o.alwaysThinking
		return p, nil
	}
	if !hasThinking && string(t.Effort) != "none" && findEffort(t.Effort) < 0 {
		return p, translate.Invalid("invalid_value", "reasoning_effort", "Invalid reasoning_effort: want none, minimal, low, medium, high, xhigh or max.")
	}
	switch {
	case t.o.family == other:
		// The API has no member for thinking, and these models have no common parameter.
		t.warnDropped(true, member)
		return p, nil
	case t.o.family != claude:
		p = t.planLevel(hasThinking)
	case hasThinking:
		p, err = t.planThinkingMember()
	default:
		p = t.planEffort()
	}
	if err != nil {
		return p, err
	}
	if p.on && t.givesWay() || p.budget > 0 && t.results && t.bare {
		// In the second case, the response with these tool calls came without reasoning, or the client dropped it. A
		// model with a budget then accepts the results only without thinking.
		t.warnDropped(true, member)
		t.setLimit()
		p = thinkingPlan{}
	}
	t.thinks = p.on || t.o.family == claude && t.o.alwaysThinking
	return p, nil
}

// givesWay reports whether the client leaves thinking to a Claude model and forces a tool call, or a schema that takes
// one. No Claude model combines that with thinking.
func (t *translation) givesWay() bool {
	return t.o.family == claude && t.Thinking.Get("type").Is("adaptive") &&
		(translate.ForcesTool(t.ToolChoice) || t.ResponseFormat.Get("type").Is("json_schema") && !t.o.nativeSchema())
}

// planLevel plans for a model with effort levels. hasThinking reports whether the client sent the member thinking.
func (t *translation) planLevel(hasThinking bool) (p thinkingPlan) {
	p.effort = findEffort(t.Effort)
	if hasThinking {
		tokens, _ := t.Thinking.Get("budget_tokens").Int()
		t.warnDropped(len(t.Effort) > 0 && tokens > 0, "reasoning_effort")
		switch {
		case t.Thinking.Get("type").Is("disabled"):
			p.effort = -1
		case tokens > 0:
			p.effort = effortFor(tokens)
		case p.effort < 0:
			p.effort = effortMedium
		}
	}
	p.on = p.effort >= 0
	if p.on && t.o.family == nova && efforts[p.effort].level == "high" {
		// At its highest effort Nova rejects maxTokens.
		if t.limitGiven {
			t.r.Warn(abi.WarnClamped, "reasoning_effort")
			p.effort = effortMedium
		} else {
			t.limit = 0
		}
	}
	return p
}

// planThinkingMember plans for a Claude model by the client's member thinking.
func (t *translation) planThinkingMember() (p thinkingPlan, err error) {
	p.effort = -1
	kind := t.Thinking.Get("type")
	tokens, _ := t.Thinking.Get("budget_tokens").Int()
	adaptive := kind.Is("adaptive") && tokens == 0
	t.warnDropped(len(t.Effort) > 0 && !(adaptive && (t.o.adaptive || findEffort(t.Effort) >= 0)), "reasoning_effort")
	switch {
	case kind.Is("disabled"):
		p.off = !t.o.alwaysThinking
		t.warnDropped(!p.off, "thinking")
		return p, nil
	case adaptive && !t.o.adaptive:
		// The client wants adaptive thinking, which this model lacks. The effort determines the budget.
		effort := findEffort(t.Effort)
		if effort < 0 {
			effort = effortMedium
		}
		return t.planTokens(efforts[effort].tokens, "thinking"), nil
	case tokens == 0 && t.o.adaptive:
		p.on = true
		if effort := findEffort(t.Effort); adaptive && effort >= 0 {
			p.effort = t.clampEffort(effort)
		}
		return p, nil
	case tokens == 0:
		return t.planTokens(efforts[effortMedium].tokens, "thinking"), nil
	case tokens < minBudget:
		return p, &sdk.Failure{
			Kind: abi.FailInvalidRequest, Code: "integer_below_min_value", Param: "thinking.budget_tokens",
			Message: "This provider's models need a budget of at least " + translate.Itoa(minBudget) + " tokens to think.",
		}
	}
	t.raiseLimit(tokens)
	if t.limit > 0 && tokens >= t.limit {
		return p, translate.Invalid("invalid_value", "thinking.budget_tokens",
			"The budget for thinking ("+translate.Itoa(tokens)+") must be below max_tokens ("+translate.Itoa(t.limit)+"), which includes it.")
	}
	p.on = true
	if t.o.adaptive {
		p.effort = min(effortFor(tokens), t.highestEffort())
	} else {
		p.budget = tokens
	}
	return p, nil
}

// planEffort plans for a Claude model by the client's reasoning_effort.
func (t *translation) planEffort() (p thinkingPlan) {
	p.effort = -1
	if string(t.Effort) == "none" {
		t.warnDropped(t.o.alwaysThinking, "reasoning_effort")
		p.off = t.o.adaptive && !t.o.alwaysThinking
		return p
	}
	effort := findEffort(t.Effort)
	if t.o.adaptive {
		effort = t.clampEffort(effort)
	}
	tokens := efforts[effort].tokens
	if t.o.adaptive {
		t.raiseLimit(tokens)
		return thinkingPlan{on: true, effort: effort}
	}
	return t.planTokens(tokens, "reasoning_effort")
}

// planTokens plans a budget that the client did not set itself, so it may be reduced to fit the limit. member is the
// member that requested thinking.
func (t *translation) planTokens(tokens int64, member string) thinkingPlan {
	t.raiseLimit(tokens)
	if t.limit > 0 && tokens >= t.limit {
		if tokens = t.limit / 2; tokens < minBudget {
			t.warnDropped(true, member)
			return thinkingPlan{effort: -1}
		}
		t.r.Warn(abi.WarnClamped, member)
	}
	return thinkingPlan{on: true, budget: tokens, effort: -1}
}

func (t *translation) highestEffort() int { return max(t.o.highestEffort, effortHigh) }

// clampEffort limits an effort to the model's highest, with a warning.
func (t *translation) clampEffort(effort int) int {
	if most := t.highestEffort(); effort > most {
		t.r.Warn(abi.WarnClamped, "reasoning_effort")
		return most
	}
	return effort
}

// raiseLimit raises maxTokens by the thinking tokens, unless the client set it, so that thinking does not take space
// from the response.
func (t *translation) raiseLimit(tokens int64) {
	if t.limitGiven || t.limit == 0 {
		return
	}
	t.limit += tokens
	if most := t.r.MaxTokens; most > 0 {
		t.limit = min(t.limit, most)
	}
}
