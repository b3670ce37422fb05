package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

//go:embed page.css
var css string

// policy allows the page its own style sheet and nothing else: no scripts, no external images, no framing. Text injected into the
// page could do nothing.
var policy = func() string {
	sum := sha256.Sum256([]byte(css))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// paused is the query of the page without automatic refresh.
const paused = "still"

func (s *Server) page(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.Set("content-security-policy", policy)
	h.Set("referrer-policy", "no-referrer")
	h.Set("cross-origin-resource-policy", "same-origin")
	ctx.SetContentType("text/html; charset=utf-8")
	page, ok := requestedPage(ctx)
	if !ok {
		page = Page{Number: 1, Size: pageSize}
	}
	status := s.o.Gateway.Status(page)
	refresh := !ctx.QueryArgs().Has(paused)
	ctx.Response.SetBodyRaw(appendPage(nil, &status, s.history.figures(), refresh))
}

// appendPage appends the page. With refresh the browser reloads it periodically.
func appendPage(dst []byte, s *Status, f figures, refresh bool) []byte {
	m := &markup{dst}
	m.put(`<!doctype html><html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>`)
	if refresh {
		m.put(`<meta http-equiv="refresh" content="$"/>`, int(sampleEvery.Seconds()))
	}
	m.put(`<title>Sluice: $</title><link rel="icon" href="data:,"/><style>`, state(s))
	m.b = append(m.b, css...)
	m.put(`</style></head><body>`)
	m.header(s, refresh)
	m.put(`<main>`)
	if s.Config.ReloadError != "" {
		m.put(`<div class="note" role="alert"><b class="bad">The last configuration reload failed.</b> <span class="soft">$; keeping the previous configuration.</span><pre>$</pre></div>`,
			clock(s.Config.LastReload), s.Config.ReloadError)
	}
	m.tiles(s, f)
	m.providers(s)
	m.models(s)
	m.pages(s, refresh)
	m.plugins(s)
	m.problems(s)
	m.put(`</main><footer>Charts cover the last $ minutes. <a href="/status">/status</a> is all of this as JSON, in pages; <a href="/metrics">/metrics</a> for Prometheus.</footer></body></html>`,
		int((keepSamples * sampleEvery).Minutes()))
	return m.b
}

func state(s *Status) string {
	if s.Ready {
		return "ready"
	}
	return "not ready"
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

func (m *markup) header(s *Status, refresh bool) {
	class := "good"
	if !s.Ready {
		class = "bad"
	}
	m.put(`<header><h1>Sluice</h1><span class="state $">$</span>`, class, state(s))
	if s.Reason != "" {
		m.put(`<b class="bad">$</b>`, s.Reason)
	}
	m.put(`<span>$</span><span>up $</span><span title="$, loaded $">configuration $</span>`,
		s.Version, period(s.Uptime), s.Config.File, clock(s.Config.Loaded), s.Config.Generation)
	if s.Config.Open > 1 {
		m.put(`<span>$ older in use</span>`, s.Config.Open-1)
	}
	if refresh {
		m.put(`<span class="right">$ · <a href="/?$&amp;page=$">pause</a></span></header>`, clock(s.Now), paused, s.Page.Number)
	} else {
		m.put(`<span class="right">$ · <a href="/?page=$">resume</a></span></header>`, clock(s.Now), s.Page.Number)
	}
}

// pages links to the other pages of models and targets, if there are any.
func (m *markup) pages(s *Status, refresh bool) {
	current, last := s.Page.Number, s.Page.last(s)
	if last == 1 && current == 1 {
		return
	}
	query := ""
	if !refresh {
		query = paused + "&"
	}
	link := func(page int, text string) {
		m.put(` <a href="/?$page=$">$</a>`, query, page, text)
	}
	m.put(`<p class="soft">Models and targets: page $ of $, of $ models.`, current, last, number(int64(s.ModelsTotal)))
	if current > 1 {
		link(min(current-1, last), "previous")
	}
	if current < last {
		link(current+1, "next")
	}
	m.put(`</p>`)
}

func (m *markup) tiles(s *Status, f figures) {
	r := &s.Requests
	m.put(`<div class="tiles">`)
	m.put(`<div class="card tile"><span class="top"><span>Requests</span><span>peak $</span></span><b>$ <small>per second</small></b>`, digits(peak(f.requests)), digits(newest(f.requests)))
	m.bars("Requests per second, failed ones in red", f.requests, f.failed)
	m.put(`<span class="soft">$ in total, `, number(r.Total))
	m.put(`<span class="$">$ failed</span></span></div>`, map[bool]string{true: "bad", false: "soft"}[r.ServerErrors > 0], number(r.ServerErrors))

	m.put(`<div class="card tile"><span class="top"><span>Time to first event</span><span>peak $</span></span><b>$ <small>average</small></b>`, period(peak(f.first)), period(newest(f.first)))
	m.curve("Average time to the first event of a response", f.first)
	m.put(`<span class="soft">$ responses, $ tokens in, $ out</span></div>`, number(r.FirstEvents), scaled(float64(r.PromptTokens)), scaled(float64(r.CompletionTokens)))

	m.put(`<div class="card tile"><span class="top"><span>Streams</span><span>peak $</span></span><b>$ <small>open</small></b>`, digits(peak(f.streams)), number(r.Streams))
	m.curve("Open streams", f.streams)
	m.put(`<span class="soft">$ of $ completions, $ of $ connections</span></div>`,
		number(r.Completions), number(r.CompletionsMax), number(int64(s.Clients.Open)), number(int64(s.Clients.Max)))

	m.put(`<div class="card tile"><span class="top"><span>Memory</span><span>peak $</span></span><b>$`, size(int64(peak(f.memory))), size(s.Process.Memory))
	if s.Process.Limit > 0 {
		m.put(` <small>of $</small>`, size(s.Process.Limit))
	}
	m.put(`</b>`)
	m.curve("Resident memory", f.memory)
	m.put(`<span class="soft">$ heap, $ in large bodies, $ goroutines</span></div></div>`, size(s.Process.Heap), size(r.Bodies), number(s.Process.Goroutines))
}

func newest(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[len(values)-1]
}

func (m *markup) providers(s *Status) {
	slowest := 0.0
	for i := range s.Providers {
		for _, t := range s.Providers[i].Targets {
			slowest = max(slowest, t.Latency)
		}
	}
	m.put(`<h2>Providers</h2><div class="card table"><table><thead><tr><th>Provider</th><th>Target</th><th>First event</th><th>Failures</th><th class="n">Succeeded</th><th class="n">Failed</th><th class="n">In flight</th><th>Connections</th></tr></thead><tbody>`)
	for i := range s.Providers {
		p := &s.Providers[i]
		if p.Off != "" {
			m.put(`<tr class="off"><th>$</th><td colspan="7" class="wide">off: $</td></tr>`, p.Name, p.Off)
			continue
		}
		rows := max(len(p.Targets), 1)
		m.put(`<tr><th rowspan="$">$<br/><span class="soft">$</span></th>`, rows, p.Name, p.Plugin)
		if len(p.Targets) == 0 {
			m.put(`<td colspan="6" class="soft">listed models only</td>`)
			m.connections(p, rows)
			continue
		}
		for j := range p.Targets {
			t := &p.Targets[j]
			if j > 0 {
				m.put(`<tr>`)
			}
			m.put(`<td>`)
			m.target(t, s.Now)
			m.put(`$`, t.Model)
			m.put(`</td><td>`)
			if t.Latency > 0 {
				m.gauge("Moving average of the time to the first event", t.Latency/slowest, "bar")
				m.put(` $`, period(t.Latency))
			} else {
				m.put(`<span class="soft">–</span>`)
			}
			m.put(`</td><td>`)
			m.gauge("Moving average of failures", t.ErrorRate, "no")
			m.put(` $ %</td><td class="n">$</td><td class="n">$</td><td class="n">$</td>`, digits(t.ErrorRate*100), number(t.Answered), number(t.Failed), number(t.InFlight))
			if j == 0 {
				m.connections(p, rows)
			} else {
				m.put(`</tr>`)
			}
		}
	}
	m.put(`</tbody></table></div>`)
}

// connections writes the last cell of a provider's first row.
func (m *markup) connections(p *Provider, rows int) {
	m.put(`<td rowspan="$">`, rows)
	if p.Max == 0 {
		m.put(`<span class="soft">no upstream</span></td></tr>`)
		return
	}
	m.put(`$ used, $ idle`, number(int64(p.Used)), number(int64(p.Idle)))
	if p.Waiting > 0 {
		m.put(`, <span class="warn">$ waiting</span>`, p.Waiting)
	}
	if total := p.Dialled + p.Reused; total > 0 {
		m.put(`<br/><span class="soft">$ % reused</span>`, digits(100*float64(p.Reused)/float64(total)))
	}
	m.put(`</td></tr>`)
}

// target draws a target's state, with its words where it is not healthy.
func (m *markup) target(t *Target, now time.Time) {
	switch {
	case t.State == StateHealthy:
		m.mark(true)
	case t.State == StateRetrying:
		m.put(`<span class="warn">◐ being tried again</span> `)
	case t.Until != nil && t.RateLimited:
		m.put(`<span class="warn">✕ rate-limited until $</span> `, clock(*t.Until))
	case t.Until != nil && now.Before(*t.Until):
		m.put(`<span class="bad">✕ circuit open until $</span> `, clock(*t.Until))
	default:
		m.put(`<span class="bad">✕ circuit open, tried again by the next request</span> `)
	}
}

func (m *markup) models(s *Status) {
	m.put(`<h2>Models</h2><div class="card table"><table><thead><tr><th>Model</th><th>Targets</th></tr></thead><tbody>`)
	for i := range s.Models {
		model := &s.Models[i]
		if model.Off != "" {
			m.put(`<tr class="off"><th>$</th><td class="wide">off: $</td></tr>`, model.ID, model.Off)
			continue
		}
		m.put(`<tr><th>$</th><td class="wide">`, model.ID)
		for _, t := range model.Targets {
			if t.Off {
				m.put(`<span class="chip off">$ / $ (off)</span>`, t.Provider, t.Model)
				continue
			}
			m.put(`<span class="chip">`)
			m.target(&t, s.Now)
			m.put(`$ / $`, t.Provider, t.Model)
			if t.Fallback {
				m.put(` <span class="soft">fallback</span>`)
			}
			m.put(`</span>`)
		}
		m.put(`</td></tr>`)
	}
	m.put(`</tbody></table></div>`)
}

func (m *markup) plugins(s *Status) {
	m.put(`<h2>Plugins</h2><div class="card table"><table><thead><tr><th>Plugin</th><th>Instances</th><th class="n">Calls</th><th class="n">Failed</th><th class="n">Fuel per call</th><th class="n">Wait</th><th></th></tr></thead><tbody>`)
	for i := range s.Plugins {
		p := &s.Plugins[i]
		class := ""
		if p.Generations == 0 {
			class = "off"
		}
		m.put(`<tr class="$"><th>`, class)
		m.mark(!p.Open)
		m.put(`$</th><td>`, p.Name)
		m.dots(fmt.Sprintf("%d used, %d idle", p.Used, p.Idle), p.Used, p.Idle)
		each := 0.0
		if p.Calls > 0 {
			each = float64(p.Fuel) / float64(p.Calls)
		}
		m.put(`</td><td class="n">$</td><td class="n $">$</td><td class="n">$</td><td class="n">$</td><td class="wide soft">`,
			number(p.Calls), map[bool]string{true: "bad", false: ""}[p.Failures > 0], number(p.Failures), scaled(each), number(int64(p.Waiting)))
		var notes []string
		if p.Open {
			notes = append(notes, "breaker "+p.Breaker)
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			notes = append(notes, kind+" "+number(p.Kinds[kind]))
		}
		if p.Generations == 0 {
			notes = append(notes, "not loaded any more")
		}
		m.put(`$</td></tr>`, strings.Join(notes, ", "))
	}
	m.put(`</tbody></table></div>`)
}

// problems lists what went wrong since the start.
func (m *markup) problems(s *Status) {
	type row struct {
		what string
		n    int64
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
	if len(rows) == 0 {
		return
	}
	m.put(`<h2>Since the start</h2><div class="card">`)
	for _, r := range rows {
		m.put(`<span class="chip"><b>$</b> $</span>`, number(r.n), r.what)
	}
	m.put(`</div>`)
}
