package admin

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// shownRequests is how many recent requests the status page shows.
const shownRequests = 20

// recentRequests are what the status page shows of recent requests.
type recentRequests struct {
	last  []telemetry.Entry
	codes map[string]int64 // of requests that failed, by error code
	total int64
}

// recent returns recent requests for the status page, or nil if it must not show them.
func (s *Server) recent() *recentRequests {
	if !s.showsRequests() {
		return nil
	}
	r := &recentRequests{last: s.o.Recent.Select(&telemetry.RecentQuery{State: telemetry.StateEnded, Limit: shownRequests})}
	r.codes, r.total = s.o.Recent.Codes()
	return r
}

// requests writes the error codes of recent requests, the most frequent first, and a table of the last requests.
func (m *markup) requests(r *recentRequests) {
	if r == nil || r.total == 0 {
		return
	}
	m.put(`<h2>Recent requests</h2><p class="soft">Of the last $ requests, `, number(r.total))
	if len(r.codes) == 0 {
		m.put(`none failed.</p>`)
	} else {
		codes := slices.SortedFunc(maps.Keys(r.codes), func(a, b string) int {
			return cmp.Or(cmp.Compare(r.codes[b], r.codes[a]), cmp.Compare(a, b))
		})
		for i, code := range codes {
			if i > 0 {
				m.put(`, `)
			}
			m.put(`<b>$</b> $`, number(r.codes[code]), code)
		}
		m.put(` failed. <a href="/requests?failed=true">Failed requests</a> as JSON.</p>`)
	}
	m.put(`<div class="card table" id="requests"><table><thead><tr><th>Request</th><th>Model</th><th>Target</th><th>Key</th><th class="n">Status</th><th class="n">Seconds</th><th class="n">Tokens</th><th class="n">USD</th></tr></thead><tbody>`)
	for i := range r.last {
		m.requestRow(&r.last[i])
	}
	m.put(`</tbody></table></div>`)
}

func (m *markup) requestRow(e *telemetry.Entry) {
	m.put(`<tr><th class="wide"><span class="soft">$</span> $`, clock(e.Began), e.RequestID)
	if e.Code != "" {
		m.put(`<br/><span class="bad">$</span>`, e.Code)
		if e.CauseWas != "" {
			m.put(`<span class="soft error">: $</span>`, e.CauseWas)
		}
	}
	target := e.Provider
	if e.Target != "" {
		target += "/" + e.Target
	}
	if e.Shadow {
		target += " (shadow)"
	}
	if e.Attempts > 1 {
		target += " (attempt " + strconv.Itoa(e.Attempts) + ")"
	}
	class := ""
	if e.Status >= 400 || e.Code != "" {
		class = "bad"
	}
	m.put(`</th><td data-label="Model">$</td><td data-label="Target">$</td><td data-label="Key">$</td><td class="n $" data-label="Status">$</td><td class="n" data-label="Seconds">$</td><td class="n" data-label="Tokens">$</td>`,
		e.Model, target, e.Key, class, e.Status, period(e.Ended.Sub(e.Began).Seconds()), number(e.Tokens.Prompt+e.Tokens.Completion))
	if e.Priced {
		m.costCell(&e.Cost)
	} else {
		m.costCell(nil)
	}
	m.put(`</tr>`)
}
