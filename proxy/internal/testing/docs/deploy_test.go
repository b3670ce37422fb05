package docs_test

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// TestAlerts checks the metrics, and their labels, that alerts.yml uses.
func TestAlerts(t *testing.T) {
	known := map[string]*telemetry.Family{}
	for _, f := range telemetry.Families() {
		known[f.Name] = f
	}
	text := read(t, "examples/deploy/alerts.yml")
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
			t.Errorf("alerts.yml uses %s, which is no metric", name)
			continue
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`).FindAllStringSubmatch(use[2], -1) {
			if !slices.Contains(f.Labels, label[1]) {
				t.Errorf("%s has no label %s", name, label[1])
			}
		}
	}
	cfg, err := config.Parse("gateway.toml", nil, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, "examples/deploy/prometheus.yml"), `["`+cfg.Admin.Listen+`"]`) {
		t.Errorf("prometheus.yml does not scrape %s", cfg.Admin.Listen)
	}
}

// TestKubernetesManifest loads the manifest's configuration and checks that ports, paths and times of the manifest match it.
func TestKubernetesManifest(t *testing.T) {
	manifest := read(t, "examples/deploy/kubernetes.yaml")
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
			t.Errorf("kubernetes.yaml lacks %q", want)
		}
	}
	if took := cfg.Server.DrainDelay + cfg.Server.ShutdownTimeout; took.Seconds() == 0 || !strings.Contains(manifest, "terminationGracePeriodSeconds: 80 ") || took.Seconds() >= 75 {
		t.Errorf("shutting down may take %v, longer than terminationGracePeriodSeconds allows", took)
	}
}
