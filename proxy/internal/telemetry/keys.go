package telemetry

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// MaxNames is the maximum number of client keys that have series of their own: the first MaxNames in the configuration.
// The others share the series of Other. The same maximum applies to teams, and to models in the series of rejections.
const MaxNames = 1000

// Rejection is the reason a request with a known key was rejected.
type Rejection uint8

// The rejections. Those up to RejectedBudget apply to keys, teams and models; the others only to keys.
const (
	RejectedRequests Rejection = iota // requests per minute
	RejectedTokens                    // tokens per minute
	RejectedConcurrent
	RejectedBudget // a budget is spent, held by requests in flight, or cannot be checked
	RejectedModel  // the key may not use the model
	RejectedDisabled
	RejectedExpired
	RejectedNotYetValid
	rejections = iota
)

var rejectionNames = [rejections]string{
	RejectedRequests: "requests_per_minute", RejectedTokens: "tokens_per_minute", RejectedConcurrent: "concurrent", RejectedBudget: "budget",
	RejectedModel: "model", RejectedDisabled: "disabled", RejectedExpired: "expired", RejectedNotYetValid: "not_yet_valid",
}

// Counts are the counts of one client key, team or model since the start of the process.
type Counts struct {
	Requests int64
	Errors   int64 // requests that ended with a 4xx or 5xx or as a broken stream, except for client disconnects
	Tokens   cost.Tokens
	Cost     *cost.Nano       // nil if no request had a price
	Rejected map[string]int64 // by reason, without zeros
}

// The kinds of tokens that are counted. The first two add up to all tokens; the others are parts of these two.
const (
	promptTokens = iota
	completionTokens
	cachedTokens
	writtenTokens
	reasoningTokens
	tokenKinds
)

var tokenKindNames = [tokenKinds]string{
	promptTokens: "prompt", completionTokens: "completion", cachedTokens: "cached", writtenTokens: "cache_write", reasoningTokens: "reasoning",
}

// tokenCounts counts tokens by kind.
type tokenCounts [tokenKinds]atomic.Int64

func (c *tokenCounts) add(t *cost.Tokens) {
	for kind, n := range [tokenKinds]int64{t.Prompt, t.Completion, t.Cached, t.CacheWrite, t.Reasoning} {
		if n > 0 {
			c[kind].Add(n)
		}
	}
}

func (c *tokenCounts) addTo(sum *tokenCounts) {
	for kind := range c {
		sum[kind].Add(c[kind].Load())
	}
}

func (c *tokenCounts) load() cost.Tokens {
	return cost.Tokens{
		Prompt: c[promptTokens].Load(), Completion: c[completionTokens].Load(), Cached: c[cachedTokens].Load(),
		CacheWrite: c[writtenTokens].Load(), Reasoning: c[reasoningTokens].Load(),
	}
}

// groupFamilies are the metrics of a group. A group that counts only rejections has no others.
type groupFamilies struct{ requests, errors, tokens, cost, rejected *Family }

// group counts by name: of client keys, of teams or of models. A name takes memory only once it is used.
type group struct {
	families groupFamilies

	mu    sync.RWMutex
	shown []string // names with series of their own
	more  bool     // the configuration has more names, which share the series of Other
	used  map[string]*groupCounts
}

type groupCounts struct {
	requests, errors atomic.Int64
	tokens           tokenCounts
	cost             amount
	rejected         [rejections]atomic.Int64
}

// set replaces the configured names, and drops the counters of all other names.
func (g *group) set(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown, g.more = names[:min(len(names), MaxNames)], len(names) > MaxNames
	used := make(map[string]*groupCounts)
	for _, name := range names {
		if c := g.used[name]; c != nil {
			used[name] = c
		}
	}
	g.used = used
}

// counters returns the counters of a name, and creates them on first use.
func (g *group) counters(name string) *groupCounts {
	g.mu.RLock()
	c := g.used[name]
	g.mu.RUnlock()
	if c != nil {
		return c
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c = g.used[name]; c == nil {
		if g.used == nil {
			g.used = make(map[string]*groupCounts)
		}
		c = new(groupCounts)
		g.used[name] = c
	}
	return c
}

// count counts a finished request.
func (c *groupCounts) count(r *Record) {
	c.requests.Add(1)
	if r.Code != "" && r.Code != codeDisconnected {
		c.errors.Add(1)
	}
	c.use(r)
}

// use counts the usage of a request.
func (c *groupCounts) use(r *Record) {
	c.tokens.add(&r.Tokens)
	c.cost.add(r)
}

func (g *group) load(name string) Counts {
	g.mu.RLock()
	c := g.used[name]
	g.mu.RUnlock()
	if c == nil {
		return Counts{}
	}
	return Counts{
		Requests: c.requests.Load(), Errors: c.errors.Load(), Tokens: c.tokens.load(), Cost: c.cost.load(),
		Rejected: nonZero(rejectionNames[:], c.rejected[:]),
	}
}

// RejectKey counts a rejected request with a known key.
func (m *Metrics) RejectKey(name string, r Rejection) { m.keys.counters(name).rejected[r].Add(1) }

// RejectTeam counts a request that was rejected because of a team's limit or budget.
func (m *Metrics) RejectTeam(name string, r Rejection) { m.teams.counters(name).rejected[r].Add(1) }

// RejectModel counts a request that was rejected because of a model's limit or budget.
func (m *Metrics) RejectModel(name string, r Rejection) { m.models.counters(name).rejected[r].Add(1) }

// Key returns the counts of a client key.
func (m *Metrics) Key(name string) Counts { return m.keys.load(name) }

// Team returns the counts of a team: the requests of its keys while they belonged to it.
func (m *Metrics) Team(name string) Counts { return m.teams.load(name) }

// sample adds the series of the group.
func (g *group) sample(s *Sample) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	shown := make(map[string]bool, len(g.shown))
	for _, name := range g.shown {
		shown[name] = true
		c := g.used[name]
		if c == nil {
			c = new(groupCounts)
		}
		g.families.sample(s, name, c)
	}
	if !g.more {
		return
	}
	// Add up the other names instead of subtracting the shown ones from a total: counts rise in the meantime, and a
	// counter must not decrease.
	var rest groupCounts
	for name, c := range g.used {
		if !shown[name] {
			c.addTo(&rest)
		}
	}
	g.families.sample(s, Other, &rest)
}

