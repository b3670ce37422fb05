package docs_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// checkMetrics checks the metrics and labels in the expressions of a file. Prometheus adds the labels job and instance.
func checkMetrics(t *testing.T, file, text string) {
	t.Helper()
	known := map[string]*telemetry.Family{}
	for _, f := range telemetry.Families() {
		known[f.Name] = f
	}
	uses := regexp.MustCompile(`(sluice_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(text, -1)
	if len(uses) < 10 {
		t.Fatalf("%s uses only %d metrics", file, len(uses))
	}
	for _, use := range uses {
		name := use[1]
		f := known[name]
		if f == nil && known[strings.TrimSuffix(name, "_bucket")] != nil && known[strings.TrimSuffix(name, "_bucket")].Kind == telemetry.Histogram {
			f = known[strings.TrimSuffix(name, "_bucket")]
		}
		if f == nil {
			t.Errorf("%s uses the unknown metric %s", file, name)
			continue
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`).FindAllStringSubmatch(use[2], -1) {
			if !slices.Contains(append([]string{"job", "instance"}, f.Labels...), label[1]) {
				t.Errorf("%s: %s has no label %s", file, name, label[1])
			}
		}
	}
}

// TestDashboard checks the layout, the expressions and the legends of the Grafana dashboard.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "examples/deploy/grafana.json")), &board); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for i, p := range board.Panels {
		if p.ID != i+1 || p.GridPos.X+p.GridPos.W > 24 || (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %d has a wrong ID, position or targets: %+v", i, p)
		}
		for _, target := range p.Targets {
			all.WriteString(target.Expr + "\n")
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if label[1] != "instance" && !regexp.MustCompile(`by \([a-z, ]*\b`+label[1]+`\b`).MatchString(target.Expr) {
					t.Errorf("%s: the legend uses label %s, which %s does not preserve", p.Title, label[1], target.Expr)
				}
			}
		}
	}
	checkMetrics(t, "grafana.json", all.String())
}

