package otlp

import (
	"sort"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Gatherer returns the metrics that are served to Prometheus. If some cannot be collected, it returns the others.
type Gatherer func() ([]*dto.MetricFamily, error)

const cumulative = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// metrics encodes the gateway's metrics and those of the conventions, and returns the number of data points. A
// MetricsData has the fields of an ExportMetricsServiceRequest.
func (e *encoder) metrics(gather Gatherer, began, now time.Time) (body []byte, points int64) {
	families, _ := gather()
	all := make([]*metricspb.Metric, 0, len(families))
	span := timeSpan{nanos(began), nanos(now)}
	for _, f := range families {
		if m := span.convert(f); m != nil {
			all = append(all, m)
			points += int64(len(f.Metric))
		}
	}
	for i := range e.versions {
		all = append(all, e.operations.metrics(&e.versions[i], span, &points)...)
	}
	var resource resourcepb.Resource
	_ = proto.Unmarshal(e.resource, &resource) // which this package has written
	scope := &commonpb.InstrumentationScope{Name: scopeName, Version: e.version}
	body, _ = proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resource, ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: scope, Metrics: all}},
	}}}) // does not fail: all texts have been made valid UTF-8
	return body, points
}

// labels are the attributes of a point.
type labels []*commonpb.KeyValue

// add adds an attribute. Its text is made valid UTF-8, because another one makes the whole message invalid.
func (l *labels) add(name, v string) {
	*l = append(*l, &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: strings.ToValidUTF8(v, "\uFFFD")}}})
}

// text adds an attribute, unless it is empty.
func (l *labels) text(name, v string) {
	if v != "" {
		l.add(name, v)
	}
}

// timeSpan is the time that cumulative values cover, in nanoseconds.
type timeSpan struct{ start, end uint64 }

// convert converts a family of Prometheus. It returns nil for summaries, which only the Go runtime has.
func (t timeSpan) convert(f *dto.MetricFamily) *metricspb.Metric {
	m := &metricspb.Metric{Name: f.GetName(), Description: f.GetHelp()}
	var numbers []*metricspb.NumberDataPoint
	var histograms []*metricspb.HistogramDataPoint
	for _, series := range f.Metric {
		var a labels
		for _, l := range series.Label {
			a.add(l.GetName(), l.GetValue()) // an empty label is a value, as of code
		}
		if h := series.Histogram; h != nil {
			histograms = append(histograms, t.histogram(h, a))
			continue
		}
		value := series.GetGauge().GetValue() + series.GetCounter().GetValue() + series.GetUntyped().GetValue() // one of them
		numbers = append(numbers, &metricspb.NumberDataPoint{
			Attributes: a, StartTimeUnixNano: t.start, TimeUnixNano: t.end, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value},
		})
	}
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: numbers, AggregationTemporality: cumulative, IsMonotonic: true}}
	case dto.MetricType_GAUGE, dto.MetricType_UNTYPED:
		for _, n := range numbers {
			n.StartTimeUnixNano = 0
		}
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: numbers}}
	case dto.MetricType_HISTOGRAM:
		m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{DataPoints: histograms, AggregationTemporality: cumulative}}
	default:
		return nil
	}
	return m
}

// histogram converts a histogram, whose buckets are cumulative and do not include the last one.
func (t timeSpan) histogram(h *dto.Histogram, a labels) *metricspb.HistogramDataPoint {
	p := &metricspb.HistogramDataPoint{
		Attributes: a, StartTimeUnixNano: t.start, TimeUnixNano: t.end, Count: h.GetSampleCount(), Sum: new(h.GetSampleSum()),
	}
	before := uint64(0)
	for _, b := range h.Bucket {
		p.ExplicitBounds = append(p.ExplicitBounds, b.GetUpperBound())
		p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-before)
		before = b.GetCumulativeCount()
	}
	p.BucketCounts = append(p.BucketCounts, h.GetSampleCount()-before)
	return p
}

