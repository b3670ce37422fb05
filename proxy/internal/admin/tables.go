package admin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Cells have the name of their column as data-label, because narrow screens show each row as a block and hide the
// table's head.

// countCell writes a cell with a count, which has the CSS class if it is not 0.
func (m *markup) countCell(label string, n int64, class string) {
	if n == 0 {
		class = ""
	}
	m.put(`<td class="n $" data-label="$">$</td>`, class, label, number(n))
}

// costCell writes a cell with a rounded cost, and the exact one as its title. The cell is empty if n is nil.
func (m *markup) costCell(n *cost.Nano) {
	if n == nil {
		m.put(`<td class="n" data-label="USD"></td>`)
		return
	}
	m.put(`<td class="n" data-label="USD" title="$">$</td>`, n.String(), dollars(*n))
}

// tokenCells writes a cell for the tokens of prompts and one for completions, with the shares of the kinds that are
// priced separately.
func (m *markup) tokenCells(c *Counts) {
	m.put(`<td class="n" data-label="Tokens in"><span>$`, number(c.PromptTokens))
	m.tokenShare(c.CachedTokens, c.PromptTokens, "cached")
	m.tokenShare(c.CacheWriteTokens, c.PromptTokens, "written")
	m.put(`</span></td><td class="n" data-label="Tokens out"><span>$`, number(c.CompletionTokens))
	m.tokenShare(c.ReasoningTokens, c.CompletionTokens, "reasoning")
	m.put(`</span></td>`)
}

// tokenShare writes the percentage of tokens that are of one kind.
func (m *markup) tokenShare(n, of int64, kind string) {
	if n > 0 && of > 0 {
		m.put(` <span class="soft part" title="$ $">$ % $</span>`, number(n), kind, strconv.FormatFloat(100*float64(n)/float64(of), 'f', 0, 64), kind)
	}
}

// joinReasons lists counts with their reasons, such as "3 concurrent, 1 model".
func joinReasons(counts map[string]int64) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, number(counts[reason])+" "+reason)
	}
	return strings.Join(all, ", ")
}

// percentiles formats percentiles for people.
func percentiles(p Percentiles) string {
	if p.P99 == 0 {
		return "–"
	}
	return fmt.Sprintf("p50 %s · p95 %s · p99 %s", period(p.P50), period(p.P95), period(p.P99))
}

func (m *markup) providers(s *Status) {
	slowest := 0.0
	for i := range s.Providers {
		for _, t := range s.Providers[i].Targets {
			slowest = max(slowest, t.Latency)
		}
	}
	m.put(`<h2>Providers</h2><div class="card table" id="providers"><table><thead><tr><th>Target</th><th>First event</th><th>Failures</th><th class="n">Succeeded</th><th class="n">Failed</th><th class="n">In flight</th></tr></thead>`)
	for i := range s.Providers {
		p := &s.Providers[i]
		m.put(`<tbody><tr class="group"><th colspan="6">$ <span class="soft">$`, p.Name, p.Plugin)
		switch {
		case p.Off != "":
			m.put(` · off: $</span></th></tr></tbody>`, p.Off)
			continue
		case p.TargetsTotal == 0 && len(p.Targets) == 0:
			m.put(` · listed models only`)
		}
		m.connections(p)
		m.put(`</span></th></tr>`)
		for j := range p.Targets {
			m.targetRow(&p.Targets[j], slowest, s.Now)
		}
		m.put(`</tbody>`)
	}
	m.put(`</table></div>`)
}

