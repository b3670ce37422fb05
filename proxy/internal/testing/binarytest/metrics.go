package binarytest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is one scrape of a gateway: its families by name.
type Metrics map[string][]Series

// Series is one figure with its labels.
type Series struct {
	Labels map[string]string
	Value  float64
}

// Sum adds up the series of a family that have these labels, given as name, value, ….
func (m Metrics) Sum(family string, labels ...string) (sum float64) {
next:
	for _, s := range m[family] {
		for i := 0; i+1 < len(labels); i += 2 {
			if s.Labels[labels[i]] != labels[i+1] {
				continue next
			}
		}
		sum += s.Value
	}
	return sum
}

// Metrics asks the gateway for its metrics.
func (g *Gateway) Metrics(tb testing.TB) Metrics {
	tb.Helper()
	m, err := g.scrape()
	if err != nil {
		tb.Fatalf("metrics: %v\n%s", err, g.Tail())
	}
	return m
}

func (g *Gateway) scrape() (Metrics, error) {
	// A connection that is kept would be one of the descriptors that are counted.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: g.dial}}
	resp, err := client.Get("http://" + g.Admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, err
	}
	m := make(Metrics, len(families))
	for name, f := range families {
		for _, metric := range f.GetMetric() {
			s := Series{Labels: map[string]string{}, Value: metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + metric.GetUntyped().GetValue()}
			for _, l := range metric.GetLabel() {
				s.Labels[l.GetName()] = l.GetValue()
			}
			m[name] = append(m[name], s)
		}
	}
	return m, nil
}
