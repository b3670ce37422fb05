package routing

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// AppendText appends the decision as human-readable text of several lines.
func (d *Decision) AppendText(dst []byte) []byte {
	line := func(name, format string, args ...any) {
		dst = fmt.Appendf(dst, "%-9s "+format+"\n", append([]any{name}, args...)...)
	}
	if rule := d.Rule(); rule != "" {
		line("rule", "%s", rule)
	}
	switch {
	case !d.policy.ReadsBudget:
	case d.budget.Of == "":
		line("budget", "none, so all is left")
	default:
		line("budget", "%s left, of %s", percent(d.budget.Left), appendPrintable(nil, d.budget.Of))
	}
	switch {
	case d.Affinity.Known:
		line("affinity", "%s, by %s: %016x", d.affinityName(), d.Affinity.From, d.Affinity.Sum)
	case d.affinityName() != "":
		line("affinity", "%s: not used for this request", d.affinityName())
	}
	if d.policy.Canary != nil {
		how := ""
		if d.canaryShare == 0 {
			how = ": " + d.policy.Canary.State.Status().Reason
		} else if d.canaryBy.Known {
			how = ", by the conversation (" + d.canaryBy.From + ")"
		}
		line("canary", "%s %s%s", appendName(nil, &d.policy.Targets[d.policy.Canary.Target]), d.canaryState(), how)
	}
	if d.Router != RouterNotAsked {
		words := ""
		if d.Words != "" {
			words = ": " + string(appendPrintable(nil, d.Words))
		}
		line("router", "%s %s%s", d.Plugin(), d.Router, words)
		if d.Err != nil {
			line("", "%v", d.Err)
		}
	}
	for i := range d.policy.Shadows {
		s, state := &d.policy.Shadows[i], "out"
		if slices.Contains(d.shadows, i) {
			state = "in"
		}
		line("shadow", "%s %s (%s)", appendName(nil, &s.Target), state, percent(s.Share))
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nORDER\tTARGET\tNOTE")
	for n, i := range d.order {
		note := []string{d.note(i)}
		if c := &d.candidates[i]; c.costed {
			note = append(note, "expected cost "+c.cost.String()+" USD")
		}
		fmt.Fprintf(t, "%d\t%s\t%s\n", n+1, appendName(nil, &d.policy.Targets[i]), strings.TrimPrefix(strings.Join(note, ", "), ", "))
	}
	for i := range d.candidates {
		if left := d.candidates[i].left; left != NotLeft {
			fmt.Fprintf(t, "-\t%s\tleft out: %s\n", appendName(nil, &d.policy.Targets[i]), leftWords[left])
		}
	}
	_ = t.Flush() // to memory
	for line := range bytes.Lines(b.Bytes()) {
		dst = append(append(dst, bytes.TrimRight(line, " \n")...), '\n')
	}
	return dst
}

// Odds is the share of decisions in which a target comes first.
type Odds struct {
	Target string // "provider/model"
	Share  float64
}

// Draws reports whether the order may depend on Request.Random.
func (d *Decision) Draws() bool {
	return d.Router == RouterOrdered || d.policy.Canary != nil && !d.canaryBy.Known
}

// Odds returns how often each target comes first in decisions of the policy, most frequent first. decide makes the nth
// decision, or returns false to stop.
func (p *Policy) Odds(decide func(n int, d *Decision) bool) (odds []Odds) {
	first, total := make([]int, len(p.Targets)), 0
	for d := new(Decision); decide(total, d); total++ {
		first[d.order[0]]++
	}
	for i, n := range first {
		if n > 0 {
			odds = append(odds, Odds{string(appendName(nil, &p.Targets[i])), float64(n) / float64(total)})
		}
	}
	slices.SortStableFunc(odds, func(a, b Odds) int { return cmp.Compare(b.Share, a.Share) })
	return odds
}

// leftWords are the reasons for leaving a target out, in words.
var leftWords = [...]string{
	LeftByWhen: "its condition (when) does not hold", LeftByRule: "the rule does not name it", LeftByRouter: "the router did not name it",
	LeftByCanary: "the canary does not take this request",
}
