package routing

import (
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// matches reports whether a condition holds for a request; a nil one always does. zone is the one of its times.
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

// matchesAny reports whether a pattern covers a name. None covers "": the name of a key that is not known, or of no team.
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

// withinTimes reports whether the time of day is within one of the ranges.
func withinTimes(times []config.DayTime, now time.Time, zone *time.Location) bool {
	if zone != nil {
		now = now.In(zone)
	}
	minute := now.Hour()*60 + now.Minute()
	for _, t := range times {
		within := t.From <= minute && minute < t.To
		if t.From >= t.To { // it passes midnight
			within = minute >= t.From || minute < t.To
		}
		if within {
			return true
		}
	}
	return false
}
