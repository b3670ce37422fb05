package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

const spending = `
[server]
auth = "keys"
[store]
zone = "Europe/Berlin"
[[teams]]
name    = "research"
limits  = { requests_per_minute = 100, concurrent = 8 }
budgets = [{ usd = 1_000, per = "month", warn = 0.8 }, { usd = 100.5, per = "day" }]
[[keys]]
name    = "a"
secret  = "sk-aaaa-0123456789abcdef"
team    = "research"
limits  = { requests_per_minute = 100 }
budgets = [{ usd = 0.000000001, per = "minute", strict = false }, { usd = 9000000, per = "total" }]
[providers.p]
preset  = "vllm"
limits  = { concurrent = 3 }
budgets = [{ usd = 5, per = "week" }]
[[models]]
id      = "m"
pricing = { input = 1 }
limits  = { tokens_per_minute = 7 }
budgets = [{ usd = 1, per = "hour" }]
targets = [{ provider = "p" }]
`

func parseBudgets(text string) (*config.Config, error) {
	return config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"demo", "openai", "router"}, Now: time.Unix(1_700_000_000, 0)})
}

func TestBudgets(t *testing.T) {
	c, err := parseBudgets(spending)
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range []struct {
		name string
		got  []config.Budget
		want []config.Budget
	}{
		{"team", c.Teams[0].Budgets, []config.Budget{{Limit: 1000 * cost.Dollar, Per: config.PerMonth, Warn: 0.8, Strict: true}, {Limit: 100*cost.Dollar + cost.Dollar/2, Per: config.PerDay, Strict: true}}},
		{"key", c.Keys[0].Budgets, []config.Budget{{Limit: 1, Per: config.PerMinute}, {Limit: 9_000_000 * cost.Dollar, Per: config.PerTotal, Strict: true}}},
		{"provider", c.Providers[0].Budgets, []config.Budget{{Limit: 5 * cost.Dollar, Per: config.PerWeek, Strict: true}}},
		{"model", c.Models[0].Budgets, []config.Budget{{Limit: cost.Dollar, Per: config.PerHour, Strict: true}}},
	} {
		if d := cmp.Diff(scope.want, scope.got); d != "" {
			t.Errorf("budgets of the %s (-want +got):\n%s", scope.name, d)
		}
	}
	if l := (config.Limits{TokensPerMinute: 7}); c.Models[0].Limits != l || c.Providers[0].Limits.Concurrent != 3 || c.Teams[0].Limits.Concurrent != 8 {
		t.Errorf("limits %+v, %+v, %+v", c.Models[0].Limits, c.Providers[0].Limits, c.Teams[0].Limits)
	}
	if c.Store.Zone.String() != "Europe/Berlin" {
		t.Errorf("zone %s", c.Store.Zone)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), "keys[0].budgets: budgets[0] is not strict: requests in flight can spend more than it") {
		t.Errorf("warnings %v", c.Warnings)
	}
}

// modelWithCanary returns text to insert before a model: another provider with a budget, and a model with a canary at
// that provider.
func modelWithCanary(members string) string {
	return "[providers.q]\npreset = \"vllm\"\nbudgets = [{ usd = 1, per = \"day\" }]\n[[models]]\nid = \"n\"\n" + members +
		"\ncanary = { target = \"q/x\", steps = [\"10%\"] }\n[[models]]\n"
}

