package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// promtool runs a test file for alerting rules with Prometheus' promtool.
func promtool(t *testing.T, file string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAlerts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs promtool")
	}
	promtool(t, examples+"deploy/alerts_test.yml")
}

// TestDeadTargetAlert sends few requests to a target that fails all of them, for half an hour on a fake clock. It then
// has Prometheus evaluate the alerts in examples/deploy with all scraped metrics.
func TestDeadTargetAlert(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway until an alert fires")
	}
	const (
		scrapes = 120 // each 15 s
		every   = 8   // scrapes per request
	)
	up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", `{"error":{"message":"no"}}`))})
	began := time.Now()
	var passed atomic.Int64
	g := proxytest.StartWith(t, proxytest.Keys+fmt.Sprintf(`
[providers.dead]
plugin   = "openai"
base_url = %q
[providers.demo]
plugin = "demo"
[[models]]
id      = "fast"
targets = [{ provider = "dead", model = "m" }, { provider = "demo", model = "demo", fallback = true }]
`, up.URL()), func(o *proxy.Options) {
		o.Now = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	})
	at := g.Admin(t)
	values := make(map[string][]float64)
	for n := range scrapes + 1 {
		if n%every == every-1 {
			if r := g.Chat(t, `{"model":"fast","messages":[{"role":"user","content":"x"}]}`); r.Status != 200 {
				t.Fatalf("got %d %s", r.Status, r.Body)
			}
		}
		for series, v := range scrapedSamples(proxytest.Scrape(t, at)) {
			for len(values[series]) < n {
				values[series] = append(values[series], -1)
			}
			values[series] = append(values[series], v)
		}
		passed.Add(int64(15 * time.Second))
	}
	healthy := values[`sluice_target_healthy{instance="g:8081",job="sluice",provider="dead",target="m"}`]
	opened := slices.Index(healthy, 0)
	if opened < 0 || opened > 5*every || slices.Contains(healthy[opened:], 1) {
		t.Fatalf("the target's health is %v", healthy)
	}
	if _, page := proxytest.Get(t, at+"/"); !strings.Contains(page, `<span class="bad">✕ circuit open`) {
		t.Error("the target is not red on the page")
	}

	dir := t.TempDir()
	var test strings.Builder
	fmt.Fprintf(&test, "rule_files: [alerts.yml]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n")
	for series, list := range values {
		fmt.Fprintf(&test, "      - series: '%s'\n        values: '", series)
		for _, v := range list {
			if v < 0 {
				test.WriteString("_ ")
				continue
			}
			fmt.Fprintf(&test, "%v ", v)
		}
		test.WriteString("'\n")
	}
	test.WriteString("    alert_rule_test:\n")
	expect := func(alert string, firing string) {
		fmt.Fprintf(&test, "      - eval_time: 30m\n        alertname: %s\n        exp_alerts: %s\n", alert, firing)
	}
	expect("SluiceTargetUnhealthy", `[{exp_labels: {provider: dead, target: m}, exp_annotations: {summary: "dead/m has been unhealthy for ten minutes."}}]`)
	expect("SluiceTargetFailing", `[{exp_labels: {provider: dead, target: m}, exp_annotations: {summary: "dead/m has failed and not responded for half an hour."}}]`)
	for _, quiet := range []string{"SluiceReloadFailed", "SluiceRequestErrors", "SluiceOverloaded", "SluicePluginErrors", "SluicePanics"} {
		expect(quiet, "[]")
	}
	for name, text := range map[string]string{"alerts.yml": readFile(t, examples+"deploy/alerts.yml"), "test.yml": test.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, filepath.Join(dir, "test.yml"))
}

// scrapedSamples returns the gateway's counters and gauges by series name.
func scrapedSamples(m proxytest.Metrics) map[string]float64 {
	all := make(map[string]float64)
	for name, f := range m {
		if !strings.HasPrefix(name, "sluice_") || f.GetType() == dto.MetricType_HISTOGRAM {
			continue
		}
		for _, s := range f.GetMetric() {
			labels := []string{`instance="g:8081"`, `job="sluice"`}
			for _, l := range s.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			all[name+"{"+strings.Join(labels, ",")+"}"] = s.GetCounter().GetValue() + s.GetGauge().GetValue()
		}
	}
	return all
}