func (f *groupFamilies) sample(s *Sample, name string, c *groupCounts) {
	if f.requests != nil {
		s.Add(f.requests, float64(c.requests.Load()), name)
		s.Add(f.errors, float64(c.errors.Load()), name)
		for kind := range c.tokens {
			if n := c.tokens[kind].Load(); n > 0 || kind <= completionTokens {
				s.Add(f.tokens, float64(n), name, tokenKindNames[kind])
			}
		}
		c.cost.sample(s, f.cost, name)
	}
	for r := range c.rejected {
		if n := c.rejected[r].Load(); n > 0 {
			s.Add(f.rejected, float64(n), name, rejectionNames[r])
		}
	}
}

func (c *groupCounts) addTo(sum *groupCounts) {
	sum.requests.Add(c.requests.Load())
	sum.errors.Add(c.errors.Load())
	c.tokens.addTo(&sum.tokens)
	c.cost.addTo(&sum.cost)
	for r := range c.rejected {
		sum.rejected[r].Add(c.rejected[r].Load())
	}
}

// Percentiles are percentiles of a duration in seconds, estimated from the buckets of a histogram.
type Percentiles struct{ P50, P95, P99 float64 }

func (t *tally) percentiles() Percentiles {
	return Percentiles{t.quantile(0.5), t.quantile(0.95), t.quantile(0.99)}
}

// quantile estimates a quantile in seconds, assuming that observations are spread evenly within a bucket. It returns
// the last bound for a quantile beyond it, and 0 if there are no observations.
func (t *tally) quantile(q float64) float64 {
	total := uint64(0)
	for _, n := range t.buckets {
		total += n
	}
	rank, below, lower := q*float64(total), 0.0, 0.0
	for i, bound := range bounds {
		n := float64(t.buckets[i])
		if n > 0 && below+n >= rank {
			return lower + (bound.Seconds()-lower)*(rank-below)/n
		}
		below, lower = below+n, bound.Seconds()
	}
	if total == 0 {
		return 0
	}
	return lower
}

// ModelStats are the statistics of one configured model since the start of the process, over all its targets.
type ModelStats struct {
	Counts
	Failed               int64 // requests that ended with a 5xx or as a broken stream
	FirstEvent, Duration Percentiles
}

// Models returns the statistics of all requested models by name. Models that are not configured share the name Other.
func (m *Metrics) Models() map[string]ModelStats {
	type sums struct {
		first, duration tally
		tokens          tokenCounts
		cost            amount
		seen            map[*series]bool
	}
	all := make(map[string]ModelStats)
	tallies := make(map[string]*sums)
	for k, o := range *m.outcomes.Load() {
		if k.model == "" {
			continue
		}
		n, s := o.n.Load(), all[k.model]
		s.Requests += n
		if k.failed() {
			s.Failed += n
		}
		if k.code != "" && k.code != codeDisconnected {
			s.Errors += n
		}
		all[k.model] = s
		t := tallies[k.model]
		if t == nil {
			t = &sums{seen: make(map[*series]bool)}
			tallies[k.model] = t
		}
		if !t.seen[o.series] {
			t.seen[o.series] = true
			o.series.first.addTo(&t.first)
			o.series.duration.addTo(&t.duration)
			o.series.tokens.addTo(&t.tokens)
			o.series.cost.addTo(&t.cost)
		}
	}
	for model, t := range tallies {
		s := all[model]
		s.FirstEvent, s.Duration = t.first.percentiles(), t.duration.percentiles()
		s.Tokens, s.Cost, s.Rejected = t.tokens.load(), t.cost.load(), m.models.load(model).Rejected
		all[model] = s
	}
	return all
}

// failed reports whether requests with these labels failed through no fault of the client. A stream that fails has
// already sent its 2xx status.
func (k *outcomeKey) failed() bool {
	return k.code != codeDisconnected && (classes[k.status] == "5xx" || k.code != "" && classes[k.status] == "2xx")
}

// statuses counts requests by HTTP status.
type statuses [600]atomic.Int64

func (s *statuses) count(status int) {
	if status >= 0 && status < len(s) {
		s[status].Add(1)
	}
}

func (s *statuses) nonZero() map[string]int64 {
	all := make(map[string]int64)
	for status := range s {
		if n := s[status].Load(); n > 0 {
			all[strconv.Itoa(status)] = n
		}
	}
	return all
}
