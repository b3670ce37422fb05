package e2e_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestExcessiveUsage has a provider count 2^41 tokens. The request is booked at the most that it could use, which is
// within its budget. A high count that a request can have is booked as it is.
func TestExcessiveUsage(t *testing.T) {
	for name, c := range map[string]struct {
		counts     string
		completion string
		spentBelow float64
		excessive  float64
	}{
		"prompt":     {`"prompt_tokens":2199023255552,"completion_tokens":4`, "4", 0.001, 1},
		"completion": {`"prompt_tokens":3,"completion_tokens":2199023255552`, "100", 0.0011, 1},
		"response":   {`"prompt_tokens":3,"completion_tokens":1000000`, "100", 0.0011, 1},
		"high":       {`"prompt_tokens":3,"completion_tokens":200`, "200", 0.0021, 0},
	} {
		body := strings.Replace(shortChatResponse, `"prompt_tokens":3,"completion_tokens":1`, c.counts, 1)
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", body, "Connection: close"))
		g := proxytest.Start(t, budgetConfiguration(provider.URL(), `budgets = [{ usd = 1, per = "total" }]`, "", "", ""))
		admin := g.Admin(t)
		for range 2 {
			r := g.Chat(t, budgetRequest(100, false))
			if r.Status != 200 {
				t.Fatalf("%s: %d %s", name, r.Status, r.Body)
			}
			if line := g.Log.Request(t, r.RequestID()); line["completion_tokens"] != c.completion {
				t.Errorf("%s: got log line %v", name, line)
			}
		}
		m := proxytest.Scrape(t, admin)
		if spent := m.Sum("sluice_budget_spent_usd", "scope", "key"); spent == 0 || spent >= 2*c.spentBelow {
			t.Errorf("%s: the budget has %v spent", name, spent)
		}
		if got := m.Sum("sluice_usage_excessive_total"); got != 2*c.excessive {
			t.Errorf("%s: sluice_usage_excessive_total is %v", name, got)
		}
		if alarms := strings.Count(g.Log.String(), "provider counted more tokens than the request could use"); alarms != int(c.excessive) {
			t.Errorf("%s: %d alarms", name, alarms)
		}
	}
}
