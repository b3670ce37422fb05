package soaktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/figures"
)

// maxRecords is the maximum number of requests whose records the gateway keeps.
const maxRecords = 4096

// CompareFigures describes how what recent requests, the ledger, metrics, the status and traces say about all requests differs
// from the access log. No request may be in flight.
func (r *Run) CompareFigures(tb testing.TB, g *binarytest.Gateway, m binarytest.Metrics) (differences []string) {
	tb.Helper()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	l := r.ledger
	total := int64(0)
	for _, f := range l.logged {
		total += f.Requests
	}
	if total < int64(l.lines)/2 {
		tb.Errorf("only %d of %d requests are for a model", total, l.lines)
	}
	var traced figures.ByModel
	dropped := m.Sum("sluice_telemetry_dropped_total")
	if !binarytest.Await(func() bool {
		var n int64
		traced, n, _ = r.traces.Sum()
		return n-traced[""].Requests >= total-int64(dropped)
	}) {
		tb.Errorf("traces are missing: %v", traced)
	}
	used, err := figures.FromLedger(get(tb, g, "/usage?by=model"))
	if err != nil {
		tb.Fatal(err)
	}
	var status struct{ Requests struct{ Total int64 } }
	if err := json.Unmarshal([]byte(get(tb, g, "/status")), &status); err != nil {
		tb.Fatal(err)
	}
	if status.Requests.Total != int64(l.lines) {
		differences = append(differences, fmt.Sprintf("the status counts %d requests, and the log has %d", status.Requests.Total, l.lines))
	}
	differences = append(differences, used.Differences("the ledger", l.booked)...)
	differences = append(differences, figures.FromMetrics(m.Sum, l.logged).Differences("the metrics", l.logged)...)
	if dropped == 0 { // else the machine is too slow
		differences = append(differences, traced.Differences("traces", l.logged)...)
	}
	if l.lines <= maxRecords {
		differences = append(differences, recorded(tb, g).Differences("recent requests", l.logged)...)
	}
	return differences
}

// recorded returns what the gateway's recent requests say.
func recorded(tb testing.TB, g *binarytest.Gateway) figures.ByModel {
	tb.Helper()
	b := make(figures.ByModel)
	for before := ""; ; {
		var page struct {
			Requests []struct {
				binarytest.Line
				Seq int64
			}
		}
		if err := json.Unmarshal([]byte(get(tb, g, "/requests?limit=500"+before)), &page); err != nil {
			tb.Fatal(err)
		}
		if len(page.Requests) == 0 {
			return b
		}
		for _, r := range page.Requests {
			if r.Model != "" {
				b.Add(r.Model, r.Code != "", r.Prompt, r.Completion, r.Cost+r.UnusedCost)
			}
			before = fmt.Sprintf("&before=%d", r.Seq)
		}
	}
}

// get returns a document of the admin listener.
func get(tb testing.TB, g *binarytest.Gateway, path string) string {
	tb.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + g.Admin + path)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		tb.Fatalf("%s: status %d, %v: %.200s", path, resp.StatusCode, err, body)
	}
	return string(body)
}
