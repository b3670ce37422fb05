package telemetry

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// Other is the label value for names that are not in the configuration, and for error codes that are not the gateway's
// own.
const Other = "other"

// Metrics counts requests and their outcomes, and exposes them together with the values that the callback of Pull adds.
//
// Label values are names from the configuration or fixed by this package, so clients cannot create series. Counting a
// request takes no exclusive lock and does not allocate, except for the first request with its labels.
type Metrics struct {
	registry *prometheus.Registry
	pull     atomic.Pointer[func(*Sample)]

	inflight, streams, heartbeats, panics atomic.Int64
	perByteExceeded                       atomic.Int64

	refused [refusals]atomic.Int64
	shed    [sheds]atomic.Int64
	routed  [routerChoices]atomic.Int64

	outcomes atomic.Pointer[map[outcomeKey]*outcome] // copied on write
	names    atomic.Pointer[names]

	keys, teams, models group
	statuses            statuses

	mu        sync.Mutex // held to replace outcomes
	gathering sync.Mutex // held by Gather
}

// names are the models and providers that may be label values.
type names struct{ models, providers map[string]bool }

// outcomeKey holds the labels of a finished request.
type outcomeKey struct {
	seriesKey
	path   string
	code   string
	status uint8 // index in classes
}

// seriesKey holds the labels of the histograms and token counters.
type seriesKey struct {
	model, provider string
	stream          bool
}

// outcome counts requests with the same outcomeKey. Outcomes with the same seriesKey share one series.
type outcome struct {
	n      atomic.Int64
	series *series
}

type series struct {
	duration, first               histogram
	tokens                        tokenCounts
	estimated, dropped, excessive atomic.Int64
	cost, uncertain               amount
}

// amount is a sum of costs. It is unknown until the first request with a price.
type amount struct {
	nano  atomic.Int64
	known atomic.Bool
}

func (a *amount) add(r *Record) {
	if unused := r.UnusedCost(); r.Priced || unused > 0 {
		a.plus(r.Cost.Plus(unused))
	}
}

func (a *amount) plus(n cost.Nano) {
	a.nano.Add(int64(n))
	a.known.Store(true)
}

func (a *amount) addTo(sum *amount) {
	sum.nano.Add(a.nano.Load())
	if a.known.Load() {
		sum.known.Store(true)
	}
}

// load returns the sum, or nil if it is unknown.
func (a *amount) load() *cost.Nano {
	if !a.known.Load() {
		return nil
	}
	n := cost.Nano(a.nano.Load())
	return &n
}

func (a *amount) sample(s *Sample, f *Family, labels ...string) {
	if n := a.load(); n != nil {
		s.Add(f, n.Dollars(), labels...)
	}
}

// NewMetrics returns a Metrics with its own registry.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.keys.families, m.teams.families, m.models.families = keyFamilies, teamFamilies, groupFamilies{rejected: modelRejected}
	m.outcomes.Store(&map[outcomeKey]*outcome{})
	m.names.Store(&names{})
	m.registry.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Pull registers f, which replaces the previous callback. f is called on each scrape, from one goroutine at a time.
func (m *Metrics) Pull(f func(*Sample)) { m.pull.Store(&f) }

