package routing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

func targets() []routing.Target {
	return []routing.Target{
		newTarget(routing.Target{Provider: "a", Model: "m1", Weight: 1}),
		newTarget(routing.Target{Provider: "b", Model: "m2", Weight: 9}),
		newTarget(routing.Target{Provider: "c", Model: "m3", Weight: 5, Fallback: true}),
		newTarget(routing.Target{Provider: "d", Model: "m4", Weight: 1, Priority: 1}),
	}
}

// summary is a minimal summary of a request.
type summary struct{}

func (summary) AppendSummary(dst []byte) []byte { return append(dst, `{"model":"x"}`...) }

// ExpectedCost returns the cost of 1000 prompt tokens.
func (summary) ExpectedCost(t *routing.Target, cachedShare float64) cost.Nano {
	return t.Prices.Cost(cost.Tokens{Prompt: 1000, Cached: int64(1000 * cachedShare)})
}

// headers are the headers of a request, by name in lower case.
type headers map[string]string

func (h headers) Peek(name string) []byte { return []byte(h[name]) }

var salt = routing.NewSalt("pepper")

// request returns a request with the client key "team". It has a conversation unless session is "".
func request(session string) *routing.Request {
	return &routing.Request{
		Key: "team", API: "chat", Summary: summary{},
		Identity: routing.Identity{Salt: salt, Header: headers{"x-session-id": session}, Client: "team"},
	}
}

// chooser is a routing.Chooser that only accepts requests of the client key "team".
type chooser func(input []byte, n int) ([]int, string, error)

func (c chooser) Choose(_ context.Context, client string, input []byte, n int) ([]int, string, error) {
	if client != "team" {
		return nil, "", errors.New("called for the client " + client)
	}
	return c(input, n)
}

func decide(tb testing.TB, p *routing.Policy, r *routing.Request) (*routing.Decision, error) {
	tb.Helper()
	d := new(routing.Decision)
	err := p.Decide(tb.Context(), r, now, d)
	return d, err
}

// orderOf returns the order of targets for a request, which must not be rejected.
func orderOf(tb testing.TB, p *routing.Policy, r *routing.Request) []int {
	tb.Helper()
	d, err := decide(tb, p, r)
	if err != nil {
		tb.Fatal(err)
	}
	return d.Order()
}

func TestConfiguredOrder(t *testing.T) {
	p := &routing.Policy{Targets: targets()}
	if got, want := orderOf(t, p, request("")), []int{1, 0, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("all healthy: %v, want %v", got, want)
	}
	fail(t, &p.Targets[1], 5)
	if got, want := orderOf(t, p, request("")), []int{0, 3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("circuit of b open: %v, want %v", got, want)
	}
	r := request("")
	r.Previous = "c"
	if d, _ := decide(t, p, r); !slices.Equal(d.Order(), []int{2, 0, 3, 1}) || !d.Previous {
		t.Errorf("the target of the provider with the previous response is not first: %v", d.Order())
	}
}

