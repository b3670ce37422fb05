package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const recordedRequest = `{"model":"demo","messages":[{"role":"user","content":"hello"}]}`

// TestRecordTestReplay records live traffic as vectors of each kind, which must pass, with the command lines of the
// documentation.
func TestRecordTestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	for _, c := range []struct{ kind, flag, plugin string }{{"provider", "--provider", "demo"}, {"router", "--plugin", "router"}, {"filter", "--plugin", "blocklist"}} {
		t.Run(c.kind, func(t *testing.T) { testRecorded(t, c.flag, c.plugin) })
	}
}

func testRecorded(t *testing.T, flag, plugin string) {
	path := writeConfig(t, demoConfig("", "sk-local")+`
[router]
plugin = "router"
always = true
[[filters]]
plugin = "blocklist"
on = ["request"]
options = { phrases = ["hello"] }
`)
	dir := filepath.Dir(path)
	p := start(t, dir, nil, "plugin", "record", flag, plugin, "--to", "recorded", "--count", "2")
	p.await("recording: prompts and responses are written to files")
	base := p.ready()
	for range 2 {
		if status, body, err := complete(t, newClient(t), base, "sk-local", recordedRequest); status != 200 || err != nil {
			t.Fatalf("%d %s, %v", status, body, err)
		}
	}
	p.await(`msg="recorded vectors" vectors=2`)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
	path = buildSluice(t, true)
	for _, c := range []struct {
		args string
		want result
	}{
		{"plugin replay recorded --module " + plugin + " --module " + plugin, result{0, "2 requests: no differences\n", ""}},
		{"plugin replay recorded --module " + plugin, result{0, "2 requests: no differences\n", ""}},
	} {
		if got := run(t, path, dir, nil, strings.Fields(c.args)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.args, got, c.want)
		}
	}
	if got := run(t, path, dir, nil, []string{"plugin", "test", "recorded"}); got.exit != 0 || !strings.HasSuffix(got.stdout, "2 vectors passed\n") {
		t.Errorf("%+v", got)
	}
}

// TestServeRecords checks that `sluice serve --record` serves until it is stopped, and logs the vectors that it writes.
func TestServeRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a process")
	}
	dir := filepath.Dir(writeConfig(t, demoConfig("", "sk-local")))
	p := start(t, dir, nil, "serve", "--record", "demo=recorded")
	base := p.ready()
	if status, body, err := complete(t, newClient(t), base, "sk-local", recordedRequest); status != 200 || err != nil {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	p.await("msg=recorded vector=0001-chat-whole-own")
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 || !strings.Contains(strings.Join(p.seen, "\n"), `msg="recorded vectors" vectors=1`) {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}
