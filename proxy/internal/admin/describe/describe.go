// Package describe builds the parts of an admin.Status from the counts of other packages.
//
// It maps counts to members of the status. Callers supply the counts, and package admin serves and renders the status.
// Lists that can be long are cut to one page (admin.Page).
//
// Concurrency: functions only.
package describe

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Requests describes the totals of all requests.
func Requests(t *telemetry.Totals) admin.Requests {
	return admin.Requests{
		Total: t.Requests, ClientErrors: t.ClientErrors, ServerErrors: t.ServerErrors, Disconnects: t.Disconnects,
		InFlight: t.InFlight, Streams: t.Streams, PromptTokens: t.PromptTokens, CompletionTokens: t.CompletionTokens, Cost: t.Cost,
		FirstEvents: t.FirstEvents, FirstEventSeconds: t.FirstEventSum.Seconds(), Refused: t.Refused, Shed: t.Shed, Heartbeats: t.Heartbeats,
		Panics: t.Panics, Statuses: t.Statuses, FirstEvent: admin.Percentiles(t.FirstEvent), Duration: admin.Percentiles(t.Duration),
	}
}

// Plugins describes plugins.
func Plugins(stats []plugin.Stats) (all []admin.Plugin) {
	for i := range stats {
		p := &stats[i]
		kinds := make(map[string]int64, len(p.Failed))
		for kind, n := range p.Failed {
			kinds[kind.Label()] = n
		}
		all = append(all, admin.Plugin{
			Name: p.Plugin, Calls: p.Calls, Failures: p.Failures, Kinds: kinds, Retries: p.Retries, Fuel: p.Fuel, Unknown: p.Unknown,
			Breaker: p.Breaker.String(), Open: p.Breaker != plugin.BreakerClosed, Opened: p.Opened,
			Used: p.Instances - p.Idle, Idle: p.Idle, Waiting: p.Waiting, Memory: p.Memory, Generations: p.Generations,
		})
	}
	return all
}

// AddKeys adds client keys. counts returns the counts of a key.
func AddKeys(status *admin.Status, keys []config.Key, counts func(name string) telemetry.Counts) {
	status.KeysTotal = len(keys)
	from, to := status.Page.Cut(len(keys))
	for i := from; i < to; i++ {
		k := &keys[i]
		c := counts(k.Name)
		key := admin.Key{Name: k.Name, Team: k.Team, Counts: groupCounts(&c)}
		switch {
		case k.Disabled:
			key.State = "disabled"
		case !k.Expires.IsZero() && !status.Now.Before(k.Expires):
			key.State = "expired"
		case status.Now.Before(k.NotBefore):
			key.State = "not valid yet"
		}
		status.Keys = append(status.Keys, key)
	}
}

// AddTeams adds the teams of a configuration. counts returns the counts of a team.
func AddTeams(status *admin.Status, cfg *config.Config, counts func(name string) telemetry.Counts) {
	keys := make(map[string]int)
	for i := range cfg.Keys {
		keys[cfg.Keys[i].Team]++
	}
	status.TeamsTotal = len(cfg.Teams)
	from, to := status.Page.Cut(status.TeamsTotal)
	for i := from; i < to; i++ {
		name := cfg.Teams[i].Name
		c := counts(name)
		status.Teams = append(status.Teams, admin.Team{Name: name, Keys: keys[name], Counts: groupCounts(&c)})
	}
}

// groupCounts describes the counts of a model, key or team.
func groupCounts(c *telemetry.Counts) admin.Counts {
	t := &c.Tokens
	return admin.Counts{
		Requests: c.Requests, Errors: c.Errors, PromptTokens: t.Prompt, CompletionTokens: t.Completion, CachedTokens: t.Cached,
		CacheWriteTokens: t.CacheWrite, ReasoningTokens: t.Reasoning, Cost: c.Cost, Rejected: c.Rejected,
	}
}

// AddBudgets adds budgets: first those that reject requests, then the others, each sorted by use in descending order.
// It sorts all in place.
func AddBudgets(status *admin.Status, all []spend.Status) {
	rank := func(s *spend.Status) int {
		if s.State() == spend.StateRefusing {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b spend.Status) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Used(), a.Used()))
	})
	status.BudgetsTotal = len(all)
	from, to := status.Page.Cut(len(all))
	for i := range all[from:to] {
		status.Budgets = append(status.Budgets, admin.DescribeBudget(&all[from+i]))
	}
}

// Process reads the resource usage of the process. If the resident size is unknown, Memory is the memory of the Go
// runtime, which does not include plugins.
func Process() admin.Process {
	m := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(m)
	p := admin.Process{Heap: int64(m[0].Value.Uint64()), Goroutines: int64(m[1].Value.Uint64())}
	p.Memory = int64(m[2].Value.Uint64() - m[3].Value.Uint64())
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(statm); len(fields) > 1 {
			if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				p.Memory = pages * int64(os.Getpagesize())
			}
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		p.Limit = limit
	}
	return p
}