func setOf(names []string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

// Names are the names in a configuration.
type Names struct{ Models, Providers, Keys, Teams []string }

// SetNames sets which names may be label values: all models and providers, and the first MaxNames keys and teams. It
// drops the series of names that are no longer configured, so that they do not accumulate over many reloads.
func (m *Metrics) SetNames(all Names) {
	m.keys.set(all.Keys)
	m.teams.set(all.Teams)
	m.models.set(all.Models)
	n := &names{models: setOf(all.Models), providers: setOf(all.Providers)}
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

// StartRequest counts a request in flight until Log.Request counts it as finished.
func (m *Metrics) StartRequest(r *Record) {
	r.counted = true
	m.inflight.Add(1)
}

// AbandonRequest stops counting a request as in flight if Log.Request was not called for it, and otherwise does
// nothing.
func (m *Metrics) AbandonRequest(r *Record) {
	if r.counted {
		r.counted = false
		m.inflight.Add(-1)
	}
}

// StartStream counts a stream in flight until EndStream.
func (m *Metrics) StartStream() { m.streams.Add(1) }

// EndStream stops counting a stream as in flight.
func (m *Metrics) EndStream() { m.streams.Add(-1) }

// Heartbeat counts a heartbeat comment.
func (m *Metrics) Heartbeat() { m.heartbeats.Add(1) }

// Panic counts a panic in the gateway.
func (m *Metrics) Panic() { m.panics.Add(1) }

// ExceedTokensPerByte counts a prompt with more tokens than tokens_per_byte of its model allows.
func (m *Metrics) ExceedTokensPerByte() { m.perByteExceeded.Add(1) }

// Refuse counts a request that was rejected for its API key.
func (m *Metrics) Refuse(r Refusal) { m.refused[r].Add(1) }

// Shed counts a rejected request or connection by the exhausted resource.
func (m *Metrics) Shed(s Shed) { m.shed[s].Add(1) }

// Route counts a call of a router plugin by its outcome.
func (m *Metrics) Route(c RouterChoice) { m.routed[c].Add(1) }

// request counts a finished request.
func (m *Metrics) request(r *Record, took time.Duration) {
	if r.counted {
		r.counted = false
		m.inflight.Add(-1)
	}
	o := m.outcome(outcomeKey{m.names.Load().seriesKey(r.Model, r.Provider, r.Stream), r.Path, Code(r.Code), statusClass(r.Status)})
	o.n.Add(1)
	m.statuses.count(r.Status)
	if r.Key != "" {
		m.keys.counters(cmp.Or(r.Series, r.Key)).count(r)
	}
	if r.Team != "" {
		m.teams.counters(r.Team).count(r)
	}
	if r.Provider == "" {
		return
	}
	s := o.series
	s.duration.observe(took, r)
	if r.FirstEvent > 0 {
		s.first.observe(r.FirstEvent, r)
	}
	s.tokens.add(&r.Tokens)
	s.cost.add(r)
	if r.UncertainCost > 0 {
		s.uncertain.plus(r.UncertainCost)
	}
	if r.Dropped > 0 {
		s.dropped.Add(int64(r.Dropped))
	}
	if r.UsageEstimated {
		s.estimated.Add(1)
	}
	if r.UsageExcessive {
		s.excessive.Add(1)
	}
}

// Settled counts the usage of a response in the background, which is known after its request has been counted.
func (m *Metrics) Settled(r *Record) {
	if r.Key != "" {
		m.keys.counters(cmp.Or(r.Series, r.Key)).use(r)
	}
	if r.Team != "" {
		m.teams.counters(r.Team).use(r)
	}
	s := m.outcome(outcomeKey{m.names.Load().seriesKey(r.Model, r.Provider, r.Stream), r.Path, Code(r.Code), statusClass(r.Status)}).series
	s.tokens.add(&r.Tokens)
	s.cost.add(r)
	if r.UncertainCost > 0 {
		s.uncertain.plus(r.UncertainCost)
	}
}

// outcome returns the counters of a key, and creates them on first use.
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
	for otherKey, other := range old {
		if otherKey.seriesKey == k.seriesKey {
			o.series = other.series
			break
		}
	}
	if o.series == nil {
		o.series = &series{}
	}
	all := make(map[outcomeKey]*outcome, len(old)+1)
	maps.Copy(all, old)
	all[k] = o
	m.outcomes.Store(&all)
	return o
}

// Totals are the sums over all series since the start of the process, and the gauges.
type Totals struct {
	Requests                                int64 // finished requests, including the following three
	ClientErrors, ServerErrors, Disconnects int64
	InFlight, Streams                       int64
	PromptTokens, CompletionTokens          int64
	Cost                                    *cost.Nano    // nil if no request had a price
	FirstEvents                             int64         // responses with a first event
	FirstEventSum                           time.Duration // sum of their times to the first event
	Heartbeats, Panics                      int64
	FirstEvent, Duration                    Percentiles
	Refused, Shed                           map[string]int64 // by reason, without zeros
	Statuses                                map[string]int64 // by HTTP status, without zeros
}

// Totals returns the totals. They do not include requests for models or providers that have been removed from the
// configuration.
func (m *Metrics) Totals() Totals {
	t := Totals{InFlight: m.inflight.Load(), Streams: m.streams.Load(), Heartbeats: m.heartbeats.Load(), Panics: m.panics.Load()}
	t.Refused, t.Shed = nonZero(refusalNames[:], m.refused[:]), nonZero(shedNames[:], m.shed[:])
	t.Statuses = m.statuses.nonZero()
	var first, duration tally
	var spent amount
	seen := make(map[*series]bool)
	for k, o := range *m.outcomes.Load() {
		n := o.n.Load()
		t.Requests += n
		switch {
		case k.code == codeDisconnected:
			t.Disconnects += n
		case k.failed():
			t.ServerErrors += n
		case k.code != "":
			t.ClientErrors += n
		}
		if seen[o.series] {
			continue
		}
		seen[o.series] = true
		t.PromptTokens += o.series.tokens[promptTokens].Load()
		t.CompletionTokens += o.series.tokens[completionTokens].Load()
		o.series.cost.addTo(&spent)
		o.series.first.addTo(&first)
		o.series.duration.addTo(&duration)
	}
	t.Cost = spent.load()
	count, _ := first.cumulative()
	t.FirstEvents, t.FirstEventSum = int64(count), first.sum
	t.FirstEvent, t.Duration = first.percentiles(), duration.percentiles()
	return t
}

func nonZero(names []string, counts []atomic.Int64) map[string]int64 {
	all := make(map[string]int64)
	for i, name := range names {
		if n := counts[i].Load(); n > 0 {
			all[name] = n
		}
	}
	return all
}

// Gather returns all metrics. If some of them cannot be collected, it returns the others and the error.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	m.gathering.Lock()
	defer m.gathering.Unlock()
	return m.registry.Gather()
}

