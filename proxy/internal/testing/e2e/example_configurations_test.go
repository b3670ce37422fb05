package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// examples is the folder of the examples.
const examples = "../../../../examples/"

// compiledExamples returns the compiled plugins that all configurations share, because reading 20 MB of machine code
// takes longer than the rest of a test.
var compiledExamples = sync.OnceValues(func() (*proxy.CompiledPlugins, error) { return proxy.NewCompiledPlugins(proxytest.CacheDir()) })

// loadExample checks an example's configuration like `sluice check`, and returns a server for it. file and pkg are the
// file name and the package of a plugin under development, or "".
func loadExample(t *testing.T, path, file, pkg string, env map[string]string) (*config.Config, *proxy.Server) {
	t.Helper()
	toml, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string][]byte{"gateway.toml": toml}
	if file != "" {
		files[file] = plugintest.Build(t, pkg)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "gateway.toml"), config.Options{
		Env:     func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Bundled: plugins.Names(), Dev: file != "",
		OptionsSchema: func(_ *config.Config, p *config.Plugin) []byte {
			if p.File != "" {
				return nil
			}
			return plugins.FS().OptionsSchema(p.Name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Warnings {
		t.Errorf("warning: %v", w)
	}
	for _, p := range cfg.Providers {
		if p.Off != "" {
			t.Errorf("provider %s is disabled: %s", p.Name, p.Off)
		}
	}
	for _, m := range cfg.Models {
		if m.Off != "" {
			t.Errorf("model %s is disabled: %s", m.ID, m.Off)
		}
	}
	machineCode, err := compiledExamples()
	if err != nil {
		t.Fatal(err)
	}
	s, err := proxy.New(t.Context(), proxy.Options{Config: cfg, Bundled: proxytest.Bundled(t), Compiled: machineCode})
	if err != nil {
		t.Fatal(err)
	}
	return cfg, s
}

// team is the environment of the configuration in examples/deploy.
var team = map[string]string{
	"OPENAI_API_KEY":     "sk-openai-of-the-team",
	"ANTHROPIC_API_KEY":  "sk-anthropic-of-the-team",
	"DEVELOPERS_DIGEST":  strings.Repeat("01", 32),
	"SUPPORT_BOT_DIGEST": strings.Repeat("23", 32),
}

// TestDeploymentConfigurationIsValid loads examples/deploy/gateway.toml with all environment variables, and with each
// one missing.
func TestDeploymentConfigurationIsValid(t *testing.T) {
	cfg, s := loadExample(t, examples+"deploy/gateway.toml", "", "", team)
	s.Close()
	for _, m := range cfg.Models {
		if len(m.Targets) != 2 || m.Targets[0].Fallback || !m.Targets[1].Fallback || m.Targets[0].Provider == m.Targets[1].Provider {
			t.Errorf("model %s has no fallback at another provider: %+v", m.ID, m.Targets)
		}
	}
	for missing := range team {
		_, err := config.Load(examples+"deploy/gateway.toml", config.Options{
			Env:     func(name string) (string, bool) { v, ok := team[name]; return v, ok && name != missing },
			Bundled: plugins.Names(),
		})
		var list config.Errors
		if !errors.As(err, &list) || len(list) != 1 || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: got error %v, want one that names it", missing, err)
		}
	}
}

// TestRoutingPoliciesAreValid loads the policies in examples/routing, which docs/routing.md shows.
func TestRoutingPoliciesAreValid(t *testing.T) {
	files, err := filepath.Glob(examples + "routing/*.toml")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	variables := regexp.MustCompile(`\$\{([A-Z_]+)\}`)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			env := map[string]string{}
			for i, v := range variables.FindAllStringSubmatch(readFile(t, file), -1) {
				env[v[1]] = fmt.Sprintf("sk-%02d-0123456789abcdef", i)
			}
			cfg, s := loadExample(t, file, "", "", env)
			s.Close()
			if m := cfg.Models; len(m) != 1 || m[0].Router.Plugin != "router" && m[0].Canary == nil {
				t.Errorf("want one model with a router or canary, got %+v", m)
			}
		})
	}
}

// TestServiceMatchesConfiguration compares the systemd unit and the nginx configuration with the gateway's
// configuration.
func TestServiceMatchesConfiguration(t *testing.T) {
	cfg, err := config.Load(examples+"deploy/gateway.toml", config.Options{
		Env:     func(name string) (string, bool) { v, ok := team[name]; return v, ok },
		Bundled: plugins.Names(),
	})
	if err != nil {
		t.Fatal(err)
	}
	unit, nginx := readFile(t, examples+"deploy/sluice.service"), readFile(t, examples+"deploy/nginx.conf")
	for _, want := range []struct{ name, text, in string }{
		{"systemd waits longer than shutdown_timeout", "TimeoutStopSec=75\n", unit},
		{"systemd does not restart after usage and configuration errors", "RestartPreventExitStatus=2 3\n", unit},
		{"nginx does not buffer events", "proxy_buffering off;", nginx},
		{"nginx forwards to the gateway's address", "server " + cfg.Server.Listen + ";", nginx},
		{"nginx has the gateway's body limit", "client_max_body_size 32m;", nginx},
	} {
		if !strings.Contains(want.in, want.text) {
			t.Errorf("%s: missing %q", want.name, want.text)
		}
	}
	if got := cfg.Server.ShutdownTimeout.Seconds(); got >= 75 {
		t.Errorf("shutdown_timeout is %v s, want less than 75", got)
	}
	if cfg.Server.MaxBody != 32<<20 {
		t.Errorf("max_body is %d, want 32 MiB", cfg.Server.MaxBody)
	}
}

// TestRouterExampleRoutesByLength serves the router's configuration and sends a short and a long request.
func TestRouterExampleRoutesByLength(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the example and starts a gateway")
	}
	dir := "plugins/go-router"
	_, s := loadExample(t, examples+dir+"/gateway.toml", "plugin.wasm", "examples/"+dir, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), proxytest.EventTimeout)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		length int
		model  string
	}{{10, "small-context"}, {2000, "large-context"}} {
		body := `{"model":"auto","messages":[{"role":"user","content":"` + strings.Repeat("x", test.length) + `"}]}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+ln.Addr().String()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer sk-local")
		transport := &http.Transport{DisableKeepAlives: true}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Model string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || answer.Model != test.model {
			t.Errorf("prompt of %d characters: got model %q, %v, want %s", test.length, answer.Model, err, test.model)
		}
	}
}
