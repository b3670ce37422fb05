package admin

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// firstBudgets is the number of budgets that are shown without expanding the list.
const firstBudgets = 20

// budgets writes the table of budgets.
func (m *markup) budgets(s *Status) {
	if s.BudgetsTotal == 0 {
		return
	}
	first := min(len(s.Budgets), firstBudgets)
	m.put(`<h2>Budgets</h2><div class="card table" id="budgets">`)
	m.budgetTable(s.Budgets[:first], s.Now)
	if rest := s.Budgets[first:]; len(rest) > 0 {
		m.put(`<details id="more-budgets"><summary>$ more on this page, with less spent</summary>`, number(int64(len(rest))))
		m.budgetTable(rest, s.Now)
		m.put(`</details>`)
	}
	m.put(`</div>`)
}

func (m *markup) budgetTable(budgets []Budget, now time.Time) {
	m.put(`<table><thead><tr><th>Budget</th><th>Spent</th><th class="n">USD</th><th class="n">Held</th><th class="n">Left</th><th>Window ends</th></tr></thead><tbody>`)
	for i := range budgets {
		m.budgetRow(&budgets[i], now)
	}
	m.put(`</tbody></table>`)
}

// budgetMarks are the mark and CSS class of each budget state. States have different marks, so that color is not the
// only difference.
var budgetMarks = map[string][2]string{
	spend.StateOK: {"●", "good"}, spend.StateWarned: {"▲", "warn"}, spend.StateRefusing: {"✕", "bad"},
}

func (m *markup) budgetRow(b *Budget, now time.Time) {
	mark := budgetMarks[b.State]
	m.put(`<tr><th class="wide"><span class="$">$</span> $ <span class="soft">$, `, mark[1], mark[0], b.Name, b.Scope)
	if b.End == nil {
		m.put(`in total</span></th>`)
	} else {
		m.put(`per $</span></th>`, b.Per)
	}
	m.put(`<td data-label="Spent">`)
	m.budgetBar(b)
	m.put(` <span class="$">$ %</span>`, mark[1], digits(100*b.Used))
	if b.Refused > 0 {
		m.put(` <span class="bad">$ refused</span>`, number(b.Refused))
	}
	m.put(`</td><td class="n" data-label="USD" title="$ of $"><span>$ <span class="soft">of $</span></span></td>`, b.Spent.String(), b.Limit.String(), dollars(b.Spent), dollars(b.Limit))
	m.put(`<td class="n" data-label="Held" title="$">$</td><td class="n" data-label="Left" title="$">$</td>`, b.Held.String(), dollars(b.Held), b.Left.String(), dollars(b.Left))
	if b.End == nil {
		m.put(`<td data-label="Window ends"><span class="soft">never</span></td></tr>`)
		return
	}
	m.put(`<td data-label="Window ends" title="$"><span>in $</span></td></tr>`, clock(*b.End), period(max(b.End.Sub(now).Seconds(), 0)))
}

// budgetBar draws a bar with the spent and the held part of a budget, and a tick at the warning threshold.
func (m *markup) budgetBar(b *Budget) {
	const width = 120
	spent := min(max(b.Used, 0), 1) * width
	held := 0.0
	if b.Limit > 0 {
		held = min(max(float64(b.Held)/float64(b.Limit)*width, 0), width-spent)
	}
	m.put(`<svg class="inline budget" width="$" height="10" role="img"><title>$ of $ USD spent, $ held</title><rect class="track" width="$" height="10" rx="2"/>`,
		width, b.Spent.String(), b.Limit.String(), b.Held.String(), width)
	if spent > 0 {
		m.put(`<rect class="spent $" width="$" height="10" rx="2"/>`, b.State, places(max(spent, 2)))
	}
	if held > 0 {
		m.put(`<rect class="held" x="$" width="$" height="10"/>`, places(spent), places(held))
	}
	if b.Warn > 0 && b.Warn < 1 {
		m.put(`<rect class="tick" x="$" width="1.5" height="10"/>`, places(b.Warn*width))
	}
	m.put(`</svg>`)
}
