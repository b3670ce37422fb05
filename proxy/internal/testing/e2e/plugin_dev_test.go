package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// textModule builds a provider that responds with a text, without an upstream request.
func textModule(text string) []byte {
	return requestMistake(text, func(m *translator) w.Op {
		return w.Code(w.I32Const(0), w.I32Const(0), m.data(), m.call("text"),
			w.I32Const(0), w.I32Const(0), w.I32Const(0), w.I32Const(0), m.call("finish"), w.I32Const(0), m.call("done"), w.I32Const(0))
	})
}

const devConfig = `
[server]
listen = "127.0.0.1:0"
[admin]
listen = ""
[plugins.mine]
file = "mine.wasm"
[providers.mine]
plugin = "mine"
base_url = "http://127.0.0.1:8000"
paths = ["/v1/chat"]
[[models]]
id = "mine"
targets = [{ provider = "mine", model = "m" }]
`

// TestDevLoadsEachBuild writes new versions of a plugin, some of them invalid, while the gateway serves.
func TestDevLoadsEachBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the file system's watch")
	}
	dir := t.TempDir()
	build := func(module []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "mine.wasm"), module, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "gateway.toml"), []byte(devConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	build(textModule("one"))
	g := serveBinary(t, dir, "serve", "--dev", "--cache", "")
	client := &http.Client{Transport: &http.Transport{}, Timeout: proxytest.EventTimeout}
	defer client.CloseIdleConnections()
	wantContent := func(want string) {
		t.Helper()
		status, answer, err := post(client, &proxytest.Gateway{URL: g.url}, "none", canaryRequest("mine", false))
		if err != nil || status != 200 || content(answer) != want {
			t.Fatalf("status %d, %v: %s, want %q", status, err, answer, want)
		}
	}
	wantContent("one")
	build(textModule("two"))
	g.until("plugins_changed=mine")
	wantContent("two")
	wantReloadError := func(reason string) {
		t.Helper()
		lines := g.until("reload failed; keeping the previous configuration")
		if last := lines[len(lines)-1]; !strings.Contains(last, reason) {
			t.Errorf("the log has %s, want %q", last, reason)
		}
		wantContent("two")
	}
	build(textModule("three")[:200])
	wantReloadError("the file is damaged or incomplete")
	build(nil)
	wantReloadError("mine.wasm is empty")
	if err := os.Remove(filepath.Join(dir, "mine.wasm")); err != nil {
		t.Fatal(err)
	}
	wantReloadError("mine.wasm does not exist")
	build(textModule("four"))
	g.until("plugins_changed=mine")
	wantContent("four")

	// With --dev, every line of a plugin and the stack of every trap is logged, and no circuit opens.
	const lines, failures = 200, 12
	long := strings.Repeat("x", 1000)
	build(requestMistake(long, func(m *translator) w.Op {
		var code w.Op
		for range lines {
			code = w.Code(code, w.I32Const(0), m.data(), m.call("log"))
		}
		return w.Code(code, w.Unreachable)
	}))
	g.until("plugins_changed=mine")
	for range failures {
		status, answer, err := post(client, &proxytest.Gateway{URL: g.url}, "none", canaryRequest("mine", false))
		if err != nil || status != 502 || !strings.Contains(answer, "plugin_crashed") {
			t.Fatalf("status %d, %v: %s, want 502 plugin_crashed", status, err, answer)
		}
		log := strings.Join(g.until("path=/v1/chat/completions"), "\n")
		if n := strings.Count(log, long); n != lines {
			t.Fatalf("the log has %d of the plugin's %d lines:\n%s", n, lines, log)
		}
		for _, want := range []string{`msg="plugin stack" plugin=mine call=provider_request frame=0 function="translate() i32"`, "frame=1 function=\"provider_request(i32,i32) i32\"", "trap: unreachable, in translate < provider_request"} {
			if !strings.Contains(log, want) {
				t.Fatalf("the log lacks %s:\n%s", want, log)
			}
		}
	}
}

func TestDevRequiresLoopbackAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the gateway's binary")
	}
	const reachable = `is reachable from other machines, and --dev is for this machine only: listen on an address such as "127.0.0.1:8080"`
	for _, tt := range []struct {
		name, config string
		args         []string
		want         string
	}{
		{"configured", strings.Replace(devConfig, "127.0.0.1:0", "0.0.0.0:0", 1), nil, `gateway.toml:3:10: server.listen: "0.0.0.0:0" ` + reachable},
		{"flag", devConfig, []string{"--listen", ":0"}, `gateway.toml: server.listen: ":0" ` + reachable},
		{"admin", strings.Replace(devConfig, `listen = ""`, `listen = "[::]:9"`, 1), nil, `gateway.toml:5:10: admin.listen: "[::]:9" ` + reachable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "gateway.toml"), []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), proxytest.Binary(t, proxytest.BinaryOptions{Bare: true}), append([]string{"serve", "--dev", "--cache", ""}, tt.args...)...)
			cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if cmd.Run(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), &stderr)
			}
		})
	}
}
