package telemetry

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// Other is what a label says that may not say what it should: a name that the configuration does not have.
const Other = "other"

// Metrics counts what becomes of requests, and gathers that with what others tell when they are asked.
//
// Labels hold what the configuration names, and words of this package: nobody can make a series by asking for something.
// What is counted for a request takes no lock and allocates nothing, but for the first of its kind.
type Metrics struct {
	registry *prometheus.Registry
	pull     atomic.Pointer[func(*Sample)]

	inflight, streams, heartbeats, panics atomic.Int64

	refused [refusals]atomic.Int64
	shed    [sheds]atomic.Int64

	outcomes atomic.Pointer[map[outcomeKey]*outcome] // replaced, never changed
	names    atomic.Pointer[names]

	mu        sync.Mutex // of whoever replaces outcomes
	gathering sync.Mutex
}

// names are what labels may say.
type names struct{ models, providers map[string]bool }

// outcomeKey is how a request ended.
type outcomeKey struct {
	seriesKey
	path   string
	code   string
	status uint8 // an index of classes
}

// seriesKey is what a request was about.
type seriesKey struct {
	model, provider string
	stream          bool
}

// outcome counts requests that ended in the same way. of is shared by those that were about the same.
type outcome struct {
	n  atomic.Int64
	of *series
}

type series struct {
	duration, first                       histogram
	prompt, completion, cached, reasoning atomic.Int64
	estimated, dropped                    atomic.Int64
}

// NewMetrics makes a Metrics with a registry of its own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.outcomes.Store(&map[outcomeKey]*outcome{})
	m.names.Store(&names{})
	m.registry.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Pull has f called at each scrape, from one goroutine at a time.
func (m *Metrics) Pull(f func(*Sample)) { m.pull.Store(&f) }

