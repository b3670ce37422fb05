package routing

import (
	"slices"
	"strconv"
	"strings"
)

const (
	// maxListed is the maximum length of each list of targets or attempts in a line.
	maxListed = 16
	// maxWords is the maximum length in bytes of a router plugin's explanation in a line.
	maxWords = 256
)

// AppendLine appends the decision as one line of printable ASCII, for a header and the log:
//
//	rule small; affinity conversation 9f86d081884c7d65 (x-session-id); router ordered: weighted: a m, then b n;
//	order a/m, b/n (circuit open); left out c/o (when); shadow d/p; attempts a/m 529 overloaded 12ms, b/n 200 340ms
//
// Parts are separated by semicolons, and the elements of lists by commas. In names, these separators, percent signs,
// spaces, parentheses and unprintable characters are percent-encoded, so that the line is unambiguous.
func (d *Decision) AppendLine(dst []byte) []byte {
	start := len(dst)
	part := func(name string) {
		if len(dst) > start {
			dst = append(dst, "; "...)
		}
		dst = append(append(dst, name...), ' ')
	}
	if rule := d.Rule(); rule != "" {
		part("rule")
		dst = appendWord(dst, rule)
	}
	if d.policy != nil && d.policy.ReadsBudget {
		part("budget")
		dst = append(append(dst, percent(d.budget.Left)...), " left"...)
	}
	if d.Affinity.Known {
		part("affinity")
		dst = append(appendHex(append(appendWord(dst, d.affinityName()), ' '), d.Affinity.Sum), " ("...)
		dst = append(appendWord(dst, d.Affinity.From), ')')
	}
	if d.policy != nil && d.policy.Canary != nil {
		part("canary")
		dst = append(append(appendTarget(dst, &d.policy.Targets[d.policy.Canary.Target]), ' '), d.canaryState()...)
	}
	if d.Router != RouterNotAsked {
		part("router")
		dst = append(dst, d.Router.String()...)
		if d.Words != "" {
			dst = appendPrintable(append(dst, ": "...), strings.ReplaceAll(d.Words[:min(len(d.Words), maxWords)], ";", ","))
		}
	}
	if len(d.order) > 0 {
		part("order")
		dst = d.appendTargets(dst, d.order, d.note)
	}
	var left []int
	for i := range d.candidates {
		if d.candidates[i].left != NotLeft {
			left = append(left, i)
		}
	}
	if len(left) > 0 {
		part("left out")
		dst = d.appendTargets(dst, left, func(i int) string { return leftNames[d.candidates[i].left] })
	}
	for n, i := range d.shadows[:min(len(d.shadows), maxListed)] {
		if n == 0 {
			part("shadow")
		} else {
			dst = append(dst, ", "...)
		}
		dst = appendTarget(dst, &d.policy.Shadows[i].Target)
	}
	if len(d.attempts) > 0 {
		part("attempts")
		dst = d.appendAttempts(dst)
	}
	return dst
}

// note returns a remark about a target in the order, or "".
func (d *Decision) note(i int) string {
	switch {
	case d.candidates[i].skip != "":
		return "skipped: " + d.candidates[i].skip
	case i == d.order[0] && d.Previous:
		return "has the previous response"
	case !d.candidates[i].ready:
		return "circuit open"
	}
	return ""
}

// canaryState describes whether the request belongs to the canary, and which share of the requests does.
func (d *Decision) canaryState() string {
	switch {
	case d.canaryShare == 0:
		return "rolled back"
	case d.inCanary:
		return "in (" + percent(d.canaryShare) + ")"
	}
	return "out (" + percent(d.canaryShare) + ")"
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + "%" }

// appendCanary appends the policy's canary as a JSON object.
func (d *Decision) appendCanary(dst []byte) []byte {
	c := d.policy.Canary
	dst = appendString(append(dst, `{"target":`...), string(appendName(nil, &d.policy.Targets[c.Target])))
	dst = strconv.AppendBool(append(dst, `,"in":`...), d.inCanary)
	if d.canaryBy.Known {
		dst = appendString(append(dst, `,"by":`...), d.canaryBy.From)
	}
	dst = strconv.AppendFloat(append(dst, `,"share":`...), d.canaryShare, 'f', -1, 64)
	if d.canaryShare == 0 {
		dst = appendString(append(dst, `,"rolled_back":`...), c.State.Status().Reason)
	}
	return append(dst, '}')
}