func (m *markup) targetRow(t *Target, slowest float64, now time.Time) {
	m.put(`<tr><th class="wide">$<br/>`, t.Model)
	m.targetState(t, now)
	if t.State != StateOpen && t.Failures > 0 {
		m.put(`<span class="warn">$ consecutive failures</span>`, t.Failures)
	}
	if e := t.LastError; e != nil {
		m.put(`<br/><span class="soft error">last error $: $`, clock(e.At), e.Code)
		if e.Text != "" {
			m.put(`: $`, e.Text)
		}
		m.put(`</span>`)
	}
	m.put(`</th><td data-label="First event">`)
	if t.Latency > 0 {
		m.gauge("Moving average of the time to the first event", t.Latency/slowest, "bar")
		m.put(` $`, period(t.Latency))
	} else {
		m.put(`<span class="soft">–</span>`)
	}
	m.put(`</td><td data-label="Failures">`)
	m.gauge("Moving average of failures", t.ErrorRate, "no")
	m.put(` $ %</td>`, digits(t.ErrorRate*100))
	m.countCell("Succeeded", t.Answered, "")
	m.countCell("Failed", t.Failed, "bad")
	m.countCell("In flight", t.InFlight, "")
	m.put(`</tr>`)
}

// connections writes the state of a provider's connections.
func (m *markup) connections(p *Provider) {
	if p.Max == 0 {
		m.put(` · no upstream`)
		return
	}
	m.put(` · connections: $ used, $ idle`, number(int64(p.Used)), number(int64(p.Idle)))
	if p.Waiting > 0 {
		m.put(`, <span class="warn">$ waiting</span>`, p.Waiting)
	}
	if total := p.Dialled + p.Reused; total > 0 {
		m.put(`, $ % reused`, digits(100*float64(p.Reused)/float64(total)))
	}
}

// targetState writes a target's state in words.
func (m *markup) targetState(t *Target, now time.Time) {
	switch {
	case t.State == StateHealthy:
		m.put(`<span class="good">● healthy</span> `)
	case t.State == StateRetrying:
		m.put(`<span class="warn">◐ retrying</span> `)
	case t.Until != nil && t.RateLimited:
		m.put(`<span class="warn">✕ rate-limited until $</span> `, clock(*t.Until))
	case t.Until != nil && now.Before(*t.Until):
		m.put(`<span class="bad">✕ circuit open until $</span> `, clock(*t.Until))
	default:
		m.put(`<span class="bad">✕ circuit open; the next request is a trial</span> `)
	}
}

func (m *markup) models(s *Status) {
	m.put(`<h2>Models`)
	if s.ModelsListed > 0 {
		m.put(` <small>$ configured, $ listed by providers</small>`, number(int64(s.ModelsTotal-s.ModelsListed)), number(int64(s.ModelsListed)))
	}
	m.put(`</h2><div class="card table" id="models"><table><thead><tr><th>Model</th><th class="n">Requests</th><th class="n">Errors</th><th class="n">Tokens in</th><th class="n">Tokens out</th><th class="n">USD</th></tr></thead><tbody>`)
	var listed []*Model
	for i := range s.Models {
		model := &s.Models[i]
		switch {
		case model.Listed:
			listed = append(listed, model)
			continue
		case model.Off != "":
			m.put(`<tr class="off"><th>$</th><td colspan="5" class="wide">off: $</td></tr>`, model.ID, model.Off)
			continue
		}
		m.put(`<tr><th>$</th>`, model.ID)
		m.countCell("Requests", model.Requests, "")
		m.errorsCell(model.Errors, model.Failed)
		m.tokenCells(&model.Counts)
		m.costCell(model.Cost)
		m.put(`</tr><tr class="more"><td colspan="6" class="wide">`)
		for j := range model.Targets {
			m.targetChip(&model.Targets[j])
		}
		if model.FirstEvent.P99 > 0 {
			m.put(`<span class="soft">first event $</span> `, percentiles(model.FirstEvent))
		}
		if len(model.Rejected) > 0 {
			m.put(`<span class="warn">rejected: $</span>`, joinReasons(model.Rejected))
		}
		if model.Canary != nil {
			m.canary(model.Canary)
		}
		for j := range model.Shadows {
			m.shadow(&model.Shadows[j])
		}
		m.put(`</td></tr>`)
	}
	m.put(`</tbody></table>`)
	if len(listed) > 0 {
		m.put(`<details id="listed"><summary>$ listed models on this page</summary><p>`, number(int64(len(listed))))
		for _, model := range listed {
			m.put(`<span class="chip">$</span>`, model.ID)
		}
		m.put(`</p></details>`)
	}
	m.put(`</div>`)
}

