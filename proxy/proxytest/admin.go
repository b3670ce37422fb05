package proxytest

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/metricstest"
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
			tb.Errorf("shut down the gateway: %v", err)
		}
		if err := <-served; err != nil {
			tb.Errorf("serve the admin listener: %v", err)
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
type Metrics = metricstest.Metrics

// Scrape reads the metrics at an admin listener's URL.
func Scrape(tb testing.TB, admin string) Metrics {
	tb.Helper()
	status, body := Get(tb, admin+"/metrics")
	if status != http.StatusOK {
		tb.Fatalf("GET /metrics: status %d: %s", status, body)
	}
	return metricstest.Parse(tb, body)
}

// AwaitMetrics scrapes until done returns true, and returns the metrics.
func AwaitMetrics(tb testing.TB, admin string, done func(Metrics) bool) Metrics {
	tb.Helper()
	deadline := time.Now().Add(EventTimeout)
	for {
		m := Scrape(tb, admin)
		if done(m) {
			return m
		}
		if time.Now().After(deadline) {
			_, body := Get(tb, admin+"/metrics")
			tb.Fatalf("metrics not as expected after %v:\n%s", EventTimeout, body)
		}
	}
}
