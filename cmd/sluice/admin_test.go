package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

// TestBannerLinksStatusPage requests the URL of the status page that the banner shows.
func TestBannerLinksStatusPage(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, demoConfig("", testKey)))
	line := p.await("Health, metrics and status: http://")
	_, url, _ := strings.Cut(line, "status: ")
	status, page := get(t, strings.TrimSpace(url))
	if status != 200 || !strings.Contains(page, "<!doctype html>") || !strings.Contains(page, "v1.2.3") {
		t.Errorf("%s returns %d %s", url, status, page)
	}
	if _, text := get(t, strings.TrimSpace(url)+"metrics"); !strings.Contains(text, `version="v1.2.3"`) || !strings.Contains(text, "\nsluice_log_lines_dropped_total 0\n") {
		t.Errorf("metrics:\n%s", text)
	}
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// TestDefaultAdminAddressInUse expects a warning and not an error, since the address is only a default. The test
// occupies the address, unless another process has already done so.
//
// covers: F88
func TestDefaultAdminAddressInUse(t *testing.T) {
	if ln, err := net.Listen("tcp", "127.0.0.1:8081"); err == nil {
		defer ln.Close()
	}
	text := strings.Replace(demoConfig("", testKey), "[admin]\nlisten = \"127.0.0.1:0\"", "", 1)
	p := start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, text))
	p.await("level=WARN msg=\"no health, metrics and status: the default address is in use; set listen in [admin]\"")
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}
