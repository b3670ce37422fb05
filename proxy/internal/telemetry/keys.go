package telemetry

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// maxKeys is how many client keys have series of their own: the first of the configuration. The others share one.
const maxKeys = 1000

// KeyRejection is the reason a request with a known key was rejected.
type KeyRejection uint8

// The rejections. The first are the limits of a key, and of its team and the model.
const (
	KeyRequests KeyRejection = iota // requests per minute
	KeyTokens                       // tokens per minute
	KeyConcurrent
	KeyBudget // a budget is spent, or held by requests in flight
	KeyModel  // the key may not use the model
	KeyDisabled
	KeyExpired
	KeyNotYetValid
	keyRejections = iota
)

var keyRejectionNames = [keyRejections]string{
	KeyRequests: "requests_per_minute", KeyTokens: "tokens_per_minute", KeyConcurrent: "concurrent", KeyBudget: "budget",
	KeyModel: "model", KeyDisabled: "disabled", KeyExpired: "expired", KeyNotYetValid: "not_yet_valid",
}

// KeyCounts are the counts of one client key since the start.
type KeyCounts struct {
	Requests, PromptTokens, CompletionTokens int64
	Cost                                     *cost.Nano       // nil: no request had a price
	Rejected                                 map[string]int64 // by reason, without zeros
}

// keys counts by client key. Only keys that have been used take memory.
type keys struct {
	mu    sync.RWMutex
	shown []string // names with series of their own
	more  bool     // there are others
	used  map[string]*keyCounts
}

type keyCounts struct {
	requests, prompt, completion atomic.Int64
	cost                         amount
	rejected                     [keyRejections]atomic.Int64
}

// set replaces the names of the configuration, and forgets all others.
func (k *keys) set(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shown, k.more = names[:min(len(names), maxKeys)], len(names) > maxKeys
	used := make(map[string]*keyCounts)
	for _, name := range names {
		if c := k.used[name]; c != nil {
			used[name] = c
		}
	}
	k.used = used
}

// of returns the counters of a key, made on first use.
func (k *keys) of(name string) *keyCounts {
	k.mu.RLock()
	c := k.used[name]
	k.mu.RUnlock()
	if c != nil {
		return c
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c = k.used[name]; c == nil {
		if k.used == nil {
			k.used = make(map[string]*keyCounts)
		}
		c = new(keyCounts)
		k.used[name] = c
	}
	return c
}

// RejectKey counts a request that was rejected with a key whose name is known.
func (m *Metrics) RejectKey(name string, r KeyRejection) { m.keys.of(name).rejected[r].Add(1) }

// Key returns the counts of a client key.
func (m *Metrics) Key(name string) KeyCounts {
	m.keys.mu.RLock()
	c := m.keys.used[name]
	m.keys.mu.RUnlock()
	if c == nil {
		return KeyCounts{}
	}
	return KeyCounts{
		Requests: c.requests.Load(), PromptTokens: c.prompt.Load(), CompletionTokens: c.completion.Load(), Cost: c.cost.load(),
		Rejected: nonZero(keyRejectionNames[:], c.rejected[:]),
	}
}

// sample adds the series of the keys.
func (k *keys) sample(s *Sample) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	add := func(name string, c *keyCounts) {
		s.Add(keyRequests, float64(c.requests.Load()), name)
		s.Add(keyTokens, float64(c.prompt.Load()), name, "prompt")
		s.Add(keyTokens, float64(c.completion.Load()), name, "completion")
		c.cost.sample(s, keyCost, name)
		for r := range c.rejected {
			if n := c.rejected[r].Load(); n > 0 {
				s.Add(keyRejected, float64(n), name, keyRejectionNames[r])
			}
		}
	}
	shown := make(map[string]bool, len(k.shown))
	for _, name := range k.shown {
		shown[name] = true
		c := k.used[name]
		if c == nil {
			c = new(keyCounts)
		}
		add(name, c)
	}
	if !k.more {
		return
	}
	// Summed up and not subtracted from a total: counts rise meanwhile, and a counter must not fall.
	var rest keyCounts
	for name, c := range k.used {
		if !shown[name] {
			c.addTo(&rest)
		}
	}
	add(Other, &rest)
}

func (c *keyCounts) addTo(sum *keyCounts) {
	sum.requests.Add(c.requests.Load())
	sum.prompt.Add(c.prompt.Load())
	sum.completion.Add(c.completion.Load())
	c.cost.addTo(&sum.cost)
	for r := range c.rejected {
		sum.rejected[r].Add(c.rejected[r].Load())
	}
}

// Percentiles are those of a duration, in seconds, estimated within the buckets of a histogram.
type Percentiles struct{ P50, P95, P99 float64 }

func (t *tally) percentiles() Percentiles {
	return Percentiles{t.quantile(0.5), t.quantile(0.95), t.quantile(0.99)}
}

// quantile estimates a quantile in seconds, assuming that observations are spread evenly within a bucket. Beyond the last bound
// it is that bound; without observations it is 0.
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

// ModelStats are the statistics of one configured model since the start, over all its targets.
type ModelStats struct {
	Requests, Failed     int64 // Failed: with a 5xx, or as a stream that broke off
	FirstEvent, Duration Percentiles
	Cost                 *cost.Nano // nil: no request had a price
}

// Models returns the statistics of the models that have been requested; those that are not configured share Other.
func (m *Metrics) Models() map[string]ModelStats {
	type sums struct {
		first, duration tally
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
			o.series.cost.addTo(&t.cost)
		}
	}
	for model, t := range tallies {
		s := all[model]
		s.FirstEvent, s.Duration, s.Cost = t.first.percentiles(), t.duration.percentiles(), t.cost.load()
		all[model] = s
	}
	return all
}

// failed reports whether requests with the key's labels failed by no fault of the client. A stream that failed had sent its
// status already.
func (k *outcomeKey) failed() bool {
	return k.code != "client_closed_request" && (classes[k.status] == "5xx" || k.code != "" && classes[k.status] == "2xx")
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
