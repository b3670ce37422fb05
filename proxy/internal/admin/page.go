package admin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"time"

	"github.com/valyala/fasthttp"
)

//go:embed page.css
var css string

// statusScript updates the page's content in place. If scripts are disabled, the browser reloads the page instead.
//
//go:embed page.js
var statusScript string

// statusPolicy is the Content-Security-Policy of the status page.
var statusPolicy = pagePolicy(statusScript)

// pagePolicy returns the Content-Security-Policy of a page with this script. It allows the page's style sheet, the
// script and requests to the same origin, but no other scripts, external images or framing, so that injected markup has
// no effect.
func pagePolicy(script string) string {
	return "default-src 'none'; style-src " + digest(css) + "; script-src " + digest(script) + "; connect-src 'self'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// digest returns the CSP source expression that allows an inline script or style sheet.
func digest(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// paused is the query parameter that disables automatic refresh of the status page.
const paused = "still"

func setPageHeaders(ctx *fasthttp.RequestCtx, policy string) {
	h := &ctx.Response.Header
	h.Set("content-security-policy", policy)
	h.Set("referrer-policy", "no-referrer")
	h.Set("cross-origin-resource-policy", "same-origin")
	ctx.SetContentType("text/html; charset=utf-8")
}

func (s *Server) page(ctx *fasthttp.RequestCtx) {
	setPageHeaders(ctx, statusPolicy)
	page, ok := requestedPage(ctx)
	if !ok {
		page = Page{Number: 1, Size: pageSize}
	}
	status := s.o.Gateway.Status(page)
	refresh := !ctx.QueryArgs().Has(paused)
	ctx.Response.SetBodyRaw(appendPage(nil, &status, s.recent(), s.history.figures(), refresh))
}

// appendPage appends the status page. With refresh, the page updates itself periodically.
func appendPage(dst []byte, s *Status, r *recentRequests, f figures, refresh bool) []byte {
	m := &markup{dst}
	m.head("Sluice: "+stateText(s), refresh)
	m.put(`<p id="lost" class="note" role="alert" hidden="hidden">The gateway does not respond. The data on this page is from the time shown.</p>`)
	m.header(s, refresh)
	m.put(`<main>`)
	if s.Config.ReloadError != "" {
		m.put(`<div class="note" role="alert"><b class="bad">The last configuration reload failed.</b> <span class="soft">$; keeping the previous configuration.</span><pre>$</pre></div>`,
			clock(s.Config.LastReload), s.Config.ReloadError)
	}
	m.store(s)
	m.tiles(s, f)
	m.requests(r)
	m.providers(s)
	m.models(s)
	m.budgets(s)
	m.teams(s)
	m.keys(s)
	m.pageLinks(s, refresh)
	m.plugins(s)
	m.problems(s)
	m.put(`</main><footer>Charts cover the last $ minutes; percentiles and counts cover the time since the start. <a href="/status">/status</a> has the same data as JSON, and <a href="/metrics">/metrics</a> is for Prometheus. <a href="/explain">Explain</a> shows how a request would be routed.</footer>`,
		int((keepSamples * sampleEvery).Minutes()))
	if refresh {
		m.put(`<script>`)
		m.b = append(m.b, statusScript...)
		m.put(`</script>`)
	}
	m.put(`</body></html>`)
	return m.b
}

// head writes the start of a page. With refresh, browsers without scripts reload the page periodically.
func (m *markup) head(title string, refresh bool) {
	m.put(`<!doctype html><html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>`)
	if refresh {
		m.put(`<noscript><meta http-equiv="refresh" content="$"/></noscript>`, int(sampleEvery.Seconds()))
	}
	m.put(`<title>$</title><link rel="icon" href="data:,"/><style>`, title)
	m.b = append(m.b, css...)
	m.put(`</style></head><body>`)
}

func stateText(s *Status) string {
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
	m.put(`<header><h1>Sluice</h1><span class="state $">$</span>`, class, stateText(s))
	if s.Reason != "" {
		m.put(`<b class="bad">$</b>`, s.Reason)
	}
	m.put(`<span>$</span><span>up $</span><span title="$, loaded $">configuration $</span>`,
		s.Version, period(s.Uptime), s.Config.File, clock(s.Config.Loaded), s.Config.Generation)
	if s.Config.Open > 1 {
		m.put(`<span>$ older in use</span>`, s.Config.Open-1)
	}
	if s.Store != nil {
		m.put(`<span title="since $">store $</span>`, clock(s.Store.Since), s.Store.State)
	}
	if b := s.Bundle; b != nil {
		trial := ""
		if b.Trial {
			trial = " on trial"
		}
		m.put(`<span title="rollout $ of $">bundle $$</span>`, b.Sequence, b.Source, b.Digest[:min(len(b.Digest), len("sha256:")+12)], trial)
	}
	if refresh {
		m.put(`<span class="right">$ · <a href="/?$&amp;page=$">pause</a></span></header>`, clock(s.Now), paused, s.Page.Number)
	} else {
		m.put(`<span class="right">$ · <a href="/?page=$">resume</a></span></header>`, clock(s.Now), s.Page.Number)
	}
}

// pageLinks writes links to the previous and next page, if there are any.
func (m *markup) pageLinks(s *Status, refresh bool) {
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
	m.put(`<p class="soft">Lists: page $ of $ ($ models, $ keys, $ budgets).`, current, last, number(int64(s.ModelsTotal)), number(int64(s.KeysTotal)), number(int64(s.BudgetsTotal)))
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

	m.put(`<div class="card tile"><span class="top"><span>Time to first event</span><span>peak $</span></span><b>$ <small>average</small></b>`, period(peak(f.firstEvent)), period(newest(f.firstEvent)))
	m.curve("Average time to the first event of a response", f.firstEvent)
	m.put(`<span class="soft">$, of $ responses</span></div>`, percentiles(r.FirstEvent), number(r.FirstEvents))

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
