package telemetry_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// TestKeySeries configures more keys than may have series of their own.
func TestKeySeries(t *testing.T) {
	m := telemetry.NewMetrics()
	names := make([]string, 1500)
	for i := range names {
		names[i] = fmt.Sprintf("key-%04d", i)
	}
	m.SetNames(telemetry.Names{Keys: names, Teams: []string{"team"}, Models: []string{"m"}})
	log := countingLog(m)
	use := func(key string, prompt, completion int64) {
		r := completionWithKey(key)
		r.Team, r.Tokens = "team", cost.Tokens{Prompt: prompt, Completion: completion, Cached: prompt / 2}
		switch key {
		case "key-0999":
			r.Status, r.Code = 429, "rate_limit_exceeded"
		case "key-1000":
			r.Status, r.Code = 499, "client_closed_request"
		}
		r.Cost, r.Priced = cost.Nano(prompt)*cost.Dollar, true
		log.Request(&r)
	}
	use("key-0000", 10, 1)
	use("key-0999", 20, 2)
	use("key-1000", 30, 3)
	use("key-1499", 40, 4)
	m.RejectKey("key-0000", telemetry.RejectedTokens)
	m.RejectTeam("team", telemetry.RejectedBudget)
	m.RejectModel("m", telemetry.RejectedConcurrent)
	m.RejectKey("key-1499", telemetry.RejectedExpired)
	got := series(t, m)
	for labels, want := range map[string]float64{
		`sluice_key_requests_total{key="key-0000"}`: 1, `sluice_key_requests_total{key="key-0001"}`: 0, `sluice_key_requests_total{key="other"}`: 2,
		`sluice_key_tokens_total{key="key-0999",kind="prompt"}`: 20, `sluice_key_tokens_total{key="other",kind="prompt"}`: 70, `sluice_key_tokens_total{key="other",kind="completion"}`: 7,
		`sluice_key_cost_usd_total{key="key-0999"}`: 20, `sluice_key_cost_usd_total{key="other"}`: 70,
		`sluice_key_tokens_total{key="key-0999",kind="cached"}`: 10, `sluice_key_errors_total{key="key-0999"}`: 1, `sluice_key_errors_total{key="other"}`: 0,
		`sluice_team_requests_total{team="team"}`: 4, `sluice_team_errors_total{team="team"}`: 1, `sluice_team_tokens_total{kind="prompt",team="team"}`: 100,
		`sluice_team_cost_usd_total{team="team"}`: 100, `sluice_team_rejected_total{reason="budget",team="team"}`: 1, `sluice_model_rejected_total{model="m",reason="concurrent"}`: 1,
		`sluice_key_rejected_total{key="key-0000",reason="tokens_per_minute"}`: 1, `sluice_key_rejected_total{key="other",reason="expired"}`: 1,
	} {
		if v, ok := got[labels]; !ok || v != want {
			t.Errorf("%s: got %v (exists: %v), want %v", labels, v, ok, want)
		}
	}
	if _, ok := got[`sluice_key_requests_total{key="key-1000"}`]; ok {
		t.Error("more than MaxNames keys have series of their own")
	}
	if c := m.Key("key-1499"); c.Requests != 1 || c.Tokens != (cost.Tokens{Prompt: 40, Completion: 4, Cached: 20}) || c.Rejected["expired"] != 1 || len(c.Rejected) != 1 {
		t.Errorf("counts of a key without series of its own: %+v", c)
	}

	// A reload that removes a key drops its counts, and another key gets a series of its own.
	m.SetNames(telemetry.Names{Keys: names[1:]})
	got = series(t, m)
	if v := got[`sluice_key_requests_total{key="key-1000"}`]; v != 1 {
		t.Errorf("key with a new series: %v requests, want 1", v)
	}
	if v := got[`sluice_key_requests_total{key="other"}`]; v != 1 {
		t.Errorf("other keys: %v requests, want 1", v)
	}
	if _, ok := got[`sluice_key_requests_total{key="key-0000"}`]; ok || m.Key("key-0000").Requests != 0 {
		t.Error("a removed key still has counts")
	}
}

func TestPercentilesAndStatuses(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	if got := m.Totals().FirstEvent; got != (telemetry.Percentiles{}) {
		t.Errorf("percentiles without requests: %+v", got)
	}
	for i := range 100 {
		r := completion()
		r.FirstEvent = 75 * time.Millisecond // in the bucket from 50 to 100 ms
		if i >= 90 {
			r.FirstEvent = 20 * time.Minute // beyond the last bound
		}
		if i == 0 {
			r.Status, r.Code = 502, "upstream_error"
		}
		log.Request(&r)
	}
	got := m.Totals()
	if math.Abs(got.FirstEvent.P50-0.0777) > 0.001 || got.FirstEvent.P95 != 900 || got.FirstEvent.P99 != 900 {
		t.Errorf("percentiles of the first event: %+v", got.FirstEvent)
	}
	if got.Statuses["200"] != 99 || got.Statuses["502"] != 1 || len(got.Statuses) != 2 {
		t.Errorf("statuses: %v", got.Statuses)
	}
	if s := m.Models()["m"]; s.Requests != 100 || s.Failed != 1 || s.FirstEvent != got.FirstEvent {
		t.Errorf("statistics of the model: %+v", s)
	}
}

func completionWithKey(key string) telemetry.Record {
	r := completion()
	r.Key = key
	return r
}

// series returns the values of all series by name and labels.
func series(t *testing.T, m *telemetry.Metrics) map[string]float64 {
	t.Helper()
	_, text := scrape(t, m)
	all := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = v
		}
	}
	return all
}
