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
type Metrics = metricstest.Metrics

// Scrape reads the metrics at an admin listener's URL.
func Scrape(tb testing.TB, admin string) Metrics {
	tb.Helper()
	status, body := Get(tb, admin+"/metrics")
	if status != http.StatusOK {
		tb.Fatalf("the metrics have status %d: %s", status, body)
	}
	return metricstest.Parse(tb, body)
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