// covers: C15 C69
func TestRouterOrdersTargets(t *testing.T) {
	router := func(c chooser) *routing.Policy {
		return &routing.Policy{Targets: targets(), Router: &routing.Router{Plugin: "r", Chooser: c}}
	}
	d, err := decide(t, router(func(input []byte, n int) ([]int, string, error) {
		var doc struct {
			Summary struct{ Model string }
			Targets []struct {
				Index    int
				Provider string
				Healthy  bool
				Options  map[string]any
			}
		}
		if err := json.Unmarshal(input, &doc); err != nil {
			t.Fatal(err)
		}
		if n != 4 || len(doc.Targets) != 4 || doc.Summary.Model != "x" || doc.Targets[3].Provider != "d" || !doc.Targets[0].Healthy {
			t.Errorf("input: %s", input)
		}
		return []int{3, 0}, "because", nil
	}), request(""))
	if err != nil || d.Words != "because" || !slices.Equal(d.Order(), []int{3, 0}) || d.Router != routing.RouterOrdered {
		t.Errorf("order: %v %q %v", d.Order(), d.Words, err)
	}
	if d.Left(1) != routing.LeftByRouter || d.Left(0) != routing.NotLeft {
		t.Errorf("left out: target 1 by %v, target 0 by %v; want only target 1 by the router", d.Left(1), d.Left(0))
	}

	open := router(func([]byte, int) ([]int, string, error) { return []int{3, 2, 0}, "", nil })
	fail(t, &open.Targets[3], 5)
	if got := orderOf(t, open, request("")); !slices.Equal(got, []int{2, 0, 3}) {
		t.Errorf("the target with an open circuit is not last: %v", got)
	}

	trap := errors.New("trap")
	for _, c := range []struct {
		name    string
		err     error
		outcome routing.RouterOutcome
	}{{"failed", trap, routing.RouterFailed}, {"named none", nil, routing.RouterNamedNone}} {
		p := router(func([]byte, int) ([]int, string, error) { return nil, "none of them", c.err })
		d, err := decide(t, p, request(""))
		if err != nil || d.Router != c.outcome || d.Err == nil || !slices.Equal(d.Order(), []int{1, 0, 3, 2}) {
			t.Errorf("router that %s: order %v, outcome %v, error %v; %v", c.name, d.Order(), d.Router, d.Err, err)
		}
		if line := string(d.AppendLine(nil)); !strings.Contains(line, "router "+c.name) {
			t.Errorf("router that %s: line %q", c.name, line)
		}
		p.Router.Refuse = true
		if _, err := decide(t, p, request("")); !errors.Is(err, d.Err) {
			t.Errorf(`router that %s, with on_failure = "refuse": %v`, c.name, err)
		} else if _, ok := errors.AsType[*routing.RouterError](err); !ok {
			t.Errorf("got an error of type %T, want *routing.RouterError", err)
		}
	}

	rejection := &apierror.Error{Code: "denied"}
	for _, refuse := range []bool{false, true} {
		p := router(func([]byte, int) ([]int, string, error) { return nil, "", rejection })
		p.Router.Refuse = refuse
		if d, err := decide(t, p, request("")); err != error(rejection) || d.Router != routing.RouterRejected {
			t.Errorf("router that rejected the request: outcome %v, %v", d.Router, err)
		}
	}

	calls := 0
	one := router(func([]byte, int) ([]int, string, error) { calls++; return []int{0}, "", nil })
	one.Targets = one.Targets[:1]
	if got := orderOf(t, one, request("")); calls != 0 || !slices.Equal(got, []int{0}) {
		t.Errorf("single target: router called %d times, order %v", calls, got)
	}
	one.Router.Always = true
	if got := orderOf(t, one, request("")); calls != 1 || !slices.Equal(got, []int{0}) {
		t.Errorf("single target with always = true: router called %d times, order %v", calls, got)
	}
}

// Conditions and rules leave out targets before the router is called. The targets in its input are numbered from 0.
func TestRouterGetsRemainingTargets(t *testing.T) {
	yes, no := true, false
	var got []string
	newRouter := func(name string) *routing.Router {
		return &routing.Router{Plugin: name, Chooser: chooser(func(input []byte, n int) ([]int, string, error) {
			var doc struct{ Targets []struct{ Provider string } }
			if err := json.Unmarshal(input, &doc); err != nil || n != len(doc.Targets) {
				t.Fatal(err, n)
			}
			got = []string{name}
			for _, x := range doc.Targets {
				got = append(got, x.Provider)
			}
			return []int{n - 1, 0}, "", nil
		})}
	}
	p := &routing.Policy{Targets: targets(), Router: newRouter("model")}
	p.Rules = []routing.Rule{
		{Name: "tools", When: &config.When{Tools: &yes}, Allows: []bool{true, false, true, false}, Router: newRouter("rule")},
		{Name: "none", When: &config.When{Images: &yes}, Allows: []bool{false, true, false, false}, Router: newRouter("unused")},
		{Name: "rest", When: &config.When{Stream: &yes}, Allows: []bool{true, true, true, true}},
	}
	p.Targets[0].When = &config.When{Thinking: &no}
	p.Targets[1].When = &config.When{Images: &no}
	for _, c := range []struct {
		name  string
		r     routing.Request
		input string // name of the router and the providers in its input
		rule  string
		order []int
		err   error
	}{
		{"no rule", routing.Request{}, "model a b c d", "", []int{3, 0}, nil},
		{"first of two rules", routing.Request{Tools: 2, Images: 1, Stream: true}, "rule a c", "tools", []int{2, 0}, nil},
		{"one target left", routing.Request{Tools: 2, Thinking: true}, "", "tools", []int{2}, nil},
		{"no target left", routing.Request{Images: 1}, "", "none", nil, routing.ErrNoTarget},
		{"rule without a router", routing.Request{Stream: true}, "", "rest", []int{1, 0, 3, 2}, nil},
	} {
		got = nil
		c.r.Key, c.r.Summary, c.r.Identity = "team", summary{}, request("").Identity
		d, err := decide(t, p, &c.r)
		if strings.Join(got, " ") != c.input || d.Rule() != c.rule || !slices.Equal(d.Order(), c.order) || !errors.Is(err, c.err) {
			t.Errorf("%s: router and input %q, rule %q, order %v, %v", c.name, strings.Join(got, " "), d.Rule(), d.Order(), err)
		}
	}
}

