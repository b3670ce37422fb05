package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	config := demoConfig(`drain_delay = "1h"`, testKey)
	dir := t.TempDir()
	p := start(t, dir, nil, "serve", "--config", writeConfig(t, config))
	_, admin := p.addresses()
	address := strings.TrimPrefix(admin, "http://")
	// The same configuration with the actual address.
	text := strings.Replace(config, "[admin]\nlisten = \"127.0.0.1:0\"", fmt.Sprintf("[admin]\nlisten = %q", address), 1)
	path := writeConfig(t, text)
	check := func(args ...string) result {
		t.Helper()
		return run(t, buildSluice(t, true), dir, nil, append([]string{"healthcheck"}, args...))
	}
	want := func(got result, exit int, stdout, stderr string) {
		t.Helper()
		if got.exit != exit || got.stdout != stdout || !strings.Contains(got.stderr, stderr) || stderr == "" && got.stderr != "" {
			t.Errorf("got %+v, want exit %d, %q, %q", got, exit, stdout, stderr)
		}
	}

	want(check("--config", path), 0, "ok\n", "")
	want(check("--config", path, "--ready"), 0, "ready\n", "")
	want(check("--url", "http://"+address+"/", "--ready"), 0, "ready\n", "")

	// The command only needs the address, so the rest of the configuration may be invalid.
	for _, broken := range []string{
		text + "\n[[keys]\n",
		strings.Replace(text, testKey, "${NOT_THERE}", 1),
		strings.Replace(text, `plugin = "demo"`, `plugin = "dmeo"`, 1),
	} {
		replaceFile(t, path, broken)
		want(check("--config", path), 0, "ok\n", "")
	}

	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	want(check("--config", path), 0, "ok\n", "")
	want(check("--config", path, "--ready"), 1, "", "sluice: http://"+address+"/readyz returned 503: not ready: the gateway is shutting down\n")
	p.signal(syscall.SIGTERM)
	p.wait()
	want(check("--config", path), 1, "", "sluice: no response from http://"+address+"/healthz: connection refused\nIs the gateway running with this configuration?")
}

func TestHealthcheckFailures(t *testing.T) {
	t.Parallel()
	// A server that accepts and never responds.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, c := range []struct {
		name, config string
		args         []string
		exit         int
		stderr       string
	}{
		{"no response", "", []string{"--url", "http://" + ln.Addr().String(), "--timeout", "50ms"}, 1, "/healthz: timed out after 50ms\n"},
		{"disabled", "[admin]\nlisten = \"\"", nil, 1, "disables health checks"},
		{"port 0", "[admin]\nlisten = \"127.0.0.1:0\"", nil, 1, "--url"},
		{"unset variable", "[admin]\nlisten = \"${ADMIN}\"", nil, 1, "gateway.toml:2:11: admin.listen: ADMIN is not set"},
		{"no scheme", "", []string{"--url", "127.0.0.1:8081"}, 2, "want http://host:port"},
		{"URL with a path", "", []string{"--url", "http://127.0.0.1/healthz"}, 2, "want http://host:port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, buildSluice(t, true), t.TempDir(), nil, append([]string{"healthcheck", "--config", writeConfig(t, c.config)}, c.args...))
			if got.exit != c.exit || got.stdout != "" || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("%+v", got)
			}
		})
	}
}