// targetChip writes a target's name and a mark for its state.
func (m *markup) targetChip(t *Target) {
	if t.Off {
		m.put(`<span class="chip off">$ / $ (off)</span>`, t.Provider, t.Model)
		return
	}
	m.put(`<span class="chip">`)
	if t.State == StateRetrying {
		m.put(`<span class="warn">◐</span> `)
	} else {
		m.mark(t.State == StateHealthy)
	}
	m.put(`$ / $`, t.Provider, t.Model)
	if t.Fallback {
		m.put(` <span class="soft">fallback</span>`)
	}
	m.put(`</span>`)
}

// canary writes the state of a model's canary.
func (m *markup) canary(c *Canary) {
	m.put(`<br/><span class="soft">canary $ / $</span> `, c.Provider, c.Model)
	if c.RolledBack != nil {
		m.put(`<span class="bad">✕ rolled back $: $</span>`, clock(*c.RolledBack), c.Reason)
		return
	}
	m.put(`step $ of $, $ % of the requests since $; <span class="$">$ of $ attempts failed</span>`, c.Step, c.Steps, digits(100*c.Share), clock(c.Began),
		map[bool]string{true: "warn", false: "soft"}[c.Errors > 0], number(c.Errors), number(c.Attempts))
}

// shadow writes the figures of a shadow target.
func (m *markup) shadow(s *Shadow) {
	m.put(`<br/><span class="soft">shadow $ / $</span> `, s.Provider, s.Model)
	if s.Off {
		m.put(`<span class="soft">(off)</span>`)
		return
	}
	m.put(`$ % of the requests: $ copies`, digits(100*s.Share), number(s.Requests))
	for _, outcome := range slices.Sorted(maps.Keys(s.Outcomes)) {
		if n := s.Outcomes[outcome]; n > 0 && outcome != "answered" {
			m.put(`, $ $`, number(n), outcome)
		}
	}
	if s.Compared == 0 {
		return
	}
	m.put(`; <span class="soft">$ compared, differences:`, number(s.Compared))
	none := true
	for _, kind := range slices.Sorted(maps.Keys(s.Differences)) {
		if n := s.Differences[kind]; n > 0 {
			m.put(` $ $`, kind, number(n))
			none = false
		}
	}
	if none {
		m.put(` none`)
	}
	if s.Duration > 0 {
		m.put(`; time × $, first event × $`, digits(s.Duration), digits(s.FirstEvent))
	}
	m.put(`</span>`)
}

// errorsCell writes a cell with the number of errors, and how many of them were failures of the gateway or a provider.
func (m *markup) errorsCell(n, failed int64) {
	m.put(`<td class="n" data-label="Errors"><span>$`, number(n))
	if failed > 0 {
		m.put(` <span class="bad part">$ failed</span>`, number(failed))
	}
	m.put(`</span></td>`)
}

const usageHead = `<th class="n">Requests</th><th class="n">Errors</th><th class="n">Tokens in</th><th class="n">Tokens out</th><th class="n">USD</th><th>Rejected</th></tr></thead><tbody>`

// usageCells writes the remaining cells of a key's or team's row, and ends the row.
func (m *markup) usageCells(c *Counts) {
	m.countCell("Requests", c.Requests, "")
	m.countCell("Errors", c.Errors, "")
	m.tokenCells(c)
	m.costCell(c.Cost)
	m.put(`<td class="wide warn" data-label="Rejected">$</td></tr>`, joinReasons(c.Rejected))
}

func (m *markup) teams(s *Status) {
	if s.TeamsTotal == 0 {
		return
	}
	m.put(`<h2>Teams</h2><div class="card table" id="teams"><table><thead><tr><th>Team</th>` + usageHead)
	for i := range s.Teams {
		t := &s.Teams[i]
		m.put(`<tr><th>$ <span class="soft">keys: $</span></th>`, t.Name, number(int64(t.Keys)))
		m.usageCells(&t.Counts)
	}
	m.put(`</tbody></table></div>`)
}

