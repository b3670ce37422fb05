package main

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	open := demoConfig(`drain_delay = "1h"`, testKey)
	dir := t.TempDir()
	p := start(t, dir, nil, "serve", "--config", configured(t, open))
	_, admin := p.both()
	address := strings.TrimPrefix(admin, "http://")
	// The same, with the address that it has got.
	text := strings.Replace(open, "[admin]\nlisten = \"127.0.0.1:0\"", fmt.Sprintf("[admin]\nlisten = %q", address), 1)
	path := configured(t, text)
	check := func(args ...string) ended {
		t.Helper()
		return run(t, binary(t, true), dir, nil, append([]string{"healthcheck"}, args...))
	}
	want := func(got ended, exit int, stdout, stderr string) {
		t.Helper()
		if got.exit != exit || got.stdout != stdout || !strings.Contains(got.stderr, stderr) || stderr == "" && got.stderr != "" {
			t.Errorf("got %+v, want exit %d, %q, %q", got, exit, stdout, stderr)
		}
	}

	want(check("--config", path), 0, "ok\n", "")
	want(check("--config", path, "--ready"), 0, "ready\n", "")
	want(check("--url", "http://"+address+"/", "--ready"), 0, "ready\n", "")

	// What the gateway serves is what it has read.
	for _, broken := range []string{
		text + "\n[[keys]\n",
		strings.Replace(text, testKey, "${NOT_THERE}", 1),
		strings.Replace(text, `plugin = "demo"`, `plugin = "dmeo"`, 1),
	} {
		replace(t, path, broken)
		want(check("--config", path), 0, "ok\n", "")
	}

	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	want(check("--config", path), 0, "ok\n", "")
	want(check("--config", path, "--ready"), 1, "", "sluice: http://"+address+"/readyz says 503: not ready: the gateway is shutting down\n")
	p.signal(syscall.SIGTERM)
	p.wait()
	want(check("--config", path), 1, "", "sluice: nothing answers at http://"+address+"/healthz: connection refused\nDoes the gateway run, with the same configuration?")
}

func TestHealthcheckThatCannotBe(t *testing.T) {
	// Somebody who accepts and says nothing.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, c := range []struct {
		name, config string
		args         []string
		exit         int
		says         string
	}{
		{"nobody says anything", "", []string{"--url", "http://" + ln.Addr().String(), "--timeout", "50ms"}, 1, "/healthz: no answer within 50ms\n"},
		{"no address at all", "[admin]\nlisten = \"\"", nil, 1, "switched off"},
		{"any port", "[admin]\nlisten = \"127.0.0.1:0\"", nil, 1, "--url"},
		{"a variable that is missing", "[admin]\nlisten = \"${ADMIN}\"", nil, 1, "gateway.toml:2:11: admin.listen: ADMIN is not set"},
		{"no address", "", []string{"--url", "127.0.0.1:8081"}, 2, "write it as http://host:port"},
		{"an address with more", "", []string{"--url", "http://127.0.0.1/healthz"}, 2, "write it as http://host:port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, binary(t, true), t.TempDir(), nil, append([]string{"healthcheck", "--config", configured(t, c.config)}, c.args...))
			if got.exit != c.exit || got.stdout != "" || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}
