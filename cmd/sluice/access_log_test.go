package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAccessLogFile rotates the file of the access log: it is renamed, and opened again on SIGHUP.
func TestAccessLogFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.log")
	p := start(t, t.TempDir(), nil, "serve", "--config", writeConfig(t, demoConfig("access_log = \""+file+"\"", testKey)))
	base := p.ready()
	ask := func() {
		t.Helper()
		if status, body, err := complete(t, newClient(t), base, testKey, hello); status != 200 {
			t.Fatalf("%d %v %s", status, err, body)
		}
	}
	count := func(name string) int {
		text, _ := os.ReadFile(name)
		return strings.Count(string(text), "msg=request")
	}
	ask()
	eventually(t, "the request is in the file", func() bool { return count(file) == 1 })
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.await(`msg="configuration reloaded"`)
	ask()
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	if old, now := count(file+".1"), count(file); old != 1 || now != 1 {
		t.Errorf("%d requests in the old file, %d in the new one", old, now)
	}
	if log := strings.Join(p.seen, "\n"); strings.Contains(log, "msg=request") {
		t.Errorf("requests are in the log as well:\n%s", log)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
