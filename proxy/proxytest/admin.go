package proxytest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Admin starts the admin listener and returns its URL, http://127.0.0.1:port.
func (g *Gateway) Admin(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Server.ServeAdmin(ln) }()
	tb.Cleanup(func() {
		if err := g.Stop(EventTimeout); err != nil {
			tb.Errorf("shut the gateway down: %v", err)
		}
		if err := <-served; err != nil {
			tb.Errorf("serve health, metrics and status: %v", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// Get fetches a URL of the admin listener.
func Get(tb testing.TB, url string) (status int, body string) {
	tb.Helper()
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	resp, err := (&http.Client{Transport: t}).Get(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Metrics are the metrics of one scrape, by name.
type Metrics map[string]*dto.MetricFamily

// Scrape reads the metrics at an admin listener's URL.
func Scrape(tb testing.TB, admin string) Metrics {
	tb.Helper()
	status, body := Get(tb, admin+"/metrics")
	if status != http.StatusOK {
		tb.Fatalf("the metrics have status %d: %s", status, body)
	}
	return ParseMetrics(tb, body)
}

// ParseMetrics parses the Prometheus text format with Prometheus' own parser.
func ParseMetrics(tb testing.TB, text string) Metrics {
	tb.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	m, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		tb.Fatalf("the metrics cannot be read: %v", err)
	}
	return m
}

// Sum returns the sum of a metric's series with the labels, given as name, value, …. For a histogram it is the count.
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

// Values returns the values of a label over all metrics of the gateway.
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
	for i := 0; i+1 < len(labels); i += 2 {
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

// AwaitMetrics scrapes until good returns true, and returns the metrics.
func AwaitMetrics(tb testing.TB, admin string, good func(Metrics) bool) Metrics {
	tb.Helper()
	deadline := time.Now().Add(EventTimeout)
	for {
		m := Scrape(tb, admin)
		if good(m) {
			return m
		}
		if time.Now().After(deadline) {
			_, body := Get(tb, admin+"/metrics")
			tb.Fatalf("the metrics do not become what they should:\n%s", body)
		}
	}
}
