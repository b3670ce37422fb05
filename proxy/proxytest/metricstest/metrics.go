// Package metricstest reads metrics in the Prometheus text format, with Prometheus' own parser.
//
// It imports no package of the gateway, so that a package's tests do not link the whole gateway.
//
// Concurrency: Metrics are not modified after Parse.
package metricstest

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics are the metrics of one scrape, by name.
type Metrics map[string]*dto.MetricFamily

// Parse parses the Prometheus text format.
func Parse(tb testing.TB, text string) Metrics {
	tb.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	m, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		tb.Fatalf("parse metrics: %v", err)
	}
	return m
}

// Sum returns the sum of a metric's series with the labels, given as name, value, …. A histogram counts with its sample
// count.
func (m Metrics) Sum(name string, labels ...string) (sum float64) {
	f := m[name]
	if f == nil {
		return 0
	}
	for _, s := range f.GetMetric() {
		if !hasLabels(s, labels) {
			continue
		}
		switch f.GetType() {
		case dto.MetricType_COUNTER:
			sum += s.GetCounter().GetValue()
		case dto.MetricType_HISTOGRAM:
			sum += float64(s.GetHistogram().GetSampleCount())
		default:
			sum += s.GetGauge().GetValue()
		}
	}
	return sum
}

// Series returns the number of a metric's series with the labels.
func (m Metrics) Series(name string, labels ...string) (n int) {
	for _, s := range m[name].GetMetric() {
		if hasLabels(s, labels) {
			n++
		}
	}
	return n
}

// Values returns the set of a label's values in all of the gateway's metrics.
func (m Metrics) Values(label string) map[string]bool {
	values := map[string]bool{}
	for name, f := range m {
		if !strings.HasPrefix(name, "sluice_") {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == label {
					values[l.GetValue()] = true
				}
			}
		}
	}
	return values
}

func hasLabels(s *dto.Metric, labels []string) bool {
	for i := 0; i < len(labels); i += 2 {
		found := ""
		for _, l := range s.GetLabel() {
			if l.GetName() == labels[i] {
				found = l.GetValue()
			}
		}
		if found != labels[i+1] {
			return false
		}
	}
	return true
}
