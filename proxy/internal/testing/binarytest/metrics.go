package binarytest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics has the series of one scrape, by family.
type Metrics map[string][]Series

// Series is one value with its labels.
type Series struct {
	Labels map[string]string
	Value  float64
}

// Sum returns the sum of a family's series with the labels, given as name, value, ….
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

// Metrics scrapes the gateway's metrics.
func (g *Gateway) Metrics(tb testing.TB) Metrics {
	tb.Helper()
	m, err := g.scrape()
	if err != nil {
		tb.Fatalf("scrape metrics: %v\n%s", err, g.Tail())
	}
	return m
}

func (g *Gateway) scrape() (Metrics, error) {
	// An idle connection would be one of the descriptors that tests count.
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