// TestLimitsThatCanNeverApply checks that a limit or budget without any effect is an error.
func TestLimitsThatCanNeverApply(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"team without keys", "team    = \"research\"\n", "", []string{"8:11: teams[0].limits: can never apply: no client key belongs to the team"}},
		{"no authentication", `auth = "keys"`, `auth = "none"`, []string{
			`8:11: teams[0].limits: can never apply: server.auth is "none"`,
			`14:11: keys[0].limits: can never apply: server.auth is "none"`,
		}},
		{"key with more than its team", "{ requests_per_minute = 100 }\nbudgets = [{ usd = 0.000000001, per = \"minute\", strict = false }", "{ requests_per_minute = 101, concurrent = 9 }\nbudgets = [{ usd = 100.6, per = \"day\" }", []string{
			"14:35: keys[0].limits.requests_per_minute: can never apply: it is more than the 100 of the team research",
			"14:53: keys[0].limits.concurrent: can never apply: it is more than the 8 of the team research",
			"15:11: keys[0].budgets: the budget per day can never apply: it is more than the 100.5 US dollars of the team research",
		}},
		{"longer period with a smaller budget", "usd = 1_000,", "usd = 100,", []string{"9:62: teams[0].budgets[1].usd: the budget per month is smaller than the budget per day, which can never apply"}},
		{"two budgets for one period", `per = "total"`, `per = "minute"`, []string{`15:90: keys[0].budgets[1].per: there is already a budget per minute`}},
		{"no prices", "pricing = { input = 1 }\n", "", []string{
			"9:11: teams[0].budgets: can never apply: no model has a price; set pricing of m",
			"15:11: keys[0].budgets: can never apply: no model has a price; set pricing of m",
			"19:11: providers.p.budgets: can never apply: no model has a price; set pricing of m",
			"23:11: models[0].budgets: can never apply: no model has a price; set pricing of m",
		}},
		{"provider without targets", "[[models]]\n", "[providers.q]\nplugin = \"demo\"\nlimits = { concurrent = 1 }\n[[models]]\n", []string{
			"22:10: providers.q.limits: can never apply: no model has a target at the provider",
		}},
		{"canary without a price", "[[models]]\n", modelWithCanary("targets = [{ provider = \"p\", pricing = { input = 1 } }]"), []string{
			"22:11: providers.q.budgets: can never apply: no model has a price; set pricing of n",
		}},
		{"canary with a price", "[[models]]\n", modelWithCanary("pricing = { input = 1 }\ntargets = [{ provider = \"p\" }]"), nil},
		{"amount of the wrong type", "usd = 5,", "usd = \"5\",", []string{"19:20: providers.p.budgets[0].usd: must be a number, not a string"}},
		{"amount too large", "usd = 5,", "usd = 9_000_001,", []string{"19:20: providers.p.budgets[0].usd: must be more than 0 and at most 9000000 US dollars"}},
		{"amount of 0", "usd = 5,", "usd = 0,", []string{"19:20: providers.p.budgets[0].usd: must be more than 0 and at most 9000000 US dollars"}},
		{"amount with too many decimal places", "usd = 5,", "usd = 0.0000000001,", []string{"19:20: providers.p.budgets[0].usd: must have at most 9 decimal places"}},
		{"missing members", "{ usd = 5, per = \"week\" }", "{ }", []string{
			"19:12: providers.p.budgets[0].usd: is missing",
			"19:12: providers.p.budgets[0].per: is missing",
		}},
		{"unknown period", `per = "week"`, `per = "weak"`, []string{`19:29: providers.p.budgets[0].per: "weak" is invalid: want minute, hour, day, week, month or total, did you mean "week"?`}},
		{"limits in a table of their own", "[[models]]\n", "[limits]\nrequests_per_minute = 1\n[[models]]\n", []string{
			"20:2: limits: unknown key; write limits in [[keys]], [[teams]], [[models]] or [providers.NAME]",
		}},
		{"limits of a target", `targets = [{ provider = "p" }]`, `targets = [{ provider = "p", limits = { concurrent = 1 } }]`, []string{
			"25:30: models[0].targets[0].limits: unknown key; write limits in [[keys]], [[teams]], [[models]] or [providers.NAME]",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(spending, c.old, c.new, 1)
			if text == spending {
				t.Fatal("nothing was replaced")
			}
			_, err := parseBudgets(text)
			var got []string
			if err != nil {
				for line := range strings.Lines(err.Error()) {
					got = append(got, strings.TrimPrefix(strings.TrimSpace(line), "gateway.toml:"))
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("errors (-want +got):\n%s", d)
			}
		})
	}
}