// The bounds of histograms that the conventions ask for.
var (
	secondsBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokensBounds  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// distribution is a histogram with the bounds of the conventions, of which both kinds have as many.
type distribution struct {
	buckets [15]uint64
	count   uint64
	sum     float64
}

func (d *distribution) observe(v float64, bounds []float64) {
	d.buckets[sort.SearchFloat64s(bounds, v)]++
	d.count++
	d.sum += v
}

// operationKey holds the attributes of the metrics of an operation.
type operationKey struct{ operation, provider, model, failure string }

// operationSeries are the metrics of operations with the same attributes.
type operationSeries struct {
	duration, first, input, output distribution
	tokens                         cost.Tokens
}

// maxOperations is the maximum number of operationSeries. Models beyond it are counted together.
const maxOperations = 2000

// operations counts attempts for the metrics of the conventions.
type operations struct {
	mu     sync.Mutex
	series map[operationKey]*operationSeries
}

// observe counts the attempts of a finished request.
func (o *operations) observe(r *telemetry.Record, system func(provider string) string) {
	if len(r.Tries) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	served := r.Served()
	for i := range r.Tries {
		t := &r.Tries[i]
		s := o.find(operationKey{operation(r.Path), system(t.Provider), t.Target, attemptCode(t)})
		s.duration.observe(t.Took.Seconds(), secondsBounds)
		if r.Stream && t.First > 0 {
			s.first.observe(t.First.Seconds(), secondsBounds)
		}
		if i == served {
			s.input.observe(float64(r.Tokens.Prompt), tokensBounds)
			s.output.observe(float64(r.Tokens.Completion), tokensBounds)
			s.tokens.Prompt += r.Tokens.Prompt
			s.tokens.Completion += r.Tokens.Completion
			s.tokens.Cached += r.Tokens.Cached
			s.tokens.CacheWrite += r.Tokens.CacheWrite
			s.tokens.Reasoning += r.Tokens.Reasoning
		}
	}
}

// find returns the series of a key. Its caller holds mu.
func (o *operations) find(k operationKey) *operationSeries {
	s := o.series[k]
	if s == nil && len(o.series) >= maxOperations {
		k.model = telemetry.Other
		s = o.series[k]
	}
	if s == nil {
		if o.series == nil {
			o.series = make(map[operationKey]*operationSeries)
		}
		s = new(operationSeries)
		o.series[k] = s
	}
	return s
}

// metrics returns the metrics of a version of the conventions, and adds the number of their points.
func (o *operations) metrics(names *metricNames, t timeSpan, points *int64) (all []*metricspb.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	byName := make(map[string]*metricspb.Metric)
	metric := func(name, unit string) *metricspb.Metric {
		m := byName[name]
		if m == nil {
			m = &metricspb.Metric{Name: name, Unit: unit}
			byName[name] = m
			all = append(all, m)
		}
		*points++
		return m
	}
	distribution := func(name, unit string, bounds []float64, d *distribution, a labels) {
		if name == "" || d.count == 0 {
			return
		}
		m := metric(name, unit)
		if m.Data == nil {
			m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{AggregationTemporality: cumulative}}
		}
		h := m.GetHistogram()
		h.DataPoints = append(h.DataPoints, &metricspb.HistogramDataPoint{
			Attributes: a, StartTimeUnixNano: t.start, TimeUnixNano: t.end, Count: d.count, Sum: new(d.sum),
			ExplicitBounds: bounds, BucketCounts: append([]uint64(nil), d.buckets[:len(bounds)+1]...),
		})
	}
	counter := func(name string, n int64, a labels) {
		if name == "" || n == 0 {
			return
		}
		m := metric(name, "{token}")
		if m.Data == nil {
			m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{AggregationTemporality: cumulative, IsMonotonic: true}}
		}
		s := m.GetSum()
		s.DataPoints = append(s.DataPoints, &metricspb.NumberDataPoint{
			Attributes: a, StartTimeUnixNano: t.start, TimeUnixNano: t.end, Value: &metricspb.NumberDataPoint_AsInt{AsInt: n},
		})
	}
	for k, s := range o.series {
		var a labels
		a.text(attrOperation, k.operation)
		a.text(attrSystem, k.provider)
		a.text(attrRequestModel, k.model)
		a.text(attrErrorType, k.failure)
		duration := names.duration
		if !isInference(k.operation) {
			duration = names.otherDuration
		}
		distribution(duration, "s", secondsBounds, &s.duration, a)
		distribution(names.firstChunk, "s", secondsBounds, &s.first, a)
		typed := func(kind string) labels {
			l := a[:len(a):len(a)]
			l.add(attrTokenType, kind)
			return l
		}
		distribution(names.tokenUsage, "{token}", tokensBounds, &s.input, typed("input"))
		distribution(names.tokenUsage, "{token}", tokensBounds, &s.output, typed("output"))
		distribution(names.inputSizes, "{token}", tokensBounds, &s.input, a)
		distribution(names.outputSizes, "{token}", tokensBounds, &s.output, a)
		counter(names.input, s.tokens.Prompt, a)
		counter(names.output, s.tokens.Completion, a)
		counter(names.cacheRead, s.tokens.Cached, a)
		counter(names.cacheWrite, s.tokens.CacheWrite, a)
		counter(names.reasoning, s.tokens.Reasoning, a)
	}
	return all
}