// Name says which models and providers labels may name from now on. The series of others are dropped: a gateway that is
// reconfigured every day must not remember every name that it ever had.
func (m *Metrics) Name(models, providers []string) {
	n := &names{models: setOf(models...), providers: setOf(providers...)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names.Store(n)
	kept := make(map[outcomeKey]*outcome)
	for k, o := range *m.outcomes.Load() {
		if n.seriesKey(k.model, k.provider, k.stream) == k.seriesKey {
			kept[k] = o
		}
	}
	m.outcomes.Store(&kept)
}

func (n *names) seriesKey(model, provider string, stream bool) seriesKey {
	if model != "" && !n.models[model] {
		model = Other
	}
	if provider != "" && !n.providers[provider] {
		provider = Other
	}
	return seriesKey{model, provider, stream}
}

// Begin counts a request that has begun. It is over with the Record's Request.
func (m *Metrics) Begin(r *Record) {
	r.counted = true
	m.inflight.Add(1)
}

// Lose is the end of a request that could not be accounted. For one that was it does nothing.
func (m *Metrics) Lose(r *Record) {
	if r.counted {
		r.counted = false
		m.inflight.Add(-1)
	}
}

// StreamBegan and StreamEnded count the streams in flight.
func (m *Metrics) StreamBegan() { m.streams.Add(1) }

// StreamEnded is the end of what StreamBegan began.
func (m *Metrics) StreamEnded() { m.streams.Add(-1) }

// Heartbeat counts a comment that kept a stream alive.
func (m *Metrics) Heartbeat() { m.heartbeats.Add(1) }

// Panic counts a panic of the gateway.
func (m *Metrics) Panic() { m.panics.Add(1) }

// Refuse counts a request that was not let in.
func (m *Metrics) Refuse(r Refusal) { m.refused[r].Add(1) }

// Shed counts what was turned away.
func (m *Metrics) Shed(s Shed) { m.shed[s].Add(1) }

// request counts a request that is over.
func (m *Metrics) request(r *Record, took time.Duration) {
	if r.counted {
		r.counted = false
		m.inflight.Add(-1)
	}
	o := m.outcome(outcomeKey{m.names.Load().seriesKey(r.Model, r.Provider, r.Stream), r.Path, Code(r.Code), class(r.Status)})
	o.n.Add(1)
	if r.Provider == "" {
		return
	}
	s := o.of
	s.duration.observe(took)
	if r.FirstEvent > 0 {
		s.first.observe(r.FirstEvent)
	}
	add := func(c *atomic.Int64, n int64) {
		if n > 0 {
			c.Add(n)
		}
	}
	add(&s.prompt, r.PromptTokens)
	add(&s.completion, r.CompletionTokens)
	add(&s.cached, r.CachedTokens)
	add(&s.reasoning, r.ReasoningTokens)
	add(&s.dropped, int64(r.Dropped))
	if r.UsageEstimated {
		s.estimated.Add(1)
	}
}

// outcome finds what counts requests that end in this way.
func (m *Metrics) outcome(k outcomeKey) *outcome {
	if o := (*m.outcomes.Load())[k]; o != nil {
		return o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.outcomes.Load()
	if o := old[k]; o != nil {
		return o
	}
	o := &outcome{}
	for ended, same := range old {
		if ended.seriesKey == k.seriesKey {
			o.of = same.of
			break
		}
	}
	if o.of == nil {
		o.of = &series{}
	}
	all := make(map[outcomeKey]*outcome, len(old)+1)
	maps.Copy(all, old)
	all[k] = o
	m.outcomes.Store(&all)
	return o
}

// Totals are sums since the start, and what is in flight.
type Totals struct {
	Requests, ClientErrors, ServerErrors, Departed int64 // those with errors, and those that the client left, are part of the first
	InFlight, Streams                              int64
	PromptTokens, CompletionTokens                 int64
	FirstEvents                                    int64         // answers that had one
	FirstEventSum                                  time.Duration // until the first events of them all
	Heartbeats, Panics                             int64
	Refused, Shed                                  map[string]int64 // by reason, those that happened
}

// Totals returns the sums. They do not count what was about names that the configuration has no more.
func (m *Metrics) Totals() Totals {
	t := Totals{InFlight: m.inflight.Load(), Streams: m.streams.Load(), Heartbeats: m.heartbeats.Load(), Panics: m.panics.Load()}
	t.Refused, t.Shed = by(refusalNames[:], m.refused[:]), by(shedNames[:], m.shed[:])
	seen := make(map[*series]bool)
	for k, o := range *m.outcomes.Load() {
		n := o.n.Load()
		t.Requests += n
		switch {
		case k.code == "client_closed_request":
			t.Departed += n
		case classes[k.status] == "5xx", k.code != "" && classes[k.status] == "2xx":
			// A stream that broke off has its status behind it.
			t.ServerErrors += n
		case k.code != "":
			t.ClientErrors += n
		}
		if seen[o.of] {
			continue
		}
		seen[o.of] = true
		t.PromptTokens += o.of.prompt.Load()
		t.CompletionTokens += o.of.completion.Load()
		var first tally
		o.of.first.read(&first)
		count, _ := first.cumulative()
		t.FirstEvents += int64(count)
		t.FirstEventSum += first.sum
	}
	return t
}

func by(names []string, counts []atomic.Int64) map[string]int64 {
	all := make(map[string]int64)
	for i, name := range names {
		if n := counts[i].Load(); n > 0 {
			all[name] = n
		}
	}
	return all
}

// Write writes all metrics in the text format of Prometheus. What could be gathered is written also where something could
// not, which the error is about.
func (m *Metrics) Write(w io.Writer) error {
	m.gathering.Lock()
	defer m.gathering.Unlock()
	all, err := m.registry.Gather()
	for _, f := range all {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return err
}

// collector is a Metrics as the registry sees it.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range families {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := &Sample{out: out}
	c.m.sample(s)
	if pull := c.m.pull.Load(); pull != nil {
		pulled(s, *pull)
	}
	if s.err != nil {
		out <- prometheus.NewInvalidMetric(families[0].desc, s.err)
	}
}

// pulled keeps a panic from ending the process: the registry collects on goroutines of its own. Its value, which may hold
// anything, is not repeated.
func pulled(s *Sample, pull func(*Sample)) {
	defer func() {
		if v := recover(); v != nil {
			s.err = fmt.Errorf("panic (%T)", v)
		}
	}()
	pull(s)
}

func (m *Metrics) sample(s *Sample) {
	number := func(f *Family, n *atomic.Int64, labels ...string) { s.Add(f, float64(n.Load()), labels...) }
	number(requestsInFlight, &m.inflight)
	number(streamsInFlight, &m.streams)
	number(heartbeatsTotal, &m.heartbeats)
	number(panicsTotal, &m.panics)
	for i := range m.refused {
		number(refusalsTotal, &m.refused[i], refusalNames[i])
	}
	for i := range m.shed {
		number(shedTotal, &m.shed[i], shedNames[i])
	}
	about := make(map[seriesKey]*series)
	for k, o := range *m.outcomes.Load() {
		number(requestsTotal, &o.n, k.path, k.model, k.provider, strconv.FormatBool(k.stream), classes[k.status], k.code)
		if k.provider != "" {
			about[k.seriesKey] = o.of
		}
	}
	// The rest does not tell streams from whole answers.
	type target struct{ model, provider string }
	type sums struct {
		first                                                     tally
		prompt, completion, cached, reasoning, estimated, dropped int64
	}
	merged := make(map[target]*sums)
	for k, of := range about {
		var took tally
		of.duration.read(&took)
		s.histogram(requestDuration, &took, k.model, k.provider, strconv.FormatBool(k.stream))
		sum := merged[target{k.model, k.provider}]
		if sum == nil {
			sum = new(sums)
			merged[target{k.model, k.provider}] = sum
		}
		of.first.read(&sum.first)
		sum.prompt += of.prompt.Load()
		sum.completion += of.completion.Load()
		sum.cached += of.cached.Load()
		sum.reasoning += of.reasoning.Load()
		sum.estimated += of.estimated.Load()
		sum.dropped += of.dropped.Load()
	}
	for t, sum := range merged {
		s.histogram(firstEvent, &sum.first, t.model, t.provider)
		s.Add(tokensTotal, float64(sum.prompt), t.model, t.provider, "prompt")
		s.Add(tokensTotal, float64(sum.completion), t.model, t.provider, "completion")
		s.Add(tokensTotal, float64(sum.cached), t.model, t.provider, "cached")
		s.Add(tokensTotal, float64(sum.reasoning), t.model, t.provider, "reasoning")
		s.Add(estimatedTotal, float64(sum.estimated), t.model, t.provider)
		s.Add(droppedEvents, float64(sum.dropped), t.model, t.provider)
	}
}