func TestConditions(t *testing.T) {
	yes, no := true, false
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones on this machine")
	}
	at := func(clock string) time.Time {
		v, err := time.Parse("2006-01-02 15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	day, night := []config.DayTime{{From: 8 * 60, To: 18 * 60}}, []config.DayTime{{From: 22 * 60, To: 6 * 60}}
	noon := at("2026-06-01 12:00")
	full := routing.Request{
		Key: "ci-7", Team: "research", KeyTags: map[string]string{"plan": "gold", "env": "prod"}, API: "messages",
		Stream: true, Tools: 3, Images: 1, Thinking: true, PromptTokens: 1000,
	}
	for _, c := range []struct {
		name  string
		when  config.When
		r     routing.Request
		now   time.Time
		zone  *time.Location
		holds bool
	}{
		{"no condition", config.When{}, routing.Request{}, noon, nil, true},
		{"key", config.When{Keys: []config.Glob{"ci-*"}}, full, noon, nil, true},
		{"different key", config.When{Keys: []config.Glob{"web", "ci"}}, full, noon, nil, false},
		{"no key", config.When{Keys: []config.Glob{"*"}}, routing.Request{}, noon, nil, false},
		{"team", config.When{Teams: []config.Glob{"sales", "res*"}}, full, noon, nil, true},
		{"no team", config.When{Teams: []config.Glob{"*"}}, routing.Request{}, noon, nil, false},
		{"tags", config.When{Tags: []config.TagMatch{{Name: "plan", Values: []config.Glob{"silver", "gold"}}, {Name: "env", Values: []config.Glob{"p*"}}}}, full, noon, nil, true},
		{"only one of two tags", config.When{Tags: []config.TagMatch{{Name: "plan", Values: []config.Glob{"gold"}}, {Name: "env", Values: []config.Glob{"test"}}}}, full, noon, nil, false},
		{"no such tag", config.When{Tags: []config.TagMatch{{Name: "tier", Values: []config.Glob{"*"}}}}, full, noon, nil, false},
		{"api", config.When{APIs: []string{"chat", "messages"}}, full, noon, nil, true},
		{"different api", config.When{APIs: []string{"chat"}}, full, noon, nil, false},
		{"stream", config.When{Stream: &yes}, full, noon, nil, true},
		{"no stream", config.When{Stream: &no}, full, noon, nil, false},
		{"tools", config.When{Tools: &yes}, full, noon, nil, true},
		{"no tools", config.When{Tools: &no}, routing.Request{}, noon, nil, true},
		{"images", config.When{Images: &no}, full, noon, nil, false},
		{"thinking", config.When{Thinking: &yes}, full, noon, nil, true},
		{"start of the range", config.When{PromptFrom: 1000}, full, noon, nil, true},
		{"below the range", config.When{PromptFrom: 1001}, full, noon, nil, false},
		{"end of the range", config.When{PromptTo: 1000}, full, noon, nil, false},
		{"within the range", config.When{PromptFrom: 0, PromptTo: 1001}, full, noon, nil, true},
		{"one of several conditions fails", config.When{Keys: []config.Glob{"*"}, Stream: &yes, PromptTo: 10}, full, noon, nil, false},
		{"day, at its start", config.When{Times: day}, full, at("2026-06-01 08:00"), nil, true},
		{"day, before", config.When{Times: day}, full, at("2026-06-01 07:59"), nil, false},
		{"day, at its end", config.When{Times: day}, full, at("2026-06-01 18:00"), nil, false},
		{"night, before midnight", config.When{Times: night}, full, at("2026-06-01 23:30"), nil, true},
		{"night, at midnight", config.When{Times: night}, full, at("2026-06-01 00:00"), nil, true},
		{"night, after midnight", config.When{Times: night}, full, at("2026-06-01 05:59"), nil, true},
		{"night, at its end", config.When{Times: night}, full, at("2026-06-01 06:00"), nil, false},
		{"one of two times", config.When{Times: append(slices.Clone(day), night...)}, full, at("2026-06-01 23:00"), nil, true},
		{"neither of two times", config.When{Times: append(slices.Clone(day), night...)}, full, at("2026-06-01 20:00"), nil, false},
		{"until the end of the day", config.When{Times: []config.DayTime{{From: 12 * 60, To: 24 * 60}}}, full, at("2026-06-01 23:59"), nil, true},
		{"summer time in Berlin", config.When{Times: day}, full, at("2026-06-01 06:30"), berlin, true},
		{"winter time in Berlin", config.When{Times: day}, full, at("2026-12-01 06:30"), berlin, false},
	} {
		p := &routing.Policy{Targets: targets()[:1], Zone: c.zone}
		p.Targets[0].When = &c.when
		err := p.Decide(t.Context(), &c.r, c.now, new(routing.Decision))
		if c.holds && err != nil || !c.holds && !errors.Is(err, routing.ErrNoTarget) {
			t.Errorf("%s: got %v, want the condition to hold: %v", c.name, err, c.holds)
		}
	}
}

// For any policy, the order has each target once that is not left out, and those with an open circuit last.
func TestOrderIsPermutationOfCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		yes := true
		p := &routing.Policy{Affinity: config.Affinity{By: rapid.SampledFrom([]config.AffinityBy{config.AffinityNone, config.AffinityConversation}).Draw(t, "affinity")}}
		n := rapid.IntRange(1, 8).Draw(t, "targets")
		for range n {
			target := newTarget(routing.Target{
				Provider: fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "provider")), Model: "m",
				Weight: rapid.IntRange(0, 3).Draw(t, "weight"), Priority: rapid.IntRange(-1, 1).Draw(t, "priority"), Fallback: rapid.Bool().Draw(t, "fallback"),
			})
			if rapid.Bool().Draw(t, "condition") {
				target.When = &config.When{Stream: &yes}
			}
			p.Targets = append(p.Targets, target)
			if rapid.Bool().Draw(t, "open") {
				for range 5 {
					ticket, _ := target.StartAttempt(now, false, false)
					target.EndAttempt(ticket, routing.Failed, 0, 0, now)
				}
			}
		}
		if rapid.Bool().Draw(t, "rule") {
			p.Rules = []routing.Rule{{Name: "r", Allows: rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "allows")}}
		}
		named := n
		if rapid.Bool().Draw(t, "router") {
			p.Router = &routing.Router{Chooser: chooser(func(_ []byte, n int) ([]int, string, error) {
				order := rapid.Permutation(sequence(n)).Draw(t, "order")
				named = rapid.IntRange(0, n).Draw(t, "named")
				return order[:named], "", nil
			})}
		}
		r := request(rapid.SampledFrom([]string{"", "s"}).Draw(t, "session"))
		r.Stream = rapid.Bool().Draw(t, "stream")
		d := new(routing.Decision)
		err := p.Decide(t.Context(), r, now, d)
		var want []int
		for i := range p.Targets {
			if d.Left(i) == routing.NotLeft {
				want = append(want, i)
			}
		}
		got := slices.Sorted(slices.Values(d.Order()))
		if !slices.Equal(got, want) || (len(want) == 0) != (err != nil) {
			t.Fatalf("order %v, candidates %v, %v", d.Order(), want, err)
		}
		open := false
		for _, i := range d.Order() {
			ready := p.Targets[i].Stats.Snapshot(now).Ready
			if ready && open {
				t.Fatalf("a target with an open circuit comes before another: %v", d.Order())
			}
			open = open || !ready
		}
		if !json.Valid(d.AppendJSON(nil)) {
			t.Fatalf("invalid JSON: %s", d.AppendJSON(nil))
		}
		for _, c := range d.AppendLine(nil) {
			if c < ' ' || c > '~' {
				t.Fatalf("not printable: %q", d.AppendLine(nil))
			}
		}
	})
}

