package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// level is a thinking level.
type level int

const (
	levelMinimal level = iota
	levelLow
	levelMedium
	levelHigh

	levels = 4 // number of levels
)

// levelWords are the names of the levels in the provider's API and in the options.
var levelWords = [levels]struct{ wire, option string }{
	{"MINIMAL", "minimal"}, {"LOW", "low"}, {"MEDIUM", "medium"}, {"HIGH", "high"},
}

// levelSet is the set of levels that a model supports, one bit each.
type levelSet uint8

func readLevels(r *json.Reader) (set levelSet, ok bool) {
	ok = r.Kind() == json.Array
	for a := r.Array(); a.Next(); {
		known := false
		word := r.Text()
		for i := range levelWords {
			if levelWords[i].option == string(word) {
				set |= 1 << i
				known = true
			}
		}
		ok = ok && known
	}
	return set, ok && set != 0
}

// nearest returns the lowest level of the set that is not below l, otherwise the highest.
func (set levelSet) nearest(l level) level {
	for up := l; up < levels; up++ {
		if set&(1<<up) != 0 {
			return up
		}
	}
	for ; l > 0 && set&(1<<l) == 0; l-- {
	}
	return l
}

// efforts maps reasoning_effort to a budget and a level. The provider's own compatibility layer for the OpenAI API uses
// the same numbers (https://ai.google.dev/gemini-api/docs/openai).
var efforts = [...]struct {
	name    string
	budget  int64
	level   level
	clamped bool // the provider has no effort as high
}{
	{"minimal", 1024, levelMinimal, false},
	{"low", 1024, levelLow, false},
	{"medium", 8192, levelMedium, false},
	{"high", 24576, levelHigh, false},
	{"xhigh", 24576, levelHigh, true},
	{"max", 24576, levelHigh, true},
}

// The smallest budgets that become the levels medium and high.
const (
	mediumBudget = 4096
	highBudget   = 16384
)

// dynamicBudget lets the model decide how much it thinks.
const dynamicBudget = -1

// writeThinking writes thinkingConfig. The member thinking overrides reasoning_effort, which then only sets the effort
// of adaptive thinking.
func (t *translation) writeThinking() error {
	if t.Thinking.Kind() != json.Object {
		return t.writeEffort(t.Effort)
	}
	kind := t.Thinking.Get("type")
	budget, given := t.Thinking.Get("budget_tokens").Int()
	if kind.Is("adaptive") && !given && len(t.Effort) > 0 && string(t.Effort) != "none" {
		return t.writeEffort(t.Effort)
	}
	t.warnDropped(len(t.Effort) > 0, "reasoning_effort")
	switch {
	case kind.Is("disabled"):
		t.writeNoThinking("thinking")
	case !given && t.o.byLevel == translate.Yes:
		t.writeThinkingConfig("", 0)
	case !given:
		t.writeThinkingConfig("", dynamicBudget)
	case t.o.byLevel == translate.Yes:
		l := levelLow
		if budget >= highBudget {
			l = levelHigh
		} else if budget >= mediumBudget {
			l = levelMedium
		}
		t.r.Warn(abi.WarnChanged, "thinking.budget_tokens")
		t.writeThinkingConfig(levelWords[t.o.levels.nearest(l)].wire, 0)
	default:
		t.writeThinkingConfig("", budget)
	}
	return nil
}

// writeEffort writes the thinking configuration for a reasoning_effort.
func (t *translation) writeEffort(effort []byte) error {
	if len(effort) == 0 {
		return nil
	}
	if string(effort) == "none" {
		t.writeNoThinking("reasoning_effort")
		return nil
	}
	for _, e := range efforts {
		if e.name != string(effort) {
			continue
		}
		clamped := e.clamped
		if t.o.byLevel == translate.Yes {
			l := t.o.levels.nearest(e.level)
			clamped = clamped || l < e.level
			if l > e.level {
				t.r.Warn(abi.WarnChanged, "reasoning_effort")
			}
			t.writeThinkingConfig(levelWords[l].wire, 0)
		} else {
			t.writeThinkingConfig("", e.budget)
		}
		if clamped {
			t.r.Warn(abi.WarnClamped, "reasoning_effort")
		}
		return nil
	}
	return translate.Invalid("invalid_value", "reasoning_effort", "Invalid reasoning_effort: want none, minimal, low, medium, high, xhigh or max.")
}

// writeNoThinking disables thinking. A model with levels gets its lowest level; for a model that always thinks nothing
// is sent. member is the member that disabled it.
func (t *translation) writeNoThinking(member string) {
	w := t.w
	switch {
	case t.o.byLevel == translate.Yes:
		t.r.Warn(abi.WarnClamped, member)
		t.beginConfig("thinkingConfig")
		w.Object()
		w.Name("thinkingLevel")
		w.String(levelWords[t.o.levels.nearest(levelMinimal)].wire)
		w.EndObject()
	case t.o.alwaysThinking == translate.Yes:
		t.r.Warn(abi.WarnDropped, member)
	default:
		t.beginConfig("thinkingConfig")
		w.Object()
		w.Name("thinkingBudget")
		w.Int(0)
		w.EndObject()
	}
}

// writeThinkingConfig requests thoughts, with a level, a budget or neither.
func (t *translation) writeThinkingConfig(level string, budget int64) {
	w := t.w
	t.beginConfig("thinkingConfig")
	w.Object()
	if level != "" {
		w.Name("thinkingLevel")
		w.String(level)
	}
	if budget != 0 {
		w.Name("thinkingBudget")
		w.Int(budget)
	}
	w.Name("includeThoughts")
	w.Bool(true)
	w.EndObject()
}
