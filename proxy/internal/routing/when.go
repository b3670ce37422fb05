package routing

import (
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// matches reports whether a condition holds for a request. A nil condition always does. zone is the time zone of its
// times.
func matches(w *config.When, r *Request, now time.Time, zone *time.Location) bool {
	if w == nil {
		return true
	}
	switch {
	case w.Stream != nil && *w.Stream != r.Stream,
		w.Tools != nil && *w.Tools != (r.Tools > 0),
		w.Images != nil && *w.Images != (r.Images > 0),
		w.Thinking != nil && *w.Thinking != r.Thinking,
		r.PromptTokens < w.PromptFrom,
		w.PromptTo > 0 && r.PromptTokens >= w.PromptTo,
		len(w.APIs) > 0 && !slices.Contains(w.APIs, r.API),
		len(w.Keys) > 0 && !matchesAny(w.Keys, r.Key),
		len(w.Teams) > 0 && !matchesAny(w.Teams, r.Team):
		return false
	}
	for i := range w.Tags {
		value, tagged := r.KeyTags[w.Tags[i].Name]
		if !tagged || !matchesAny(w.Tags[i].Values, value) {
			return false
		}
	}
	return (len(w.Times) == 0 || withinTimes(w.Times, now, zone)) && matchesClient(w, r)
}

// matchesClient reports whether the conditions about the client, and about what it may spend, hold.
func matchesClient(w *config.When, r *Request) bool {
	if w.BudgetLeft != nil && !w.BudgetLeft.Contains(r.Budget.Left) {
		return false
	}
	for i := range w.Headers {
		m := &w.Headers[i]
		if r.Identity.Header == nil || !matchesAny(m.Values, string(r.Identity.Header.Peek(m.Name))) {
			return false
		}
	}
	for i := range w.Claims {
		m := &w.Claims[i]
		if !slices.ContainsFunc(r.Claims[m.Claim], func(value string) bool { return matchesAny(m.Values, value) }) {
			return false
		}
	}
	if len(w.Metadata)+len(w.Parameters) == 0 {
		return true
	}
	if r.Identity.Doc == nil {
		return false
	}
	root := r.Identity.Doc.Root()
	for i := range w.Metadata {
		m := &w.Metadata[i]
		v := root.Get("metadata").Get(m.Name)
		if !v.Exists() {
			v = root.Get("labels").Get(m.Name)
		}
		text := v.Text()
		if v.Kind() != jsondoc.String {
			text = string(v.Raw())
		}
		if v.Kind() >= jsondoc.Object || !matchesAny(m.Values, text) {
			return false
		}
	}
	for i := range w.Parameters {
		p := &w.Parameters[i]
		v := root.Get(p.Name)
		if !v.Exists() {
			v = root.Get("generationConfig").Get(geminiNames[p.Name])
		}
		if n, ok := v.Float(); !ok || !p.Contains(n) {
			return false
		}
	}
	return true
}

// geminiNames are the names that Gemini's generationConfig has for the parameters of conditions.
var geminiNames = map[string]string{
	"temperature": "temperature", "top_p": "topP", "top_k": "topK", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty",
	"n": "candidateCount", "seed": "seed",
}

// Candidates returns the targets that conditions and rules leave for a request: those that Decide can choose.
func (p *Policy) Candidates(r *Request, now time.Time) (left []Target) {
	var d Decision
	d.reset(p)
	p.leaveOut(r, now, &d)
	for i := range d.candidates {
		if d.candidates[i].left == NotLeft {
			left = append(left, p.Targets[i])
		}
	}
	return left
}

// BudgetShare is the share of the tightest budget of a request that is not spent.
type BudgetShare struct {
	Left float64 // 1 without a budget
	Of   string  // the budget, such as "key ana per day"; "" without one
}

// matchesAny reports whether any pattern matches a name. The empty name, which stands for an unknown key or no team,
// never matches.
func matchesAny(patterns []config.Glob, name string) bool {
	if name == "" {
		return false
	}
	for _, p := range patterns {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// withinTimes reports whether the time of day is in any of the ranges.
func withinTimes(times []config.DayTime, now time.Time, zone *time.Location) bool {
	if zone != nil {
		now = now.In(zone)
	}
	minute := now.Hour()*60 + now.Minute()
	for _, t := range times {
		within := t.From <= minute && minute < t.To
		if t.From >= t.To { // the range spans midnight
			within = minute >= t.From || minute < t.To
		}
		if within {
			return true
		}
	}
	return false
}
