package routing

import (
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
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
	return len(w.Times) == 0 || withinTimes(w.Times, now, zone)
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
