package docs_test

import (
	"bytes"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// metric is a row of README's table of metrics.
type metric struct {
	kind   string
	labels []string
	words  []string // in backticks, in what it says
}

func documentedMetrics(t *testing.T) map[string]metric {
	t.Helper()
	code := regexp.MustCompile("`([a-z0-9_]+)`")
	list := func(s string) (names []string) {
		for _, m := range code.FindAllStringSubmatch(s, -1) {
			names = append(names, m[1])
		}
		return names
	}
	all := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)` \\| ([a-z]+) \\|([^|]*)\\|([^|]*)\\|$")
	for _, m := range row.FindAllStringSubmatch(read(t, readme), -1) {
		all[m[1]] = metric{m[2], list(m[3]), list(m[4])}
	}
	return all
}

// TestReadmeNamesTheMetrics compares the table with what the gateway exposes.
func TestReadmeNamesTheMetrics(t *testing.T) {
	documented := documentedMetrics(t)
	for _, f := range telemetry.Families() {
		m, ok := documented[f.Name]
		if !ok {
			t.Errorf("README.md does not name %s", f.Name)
			continue
		}
		if diff := cmp.Diff(f.Labels, m.labels); m.kind != f.Kind.String() || diff != "" {
			t.Errorf("%s is a %s, README.md says %s; labels (-), in README.md (+):\n%s", f.Name, f.Kind, m.kind, diff)
		}
		delete(documented, f.Name)
	}
	for name := range documented {
		t.Errorf("there is no metric %s", name)
	}
}

// TestReadmeNamesTheReasons compares the words of labels that are always there, or that the source lists.
func TestReadmeNamesTheReasons(t *testing.T) {
	documented := documentedMetrics(t)
	var out bytes.Buffer
	if err := telemetry.NewMetrics().Write(&out); err != nil {
		t.Fatal(err)
	}
	got := proxytest.ParseMetrics(t, out.String())
	for _, name := range []string{"sluice_refusals_total", "sluice_shed_total"} {
		var there []string
		for _, s := range got[name].GetMetric() {
			there = append(there, s.GetLabel()[0].GetValue())
		}
		words := documented[name].words
		slices.Sort(there)
		slices.Sort(words)
		if diff := cmp.Diff(there, words); diff != "" {
			t.Errorf("%s: reasons (-), in README.md (+):\n%s", name, diff)
		}
	}
	for kind := plugin.CallErrorKind(1); kind.Label() != "unknown"; kind++ {
		if !slices.Contains(documented["sluice_plugin_failures_total"].words, kind.Label()) {
			t.Errorf("sluice_plugin_failures_total: README.md does not name %s", kind.Label())
		}
	}
}

// TestMetricsKnowTheErrors: a code of README's table that the label does not say would be counted as another's.
func TestMetricsKnowTheErrors(t *testing.T) {
	_, section, _ := strings.Cut(read(t, readme), "\n## Errors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tried := 0
	for _, m := range regexp.MustCompile(`(?m)^\| [0-9]{3} \| ([^|]+) \|`).FindAllStringSubmatch(section, -1) {
		for _, c := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[1], -1) {
			tried++
			if got := telemetry.Code(c[1]); got != c[1] {
				t.Errorf("the code %s is counted as %s", c[1], got)
			}
		}
	}
	for _, c := range []string{"", "client_closed_request", "invalid_request_error"} {
		if got := telemetry.Code(c); got != c {
			t.Errorf("the code %q is counted as %s", c, got)
		}
	}
	if tried < 40 || telemetry.Code("somebody_invented_this") != telemetry.Other {
		t.Errorf("%d codes were tried", tried)
	}
}

// TestAlertsAreAboutMetricsThatExist holds every name, and every label in braces, against the gateway's.
func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	known := map[string]*telemetry.Family{}
	for _, f := range telemetry.Families() {
		known[f.Name] = f
	}
	text := read(t, "deploy/alerts.yml")
	uses := regexp.MustCompile(`(sluice_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(text, -1)
	if len(uses) < 10 {
		t.Fatalf("only %d metrics are used", len(uses))
	}
	for _, use := range uses {
		name := use[1]
		f := known[name]
		if f == nil && known[strings.TrimSuffix(name, "_bucket")] != nil && known[strings.TrimSuffix(name, "_bucket")].Kind == telemetry.Histogram {
			f = known[strings.TrimSuffix(name, "_bucket")]
		}
		if f == nil {
			t.Errorf("there is no metric %s", name)
			continue
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`).FindAllStringSubmatch(use[2], -1) {
			if !slices.Contains(f.Labels, label[1]) {
				t.Errorf("%s has no label %s", name, label[1])
			}
		}
	}
	if !strings.Contains(read(t, "deploy/prometheus.yml"), `["`+usualAdmin(t)+`"]`) {
		t.Errorf("prometheus.yml does not scrape %s", usualAdmin(t))
	}
}

func usualAdmin(t *testing.T) string {
	t.Helper()
	cfg, err := parse(provider)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Admin.Listen
}

// TestKubernetesAndConfigurationAgree takes the configuration out of the manifest and holds the rest of it against that.
func TestKubernetesAndConfigurationAgree(t *testing.T) {
	manifest := read(t, "deploy/kubernetes.yaml")
	_, rest, _ := strings.Cut(manifest, "  gateway.toml: |\n")
	block, _, _ := strings.Cut(rest, "\n---")
	var toml strings.Builder
	for line := range strings.Lines(block) {
		toml.WriteString(strings.TrimPrefix(line, "    "))
	}
	cfg, err := config.Parse("gateway.toml", []byte(toml.String()), config.Options{
		Bundled: plugins.Names(),
		Env: func(name string) (string, bool) {
			if name == "DEVELOPERS_DIGEST" {
				return strings.Repeat("01", 32), true
			}
			return "sk-of-the-cluster", strings.Contains(manifest, "--from-literal="+name+"=")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) != 1 || cfg.Warnings[0].Key != "admin.listen" {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
	port := func(listen string) string {
		_, p, err := net.SplitHostPort(listen)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, want := range []string{
		"{ name: http, containerPort: " + port(cfg.Server.Listen) + " }", "{ name: admin, containerPort: " + port(cfg.Admin.Listen) + " }",
		`prometheus.io/port: "` + port(cfg.Admin.Listen) + `"`, "mountPath: " + filepath.Dir(cfg.Server.CacheDir) + " }",
		"readinessProbe:\n            httpGet: { path: /readyz, port: admin }", "livenessProbe:\n            httpGet: { path: /healthz, port: admin }",
	} {
		if !strings.Contains(manifest, want) {
			t.Errorf("%q is not there", want)
		}
	}
	if took := cfg.Server.DrainDelay + cfg.Server.ShutdownTimeout; took.Seconds() == 0 || !strings.Contains(manifest, "terminationGracePeriodSeconds: 80 ") || took.Seconds() >= 75 {
		t.Errorf("the gateway may take %v to end", took)
	}
}