// appendShadows appends the policy's shadows as elements of a JSON array, and the end of the array.
func (d *Decision) appendShadows(dst []byte) []byte {
	for i := range d.policy.Shadows {
		s := &d.policy.Shadows[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"target":`...), string(appendName(nil, &s.Target)))
		dst = strconv.AppendFloat(append(dst, `,"share":`...), s.Share, 'f', -1, 64)
		dst = append(strconv.AppendBool(append(dst, `,"in":`...), slices.Contains(d.shadows, i)), '}')
	}
	return append(dst, ']')
}

// appendTargets appends a list of targets, each with its note.
func (d *Decision) appendTargets(dst []byte, indexes []int, note func(i int) string) []byte {
	for n, i := range indexes {
		if n > 0 {
			dst = append(dst, ", "...)
		}
		if n == maxListed {
			return append(strconv.AppendInt(dst, int64(len(indexes)-n), 10), " more"...)
		}
		dst = appendTarget(dst, &d.policy.Targets[i])
		if remark := note(i); remark != "" {
			dst = append(append(append(dst, " ("...), remark...), ')')
		}
	}
	return dst
}

func (d *Decision) appendAttempts(dst []byte) []byte {
	for n := range d.attempts {
		a := &d.attempts[n]
		if n > 0 {
			dst = append(dst, ", "...)
		}
		if n == maxListed {
			return append(strconv.AppendInt(dst, int64(len(d.attempts)-n), 10), " more"...)
		}
		dst = appendTarget(dst, a.Target)
		if a.Why != "" {
			dst = append(append(append(dst, " ("...), a.Why...), ')')
		}
		if !a.Ended {
			dst = append(dst, " under way"...)
			continue
		}
		if a.Status != 0 {
			dst = strconv.AppendInt(append(dst, ' '), int64(a.Status), 10)
		}
		if a.Code != "" {
			dst = appendWord(append(dst, ' '), a.Code)
		}
		if a.Code != NotPermitted && a.Code != Unpriced && a.Code != Spent && a.Code != BudgetSpent {
			dst = append(strconv.AppendInt(append(dst, ' '), a.Took.Milliseconds(), 10), "ms"...)
		}
	}
	return dst
}

// AppendJSON appends the decision as a JSON object.
func (d *Decision) AppendJSON(dst []byte) []byte {
	model := ""
	if d.policy != nil {
		model = d.policy.Model
	}
	dst = appendString(append(dst, `{"model":`...), model)
	if rule := d.Rule(); rule != "" {
		dst = appendString(append(dst, `,"rule":`...), rule)
	}
	if d.policy != nil && d.policy.ReadsBudget {
		dst = strconv.AppendFloat(append(dst, `,"budget":{"left":`...), d.budget.Left, 'f', 4, 64)
		dst = append(appendString(append(dst, `,"of":`...), d.budget.Of), '}')
	}
	if name := d.affinityName(); name != "" {
		dst = appendString(append(dst, `,"affinity":{"by":`...), name)
		if d.Affinity.Known {
			dst = appendString(append(dst, `,"from":`...), d.Affinity.From)
			dst = append(appendHex(append(dst, `,"hash":"`...), d.Affinity.Sum), '"')
		}
		dst = append(dst, '}')
	}
	if d.policy != nil && d.policy.Canary != nil {
		dst = d.appendCanary(append(dst, `,"canary":`...))
	}
	if d.Router != RouterNotAsked {
		dst = appendString(append(dst, `,"router":{"plugin":`...), d.Plugin())
		dst = appendString(append(dst, `,"outcome":`...), d.Router.String())
		if d.Words != "" {
			dst = appendString(append(dst, `,"words":`...), d.Words)
		}
		if d.Err != nil {
			dst = appendString(append(dst, `,"error":`...), d.Err.Error())
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"targets":[`...)
	for i := range d.candidates {
		c, t := &d.candidates[i], &d.policy.Targets[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"target":`...), string(appendName(nil, t)))
		switch {
		case c.left != NotLeft:
			dst = appendString(append(dst, `,"left_out":`...), leftNames[c.left])
		case !c.ready:
			dst = append(dst, `,"circuit_open":true`...)
		}
		if c.skip != "" {
			dst = appendString(append(dst, `,"skipped":`...), c.skip)
		}
		if c.costed {
			dst = c.cost.Append(append(dst, `,"expected_cost":`...))
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"order":[`...)
	for n, i := range d.order {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, string(appendName(nil, &d.policy.Targets[i])))
	}
	dst = append(dst, ']')
	if d.Previous {
		dst = append(dst, `,"previous_response":true`...)
	}
	if d.policy != nil && len(d.policy.Shadows) > 0 {
		dst = d.appendShadows(append(dst, `,"shadows":[`...))
	}
	dst = append(dst, `,"attempts":[`...)
	for n := range d.attempts {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = d.attempts[n].appendJSON(dst)
	}
	return append(dst, `]}`...)
}

func (a *Attempt) appendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"target":`...), string(appendName(nil, a.Target)))
	if a.Why != "" {
		dst = appendString(append(dst, `,"why":`...), a.Why)
	}
	if a.Ended {
		if a.Status != 0 {
			dst = strconv.AppendInt(append(dst, `,"status":`...), int64(a.Status), 10)
		}
		if a.Code != "" {
			dst = appendString(append(dst, `,"code":`...), a.Code)
		}
		dst = strconv.AppendInt(append(dst, `,"ms":`...), a.Took.Milliseconds(), 10)
	}
	return append(dst, '}')
}

// appendTarget appends a target's name, "provider/model", as a word.
func appendTarget(dst []byte, t *Target) []byte {
	return appendWord(append(appendWord(dst, t.Provider), '/'), t.Model)
}

// appendWord appends a name as one word of a line, with separators percent-encoded.
func appendWord(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c > '~' || strings.IndexByte("%,;()", c) >= 0:
			dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// appendName appends a target's name, "provider/model", in printable ASCII.
func appendName(dst []byte, t *Target) []byte {
	return appendPrintable(append(appendPrintable(dst, t.Provider), '/'), t.Model)
}

// appendPrintable appends a text and replaces each byte that is not printable ASCII by a question mark.
func appendPrintable(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

func appendHex(dst []byte, n uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[n>>shift&15])
	}
	return dst
}
