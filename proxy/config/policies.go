package config

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// retry reads how often each target is tried. A model's only target is tried twice by default, since there is no other.
func retry(t *table, targets int) Retry {
	r, unset := t.table("retry"), DefaultRetry(targets)
	out := Retry{
		Attempts: int(r.integer("attempts", int64(unset.Attempts), 1, 10)),
		Backoff:  r.duration("backoff", unset.Backoff, 0, time.Minute),
	}
	r.finish()
	return out
}

// DefaultRetry returns the default for how often each target is tried, for a model with that many targets.
func DefaultRetry(targets int) Retry {
	if targets == 1 {
		return Retry{Attempts: 2, Backoff: 200 * time.Millisecond}
	}
	return Retry{Attempts: 1, Backoff: 200 * time.Millisecond}
}

// hedge reads when a hedged request is sent to a second target.
func hedge(t *table, targets int) *Hedge {
	h := t.table("hedge")
	out := &Hedge{Budget: h.share("budget", 0.05)}
	switch after, n := h.text("after"); {
	case n == nil, strings.HasPrefix(after, "p"):
		out.Quantile = 0.95
		if n != nil {
			out.Quantile = h.percentile(n, "after")
		}
	default:
		out.After = h.duration("after", time.Second, time.Millisecond, hour)
	}
	if h.exists() && targets < 2 {
		t.fail(h.n, "hedge", "a hedge needs a second target; the model has one")
	}
	h.finish()
	if !h.exists() {
		return nil
	}
	return out
}

// percentile returns a share written as a percentile, such as "p95".
func (t *table) percentile(n *node, name string) float64 {
	v, err := strconv.ParseFloat(n.text[1:], 64)
	if err != nil || !(v > 0 && v < 100) {
		t.fail(n, name, `%s is not a percentile; write one such as "p95", or a duration such as "2s"`, show(n))
		return 0.95
	}
	return v / 100
}

// shadows reads the targets that get copies of requests.
func (l *loader) shadows(tables []table, m *Model) (all []Shadow) {
	for i := range tables {
		t := &tables[i]
		var s Shadow
		var inherited object
		s.Provider, s.Model, inherited = l.targetNamed(t, m)
		s.Share = t.share("share", 0.01)
		own := t.table("options")
		s.Options = inherited.over(own.free()).raw()
		if at, ok := l.providers[s.Provider]; ok {
			l.checkLater(t, "options", l.cfg.Providers[at].Plugin, false)
		}
		t.finish()
		all = append(all, s)
	}
	return all
}

// canary reads the target that gets a growing share of requests.
func (l *loader) canary(t *table, m *Model) *Canary {
	c := t.table("canary")
	out := &Canary{Options: json.RawMessage("{}")}
	if c.exists() {
		var options object
		out.Provider, out.Model, options = l.targetNamed(&c, m)
		out.Options = options.raw()
		if slices.ContainsFunc(m.Targets, func(g Target) bool { return g.Provider == out.Provider && g.Model == out.Model && g.Provider != "" }) {
			c.fail(c.lookUp("target"), "target", "is also one of the model's targets, which get all other requests: remove it there")
		}
	} else {
		c.lookUp("target")
	}
	out.Steps = c.steps("steps")
	out.Every = c.duration("every", 10*time.Minute, time.Second, 30*day)
	back := c.table("back_on")
	out.MaxErrors = back.share("errors", 0.05)
	out.MaxTraps = int(back.integer("traps", 1, 1, 1<<20))
	back.finish()
	c.finish()
	if !c.exists() {
		return nil
	}
	return out
}

// targetNamed reads the key target, which is "provider/model", or "provider" for the model's id. options are those of
// the model's target with that name if there is one, otherwise the provider's.
func (l *loader) targetNamed(t *table, m *Model) (provider, model string, options object) {
	name, n := t.required("target")
	if n == nil {
		return "", "", nil
	}
	provider, model, named := strings.Cut(name, "/")
	if !named {
		model = m.ID
	}
	if _, ok := l.providers[provider]; !ok {
		l.unknownProvider(t, n, "target", provider)
		return "", "", nil
	}
	if err := checkID(model); err != nil {
		t.fail(n, "target", `%s: want "provider/model"; the model %v`, show(n), err)
	}
	for i, g := range m.Targets {
		if g.Provider == provider && g.Model == model {
			return provider, model, l.targetOptions[i]
		}
	}
	return provider, model, l.providerOptions[provider]
}

// unknownProvider reports the name of a provider that is not configured.
func (l *loader) unknownProvider(t *table, n *node, member, name string) {
	var known []string
	for _, p := range l.cfg.Providers {
		known = append(known, p.Name)
	}
	shown := show(n)
	if len(n.vars()) == 0 && name != n.text {
		shown = strconv.Quote(name)
	}
	t.fail(n, member, "unknown provider %s%s", shown, suggest(name, known))
}

// maxSteps limits the number of steps of a canary.
const maxSteps = 32

// steps returns ascending shares, written as percentages such as "10%".
func (t *table) steps(name string) (steps []float64) {
	if t.exists() && !t.has(name) {
		t.fail(nil, name, `is missing; write steps such as ["1%%", "10%%", "50%%"]`)
	}
	elements, there := t.strings(name)
	if there && len(elements) == 0 && t.lookUp(name).kind == kindArray && len(t.lookUp(name).items) == 0 || len(elements) > maxSteps {
		t.fail(t.lookUp(name), name, "must have 1 to %d steps", maxSteps)
	}
	for _, e := range elements {
		number, percent := strings.CutSuffix(e.text, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		switch {
		case !percent || err != nil:
			t.fail(e, name, `%s is not a percentage; write one such as "10%%"`, show(e))
		case !(v > 0 && v <= 100):
			t.fail(e, name, "%s must be above 0%% and at most 100%%", show(e))
		case len(steps) > 0 && v/100 <= steps[len(steps)-1]:
			t.fail(e, name, "%s must be more than the previous step", show(e))
		default:
			steps = append(steps, v/100)
		}
	}
	return steps
}