func (m *markup) keys(s *Status) {
	if s.KeysTotal == 0 {
		return
	}
	m.put(`<h2>Keys</h2><div class="card table" id="keys"><table><thead><tr><th>Key</th>` + usageHead)
	for i := range s.Keys {
		k := &s.Keys[i]
		m.put(`<tr><th>$`, k.Name)
		if k.Team != "" {
			m.put(` <span class="soft">$</span>`, k.Team)
		}
		if k.State != "" {
			m.put(` <span class="warn">$</span>`, k.State)
		}
		m.put(`</th>`)
		m.usageCells(&k.Counts)
	}
	m.put(`</tbody></table></div>`)
}

func (m *markup) plugins(s *Status) {
	m.put(`<h2>Plugins</h2><div class="card table" id="plugins"><table><thead><tr><th>Plugin</th><th>Instances</th><th class="n">Calls</th><th class="n">Failed</th><th class="n">Fuel per call</th><th class="n">Waiting</th><th></th></tr></thead><tbody>`)
	for i := range s.Plugins {
		p := &s.Plugins[i]
		class := ""
		if p.Generations == 0 {
			class = "off"
		}
		m.put(`<tr class="$"><th>`, class)
		m.mark(!p.Open)
		m.put(`$</th><td data-label="Instances">`, p.Name)
		m.dots(fmt.Sprintf("%d used, %d idle", p.Used, p.Idle), p.Used, p.Idle)
		each := 0.0
		if p.Calls > 0 {
			each = float64(p.Fuel) / float64(p.Calls)
		}
		m.put(`</td>`)
		m.countCell("Calls", p.Calls, "")
		m.countCell("Failed", p.Failures, "bad")
		m.put(`<td class="n" data-label="Fuel per call">$</td>`, scaled(each))
		m.countCell("Waiting", int64(p.Waiting), "warn")
		m.put(`<td class="wide soft">`)
		var notes []string
		if p.Open {
			notes = append(notes, "breaker "+p.Breaker)
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			notes = append(notes, kind+" "+number(p.Kinds[kind]))
		}
		if p.Generations == 0 {
			notes = append(notes, "no longer loaded")
		}
		m.put(`$</td></tr>`, strings.Join(notes, ", "))
	}
	m.put(`</tbody></table></div>`)
}

// statusClass returns the CSS class of an HTTP status.
func statusClass(status string) string {
	switch {
	case strings.HasPrefix(status, "5"):
		return "bad"
	case strings.HasPrefix(status, "4"):
		return "warn"
	}
	return "good"
}

// problems writes the counts of responses by status, and of failures, since the start.
func (m *markup) problems(s *Status) {
	type row struct {
		label string
		n     int64
	}
	rows := []row{
		{"failed requests", s.Requests.ServerErrors}, {"client errors", s.Requests.ClientErrors},
		{"client disconnects", s.Requests.Disconnects}, {"panics", s.Requests.Panics}, {"dropped log lines", s.Process.LogDropped},
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Requests.Refused)) {
		rows = append(rows, row{"rejected keys: " + reason, s.Requests.Refused[reason]})
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Requests.Shed)) {
		rows = append(rows, row{"overloaded: " + reason, s.Requests.Shed[reason]})
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.n == 0 })
	if len(rows)+len(s.Requests.Statuses) == 0 {
		return
	}
	m.put(`<h2>Since the start</h2><div class="card">`)
	for _, status := range slices.Sorted(maps.Keys(s.Requests.Statuses)) {
		m.put(`<span class="chip $"><b>$</b> × $</span>`, statusClass(status), status, number(s.Requests.Statuses[status]))
	}
	for _, r := range rows {
		m.put(`<span class="chip"><b>$</b> $</span>`, number(r.n), r.label)
	}
	m.put(`</div>`)
}