func sequence(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// sticky returns a policy with affinity by conversation, and targets that differ in weight only.
func sticky(weights ...int) *routing.Policy {
	p := &routing.Policy{Affinity: config.Affinity{By: config.AffinityConversation}}
	for i, w := range weights {
		p.Targets = append(p.Targets, newTarget(routing.Target{Provider: fmt.Sprint("p", i), Model: "m", Weight: w}))
	}
	return p
}

// Requests of a conversation go to one target, whose provider may have cached the conversation's prompt.
func TestConversationStaysOnTarget(t *testing.T) {
	for _, weights := range [][]int{{1, 1}, {9, 1}, {1, 1, 1, 1, 1}} {
		p := sticky(weights...)
		used := map[int]bool{}
		for c := range 50 {
			first := orderOf(t, p, request(fmt.Sprint("conversation ", c)))[0]
			used[first] = true
			for range 12 {
				if got := orderOf(t, sticky(weights...), request(fmt.Sprint("conversation ", c)))[0]; got != first {
					t.Fatalf("conversation %d went to targets %d and %d", c, first, got)
				}
			}
		}
		if len(used) != len(weights) {
			t.Errorf("weights %v: 50 conversations used %d targets, want all", weights, len(used))
		}
	}
}

// An open circuit moves only the conversations of its target, at most the target's share plus 5 %, and they return when
// it closes.
func TestOpenCircuitMovesOnlyItsShare(t *testing.T) {
	const conversations = 4000
	weights := []int{3, 2, 4, 1}
	p := sticky(weights...)
	firstTargets := func() (first [conversations]int) {
		for c := range conversations {
			first[c] = orderOf(t, p, request(fmt.Sprint(c)))[0]
		}
		return first
	}
	before := firstTargets()
	for open := range p.Targets {
		fail(t, &p.Targets[open], 5)
		moved, during := 0, firstTargets()
		for c := range conversations {
			switch {
			case before[c] == open && during[c] == open:
				t.Fatal("a conversation stayed on a target with an open circuit")
			case before[c] != open && during[c] != before[c]:
				t.Fatal("a conversation of another target moved")
			case before[c] == open:
				moved++
			}
		}
		if share := float64(moved) / conversations; share > float64(weights[open])/10+0.05 {
			t.Errorf("%.3f of all conversations moved from a target with the weight %d of 10", share, weights[open])
		}
		*p.Targets[open].Stats = routing.Stats{}
		if firstTargets() != before {
			t.Fatal("not all conversations returned")
		}
	}
}

// Affinity only chooses among targets of the same rank.
func TestAffinityRespectsRank(t *testing.T) {
	p := sticky(1, 1, 1, 1)
	p.Targets[0].Fallback, p.Targets[1].Priority = true, 1
	used := map[int]bool{}
	for c := range 100 {
		order := orderOf(t, p, request(fmt.Sprint(c)))
		if order[2] != 1 || order[3] != 0 {
			t.Fatalf("order %v", order)
		}
		used[order[0]] = true
	}
	if len(used) != 2 {
		t.Errorf("%d of two equal targets were first", len(used))
	}
}

func TestIdentity(t *testing.T) {
	parse := func(body string) *jsondoc.Doc {
		var d jsondoc.Doc
		if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		return &d
	}
	const body = `{"messages":[{"role":"user","content":"hi"}],"user":"u"}`
	conversation := config.Affinity{By: config.AffinityConversation}
	for _, c := range []struct {
		name, from string
		affinity   config.Affinity
		h          headers
		body       string
	}{
		{"x-session-id first", "x-session-id", conversation, headers{"x-session-id": "s", "session-id": "t"}, body},
		{"Claude Code", "x-claude-code-session-id", conversation, headers{"x-claude-code-session-id": "s"}, body},
		{"Codex", "session-id", conversation, headers{"session-id": "s"}, `{"prompt_cache_key":"k"}`},
		{"earlier Codex", "session_id", conversation, headers{"session_id": "s"}, body},
		{"OpenCode", "x-session-affinity", conversation, headers{"x-session-affinity": "s"}, body},
		{"prompt_cache_key", "prompt_cache_key", conversation, headers{}, `{"prompt_cache_key":"k","messages":[]}`},
		{"content", "content", conversation, headers{}, body},
		{"a header that is too long", "content", conversation, headers{"x-session-id": strings.Repeat("x", 2000)}, body},
		{"nothing", "", conversation, headers{}, `{}`},
		{"user", "user", config.Affinity{By: config.AffinityUser}, headers{"x-session-id": "s"}, body},
		{"user of Messages", "metadata.user_id", config.Affinity{By: config.AffinityUser}, nil, `{"metadata":{"user_id":"u"}}`},
		{"no user", "", config.Affinity{By: config.AffinityUser}, headers{"x-session-id": "s"}, `{}`},
		{"key", "key", config.Affinity{By: config.AffinityKey}, headers{}, body},
		{"header", "x-tenant", config.Affinity{By: config.AffinityHeader, Header: "x-tenant"}, headers{"x-tenant": "t"}, body},
		{"no such header", "", config.Affinity{By: config.AffinityHeader, Header: "x-tenant"}, headers{}, body},
		{"none", "", config.Affinity{By: config.AffinityNone}, headers{"x-session-id": "s"}, body},
		{"unset", "", config.Affinity{}, headers{"x-session-id": "s"}, body},
	} {
		hash := func(s *routing.Salt) routing.Hash {
			i := routing.Identity{Salt: s, Header: c.h, Doc: parse(c.body), Client: "team"}
			return i.AffinityHash(c.affinity)
		}
		h := hash(salt)
		if h.From != c.from || h.Known != (c.from != "") {
			t.Errorf("%s: from %q, want %q", c.name, h.From, c.from)
		}
		if again := hash(routing.NewSalt("pepper")); again != h {
			t.Errorf("%s: %+v and %+v with the same salt", c.name, h, again)
		}
		if other := hash(routing.NewSalt("")); h.Known && other.Sum == h.Sum {
			t.Errorf("%s: the hash does not depend on the salt", c.name)
		}
	}
	// The same text has a different hash for each kind of affinity.
	i := routing.Identity{Salt: salt, Header: headers{"x-session-id": "same", "x-h": "same"}, Doc: parse(`{"user":"same"}`), Client: "same"}
	sums := map[uint64]bool{}
	for _, a := range []config.Affinity{conversation, {By: config.AffinityUser}, {By: config.AffinityKey}, {By: config.AffinityHeader, Header: "x-h"}} {
		sums[i.AffinityHash(a).Sum] = true
	}
	if len(sums) != 4 {
		t.Errorf("%d different hashes for four kinds of affinity", len(sums))
	}
}

func TestRouterInput(t *testing.T) {
	var d jsondoc.Doc
	if err := d.Parse([]byte(`{"metadata":{"trace":"t","user_id":"u"},"messages":[{"role":"user","content":"secret prompt"}]}`), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	var got string
	p := sticky(1, 2)
	p.Targets[0].CachesPrompts = true
	p.Targets[0].RecordUsage(routing.Usage{Prompt: 10, Cached: 5, CountsCached: true, Completion: 100, Streamed: time.Second})
	attempt(t, &p.Targets[1], routing.RateLimited, 1500*time.Millisecond, now)
	p.Router = &routing.Router{Chooser: chooser(func(input []byte, _ int) ([]int, string, error) {
		got = string(input)
		return []int{0}, "", nil
	})}
	r := request("s")
	r.Team, r.KeyTags, r.Identity.Doc = "research", map[string]string{"plan": "gold", "env": `"p"`}, &d
	r.MaxTokens, r.PromptTokens, r.Messages, r.Images, r.Tools = 64, 1000, 3, 1, 2
	if err := p.Decide(t.Context(), r, now, new(routing.Decision)); err != nil {
		t.Fatal(err)
	}
	hash := fmt.Sprintf("%016x", r.Identity.Conversation().Sum)
	want := `{"summary":{"model":"x","key":"team","team":"research","key_tags":{"env":"\"p\"","plan":"gold"},"affinity":"` + hash + `","conversation":"` + hash +
		`","user":"` + fmt.Sprintf("%016x", r.Identity.User().Sum) + `","max_tokens_asked":64,"prompt_tokens":1000,"messages":3,"images":1,"tools":2},"targets":[` +
		`{"index":0,"provider":"p0","model":"m","weight":1,"priority":0,"fallback":false,"healthy":true,"inflight":0,"latency_ms":0,"error_rate":0.0000,` +
		`"limited_for_ms":0,"tokens_per_second":100.0,"cached_share":0.5000,"caches_prompts":true,"input_price":0,"output_price":0,"options":{}},` +
		`{"index":1,"provider":"p1","model":"m","weight":2,"priority":0,"fallback":false,"healthy":false,"inflight":0,"latency_ms":0,"error_rate":0.2000,` +
		`"limited_for_ms":1500,"tokens_per_second":0.0,"cached_share":0.0000,"caches_prompts":false,"input_price":0,"output_price":0,"options":{}}]}`
	if got != want {
		t.Errorf("input\n%s\nwant\n%s", got, want)
	}

	// Other parts of a request are included only if the configuration lists them in reads.
	p.Router.Reads = []string{"metadata", "header:x-tenant", "header:x-none"}
	r.Identity.Header = headers{"x-tenant": "a\"\xff", "authorization": "Bearer secret"}
	if err := p.Decide(t.Context(), r, now, new(routing.Decision)); err != nil {
		t.Fatal(err)
	}
	if want := `"tools":2,"headers":{"x-tenant":"a\"` + "\uFFFD" + `"},"metadata":{"trace":"t","user_id":"u"}},"targets"`; !strings.Contains(got, want) || !json.Valid([]byte(got)) {
		t.Errorf("input %s", got)
	}
	if strings.Contains(got, "secret") {
		t.Error("the input contains the prompt or a credential")
	}
}

func TestExplanation(t *testing.T) {
	yes := true
	p := sticky(1, 1, 1, 1)
	p.Model = "m"
	p.Targets[1].When = &config.When{Stream: &yes}
	p.Rules = []routing.Rule{{Name: "small", Allows: []bool{true, true, false, true}}}
	fail(t, &p.Targets[3], 5)
	r := request("s")
	d, err := decide(t, p, r)
	if err != nil {
		t.Fatal(err)
	}
	d.Skip(3, routing.NotPermitted)
	first := d.StartAttempt(0, "")
	hash := fmt.Sprintf("%016x", r.Identity.Conversation().Sum)
	start := "rule small; affinity conversation " + hash + " (x-session-id); order p0/m, p3/m (circuit open); left out p1/m (when), p2/m (rule); attempts p3/m not_permitted, p0/m"
	if got := string(d.AppendLine(nil)); got != start+" under way" {
		t.Errorf("line %q", got)
	}
	d.EndAttempt(first, "overloaded", 529, 12*time.Millisecond)
	d.EndAttempt(d.StartAttempt(0, "retry"), "", 200, 340*time.Millisecond)
	if got, want := string(d.AppendLine(nil)), start+" 529 overloaded 12ms, p0/m (retry) 200 340ms"; got != want {
		t.Errorf("line %q\nwant %q", got, want)
	}
	want := `{"model":"m","rule":"small","affinity":{"by":"conversation","from":"x-session-id","hash":"` + hash + `"},"targets":[{"target":"p0/m"},` +
		`{"target":"p1/m","left_out":"when"},{"target":"p2/m","left_out":"rule"},{"target":"p3/m","circuit_open":true}],"order":["p0/m","p3/m"],` +
		`"attempts":[{"target":"p3/m","code":"not_permitted","ms":0},{"target":"p0/m","status":529,"code":"overloaded","ms":12},{"target":"p0/m","why":"retry","status":200,"ms":340}]}`
	if got := string(d.AppendJSON(nil)); got != want {
		t.Errorf("JSON\n%s\nwant\n%s", got, want)
	}
}