// TestSystemdUnits checks the units against the configuration and the command line.
func TestSystemdUnits(t *testing.T) {
	service, socket, cli := read(t, "examples/deploy/sluice.service"), read(t, "examples/deploy/sluice.socket"), read(t, "docs/cli.md")
	cfg, err := config.Parse("gateway.toml", []byte(read(t, "examples/deploy/gateway.toml")), config.Options{
		Bundled: plugins.Names(), Env: func(name string) (string, bool) { return fmt.Sprintf("%x", sha256.Sum256([]byte(name))), true },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(socket, "\nListenStream="+cfg.Server.Listen+"\n") {
		t.Errorf("sluice.socket does not listen at %s", cfg.Server.Listen)
	}
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(service)
		if m == nil {
			t.Fatalf("sluice.service lacks %s", name)
		}
		return m[1]
	}
	stop, err := time.ParseDuration(setting("TimeoutStopSec") + "s")
	if shutdown := cfg.Server.DrainDelay + cfg.Server.ShutdownTimeout; err != nil || shutdown == 0 || stop < shutdown+5*time.Second {
		t.Errorf("shutdown may take %v, but TimeoutStopSec is %v, %v", shutdown, stop, err)
	}
	for name, command := range map[string]string{"ExecStart": "serve", "ExecReload": "reload"} {
		line := setting(name)
		_, section, _ := strings.Cut(cli, "\n## sluice "+command+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !strings.HasPrefix(line, "/usr/local/bin/sluice "+command+" ") || section == "" {
			t.Errorf("%s=%s does not run sluice %s", name, line, command)
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
			if !strings.Contains(section, flag) && !strings.Contains(cli, flag) {
				t.Errorf("%s: unknown flag %s", name, flag)
			}
		}
	}
	for name, want := range map[string]string{"Type": "notify", "Requires": "sluice.socket", "RestartPreventExitStatus": "2 3", "SystemCallFilter": "@system-service"} {
		if got := setting(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
}

// TestAlerts checks the metrics in alerts.yml, and the scrape address in prometheus.yml.
func TestAlerts(t *testing.T) {
	checkMetrics(t, "alerts.yml", read(t, "examples/deploy/alerts.yml"))
	cfg, err := config.Parse("gateway.toml", nil, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, "examples/deploy/prometheus.yml"), `["`+cfg.Admin.Listen+`"]`) {
		t.Errorf("prometheus.yml does not scrape %s", cfg.Admin.Listen)
	}
}

// TestKubernetesManifest parses the manifest's configuration and checks that the manifest's ports, paths and timeouts
// match it.
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
		t.Errorf("got warnings %v, want one about admin.listen", cfg.Warnings)
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
		`prometheus.io/port: "` + port(cfg.Admin.Listen) + `"`, "mountPath: /etc/sluice, readOnly: true }", "maxUnavailable: 0",
		"readinessProbe:\n            httpGet: { path: /readyz, port: admin }", "livenessProbe:\n            httpGet: { path: /healthz, port: admin }",
	} {
		if !strings.Contains(manifest, want) {
			t.Errorf("kubernetes.yaml lacks %q", want)
		}
	}
	// The state folder of the image is a volume that the image's user can write to.
	image := read(t, "Dockerfile")
	for _, want := range []string{"STATE_DIRECTORY=/var/lib/sluice/state ", "--chown=65532:65532 var/empty /var/lib/sluice\n", "USER 65532:65532\n"} {
		if !strings.Contains(image, want) {
			t.Errorf("Dockerfile lacks %q", want)
		}
	}
	for _, want := range []string{"{ name: state, mountPath: /var/lib/sluice }\n", "fsGroup: 65532\n", "- name: state\n"} {
		if strings.Count(manifest, want) != 1 {
			t.Errorf("kubernetes.yaml lacks %q", want)
		}
	}
	// The restricted Pod Security profile, and a disruption budget.
	for _, want := range []string{
		"runAsNonRoot: true\n", "seccompProfile: { type: RuntimeDefault }\n", "allowPrivilegeEscalation: false\n", "capabilities: { drop: [ALL] }\n",
		"readOnlyRootFilesystem: true\n", "pod-security.kubernetes.io/enforce: restricted\n", "kind: PodDisruptionBudget\n",
	} {
		if strings.Count(manifest, want) != 1 {
			t.Errorf("kubernetes.yaml lacks %q", want)
		}
	}
	for _, object := range strings.Split(manifest, "\n---\n") {
		kind := regexp.MustCompile(`(?m)^kind: (.*)$`).FindStringSubmatch(object)
		if kind == nil || kind[1] != "Namespace" && !strings.Contains(object, "\n  name: sluice\n  namespace: sluice\n") {
			t.Errorf("kubernetes.yaml: an object %q lacks its kind, name or namespace", kind)
		}
	}
	for _, bad := range []string{"hostPath", "hostNetwork", "hostPort", "privileged: true", "runAsUser: 0"} {
		if strings.Contains(manifest, bad) {
			t.Errorf("kubernetes.yaml contains %s, which the restricted profile forbids", bad)
		}
	}
	if shutdown := cfg.Server.DrainDelay + cfg.Server.ShutdownTimeout; shutdown.Seconds() == 0 || !strings.Contains(manifest, "terminationGracePeriodSeconds: 80 ") || shutdown.Seconds() >= 75 {
		t.Errorf("shutdown may take %v, but terminationGracePeriodSeconds must be 80 and allow for it", shutdown)
	}
}

// TestImageKeepsHealthCheck checks that each tool builds the image in a format that has health checks.
func TestImageKeepsHealthCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("runs make")
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	if !strings.Contains(read(t, "Dockerfile"), "\nHEALTHCHECK CMD ") {
		t.Error("Dockerfile has no health check")
	}
	for tool, docker := range map[string]bool{"docker": false, "podman": true, "buildah": true, "/usr/bin/buildah": true} {
		out, err := exec.Command("make", "-n", "image", "IMAGETOOL="+tool).Output()
		if err != nil {
			t.Fatal(err)
		}
		build := regexp.MustCompile(`(?m)^` + tool + ` build .*$`).FindString(string(out))
		if build == "" || strings.Contains(build, " --format docker ") != docker {
			t.Errorf("%s: %q, want --format docker: %t", tool, build, docker)
		}
	}
}