// Write writes all metrics in the Prometheus text format, or in that of OpenMetrics, which has exemplars. If some of them
// cannot be collected, it writes the others and returns the error.
func (m *Metrics) Write(w io.Writer, openMetrics bool) error {
	all, err := m.Gather()
	for _, f := range all {
		var err error
		if openMetrics {
			_, err = expfmt.MetricFamilyToOpenMetrics(w, f)
		} else {
			_, err = expfmt.MetricFamilyToText(w, f)
		}
		if err != nil {
			return err
		}
	}
	if openMetrics {
		_, end := expfmt.FinalizeOpenMetrics(w)
		err = errors.Join(err, end)
	}
	return err
}

// collector implements prometheus.Collector for a Metrics.
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
		callPull(s, *pull)
	}
	if s.err != nil {
		out <- prometheus.NewInvalidMetric(families[0].desc, s.err)
	}
}

// callPull turns a panic of pull into an error, because the registry collects on its own goroutines. The error does not
// contain the panic's value, which may be a secret.
func callPull(s *Sample, pull func(*Sample)) {
	defer rescue.Into(&s.err)
	pull(s)
}

func (m *Metrics) sample(s *Sample) {
	count := func(f *Family, n *atomic.Int64, labels ...string) { s.Add(f, float64(n.Load()), labels...) }
	count(requestsInFlight, &m.inflight)
	count(streamsInFlight, &m.streams)
	count(heartbeatsTotal, &m.heartbeats)
	count(panicsTotal, &m.panics)
	count(perByteExceeded, &m.perByteExceeded)
	for i := range m.refused {
		count(refusalsTotal, &m.refused[i], refusalNames[i])
	}
	for i := range m.shed {
		count(shedTotal, &m.shed[i], shedNames[i])
	}
	for i := range m.routed {
		count(routerTotal, &m.routed[i], routerChoiceNames[i])
	}
	m.keys.sample(s)
	m.teams.sample(s)
	m.models.sample(s)
	all := make(map[seriesKey]*series)
	for k, o := range *m.outcomes.Load() {
		count(requestsTotal, &o.n, k.path, k.model, k.provider, strconv.FormatBool(k.stream), classes[k.status], k.code)
		if k.provider != "" {
			all[k.seriesKey] = o.series
		}
	}
	// Except for the duration, series combine streams and non-streaming responses.
	type target struct{ model, provider string }
	type sums struct {
		first                         tally
		tokens                        tokenCounts
		estimated, dropped, excessive int64
		cost, uncertain               amount
	}
	merged := make(map[target]*sums)
	for k, split := range all {
		var took tally
		split.duration.addTo(&took)
		s.histogram(requestDuration, &took, k.model, k.provider, strconv.FormatBool(k.stream))
		sum := merged[target{k.model, k.provider}]
		if sum == nil {
			sum = new(sums)
			merged[target{k.model, k.provider}] = sum
		}
		split.first.addTo(&sum.first)
		split.tokens.addTo(&sum.tokens)
		sum.estimated += split.estimated.Load()
		sum.excessive += split.excessive.Load()
		sum.dropped += split.dropped.Load()
		split.cost.addTo(&sum.cost)
		split.uncertain.addTo(&sum.uncertain)
	}
	for t, sum := range merged {
		s.histogram(firstEvent, &sum.first, t.model, t.provider)
		for kind := range sum.tokens {
			s.Add(tokensTotal, float64(sum.tokens[kind].Load()), t.model, t.provider, tokenKindNames[kind])
		}
		sum.cost.sample(s, costTotal, t.model, t.provider)
		sum.uncertain.sample(s, uncertainTotal, t.model, t.provider)
		s.Add(estimatedTotal, float64(sum.estimated), t.model, t.provider)
		s.Add(excessiveTotal, float64(sum.excessive), t.model, t.provider)
		s.Add(droppedEvents, float64(sum.dropped), t.model, t.provider)
	}
}
