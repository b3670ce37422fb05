package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// triggers are the ways in which a gateway comes to read its configuration again.
var triggers = []struct {
	name string
	args []string
	pull func(p *process)
}{
	{"SIGHUP", []string{"--watch=false"}, func(p *process) { p.signal(syscall.SIGHUP) }},
	{"watched", nil, func(*process) {}},
}

func TestF80_F134_AChangedKey(t *testing.T) {
	for _, trigger := range triggers {
		t.Run(trigger.name, func(t *testing.T) {
			const event = "data: {\"id\":\"up\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n"
			proceed := make(chan struct{})
			provider := upstreamtest.New(t, upstreamtest.Script{
				upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"Hel"}`)),
				upstreamtest.Wait(proceed),
				upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"lo"},"finish_reason":"stop"`), "data: [DONE]\n\n"), upstreamtest.LastChunk(),
			})
			text := demoConfig("", "sk-old-0123456789") + fmt.Sprintf(`
[providers.up]
plugin   = "openai"
base_url = %q
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, provider.URL())
			path := configured(t, text)
			p := start(t, t.TempDir(), nil, append([]string{"serve", "--config", path}, trigger.args...)...)
			base, admin := p.both()
			client := newClient(t)
			running, err := hold(t, client, base, "sk-old-0123456789", `"Hel"`)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, path, strings.Replace(text, "sk-old", "sk-new", 1))
			trigger.pull(p)
			line := p.await(`msg="configuration reloaded"`)
			if after(line, "keys_changed") != "tests" || after(line, "generation") != "2" || after(line, "took") == "" || strings.Contains(line, "models") || strings.Contains(line, "sk-") {
				t.Errorf("it says %s", line)
			}
			if status, body, err := whole(t, client, base, "sk-old-0123456789", hello); status != 401 {
				t.Errorf("the old key: %d %v %s", status, err, body)
			}
			if status, body, err := whole(t, client, base, "sk-new-0123456789", hello); status != 200 {
				t.Errorf("the new key: %d %v %s", status, err, body)
			}
			if n := metric(t, admin, "sluice_config_generations_open"); n != 2 {
				t.Errorf("%g generations are open while the stream runs", n)
			}
			close(proceed)
			if rest, err := running.rest(); err != nil || !finished(rest) {
				t.Errorf("the stream that was running ends with %v: %q", err, rest)
			}
			eventually(t, "the old generation is closed", func() bool { return metric(t, admin, "sluice_config_generations_open") == 1 })
			if n := metric(t, admin, "sluice_config_generation"); n != 2 {
				t.Errorf("generation %g", n)
			}
		})
	}
}

// TestF80_TheSameBytes: a file that is written again as it was is read and left alone, but for SIGHUP.
func TestF80_TheSameBytes(t *testing.T) {
	text := demoConfig("", testKey)
	path := configured(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	p.ready()
	replace(t, path, text)
	p.signal(syscall.SIGHUP)
	if line := p.await(`msg="configuration reloaded"`); after(line, "changed") != "nothing" || after(line, "generation") != "2" {
		t.Errorf("it says %s", line)
	}
	replace(t, path, strings.Replace(text, `"demo" }]`, `"other" }]`, 1))
	if line := p.await(`msg="configuration reloaded"`); after(line, "models_changed") != "demo" || after(line, "generation") != "3" {
		t.Errorf("it says %s", line)
	}
}

// TestF80_ARenewedCertificate is shown to new connections, also where the configuration is broken meanwhile; connections
// that are open go on.
func TestF80_ARenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	old, next, last := proxytest.GoodPair(t), proxytest.GoodPair(t), proxytest.GoodPair(t)
	cert, key := old.Write(t, dir)
	path := configured(t, demoConfig(fmt.Sprintf("tls = { cert = %q, key = %q }", cert, key), testKey))
	p := start(t, dir, nil, "serve", "--quiet", "--config", path)
	_, address, _ := strings.Cut(p.ready(), "://")
	connect := func(pair *proxytest.Pair) *tls.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pair.Roots})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ask := func(c *tls.Conn) {
		t.Helper()
		fmt.Fprintf(c, "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", testKey)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body := readAll(t, resp); resp.StatusCode != 200 {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	before := connect(old)
	ask(before)
	next.Write(t, dir)
	p.await(`msg="configuration reloaded"`)
	ask(connect(next))
	ask(before)
	write(t, path, []byte("broken"))
	p.await("configuration not reloaded")
	last.Write(t, dir)
	p.await("configuration not reloaded")
	ask(connect(last))
	ask(before)
}

// site is a folder with a configuration that uses a plugin from a file.
type site struct {
	dir, config string
	module      []byte
}

func newSite(t *testing.T) *site {
	t.Helper()
	module := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/keeper")
	s := &site{dir: t.TempDir(), module: module}
	s.config = demoConfig(`log_format = "json"`, testKey) + fmt.Sprintf(`
[plugins.mine]
file   = "mine.wasm"
sha256 = "%x"
[providers.mine]
plugin = "mine"
paths  = ["/x"]
base_url = "https://up.example"
[router]
plugin   = "router"
strategy = "weighted"
`, sha256.Sum256(module))
	s.repair(t)
	return s
}

func (s *site) at(name string) string { return filepath.Join(s.dir, name) }

// repair makes everything as it was.
func (s *site) repair(t *testing.T) {
	t.Helper()
	replace(t, s.at("mine.wasm"), string(s.module))
	replace(t, s.at("gateway.toml"), s.config)
}

// rewrite changes the configuration.
func (s *site) rewrite(t *testing.T, old, new string) {
	t.Helper()
	if !strings.Contains(s.config, old) {
		t.Fatalf("there is no %q", old)
	}
	replace(t, s.at("gateway.toml"), strings.Replace(s.config, old, new, 1))
}

// broken are ways to make a configuration unusable, and a part of what is then said.
var broken = []struct {
	name  string
	spoil func(t *testing.T, s *site)
	says  string
}{
	{"syntax", func(t *testing.T, s *site) { s.rewrite(t, "secret = ", "secret == ") }, "gateway.toml:10:9: "},
	{"unknown member", func(t *testing.T, s *site) { s.rewrite(t, "[admin]", "max_con = 1\n[admin]") }, `gateway.toml:5:1: server.max_con: unknown member, did you mean "max_conns"?`},
	{"two errors", func(t *testing.T, s *site) { s.rewrite(t, "[admin]", "max_con = 1\nheartbeat = \"soon\"\n[admin]") }, "gateway.toml:6:13: server.heartbeat: "},
	{"missing variable", func(t *testing.T, s *site) { s.rewrite(t, testKey, "${NOT_THERE}") }, "gateway.toml:10:11: keys[0].secret: NOT_THERE is not set"},
	{"another module than configured", func(t *testing.T, s *site) { replace(t, s.at("mine.wasm"), "another") }, "plugins.mine: plugin mine: the SHA-256 of "},
	{"no module", func(t *testing.T, s *site) {
		replace(t, s.at("mine.wasm"), "no module")
		s.rewrite(t, fmt.Sprintf("%x", sha256.Sum256(s.module)), fmt.Sprintf("%x", sha256.Sum256([]byte("no module"))))
	}, "plugin mine: "},
	{"a setting that a plugin refuses", func(t *testing.T, s *site) { s.rewrite(t, "weighted", "by whim") }, ": router: plugin router: "},
	{"the configuration gone", func(t *testing.T, s *site) { s.remove(t, "gateway.toml") }, "gateway.toml does not exist"},
	{"the module gone", func(t *testing.T, s *site) { s.remove(t, "mine.wasm") }, "plugins.mine: plugin mine: open "},
}

func (s *site) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(s.at(name)); err != nil {
		t.Fatal(err)
	}
}

// record reads lines until one has this message, and returns what it says.
func record(p *process, msg string) map[string]any {
	p.t.Helper()
	var r map[string]any
	if err := json.Unmarshal([]byte(p.await(fmt.Sprintf(`"msg":%q`, msg))), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// forLog is what check adds for a person.
var forLog = regexp.MustCompile(`(?m)^sluice: |^\d+ errors?\n|^Load(ing|ed) plugins? .*\n`)

// TestF81_F82_ABrokenConfiguration breaks a gateway's configuration in one way after the other. The gateway serves on,
// says in the log what check says of the same files, byte for byte, and takes the repaired one.
func TestF81_F82_ABrokenConfiguration(t *testing.T) {
	for _, trigger := range triggers {
		t.Run(trigger.name, func(t *testing.T) {
			s := newSite(t)
			p := start(t, s.dir, nil, append([]string{"serve", "--quiet"}, trigger.args...)...)
			base := "http://" + record(p, "listening")["address"].(string)
			admin := "http://" + record(p, "health, metrics and status")["address"].(string)
			client := newClient(t)
			served := func(when string) {
				t.Helper()
				if status, body, err := whole(t, client, base, testKey, hello); status != 200 {
					t.Errorf("%s: %d %v %s", when, status, err, body)
				}
			}
			for _, b := range broken {
				t.Run(b.name, func(t *testing.T) {
					p.t = t
					b.spoil(t, s)
					checked := run(t, binary(t, true), s.dir, nil, []string{"check"})
					if checked.exit != 3 || !strings.Contains(checked.stderr, b.says) {
						t.Fatalf("check: exit %d, %s\nwant %s", checked.exit, checked.stderr, b.says)
					}
					trigger.pull(p)
					want, got := forLog.ReplaceAllString(checked.stderr, ""), ""
					for len(got) < len(want) {
						got += record(p, "configuration not reloaded, the old one counts")["error"].(string) + "\n"
					}
					if got != want {
						t.Errorf("the log says\n%s\nand check\n%s", got, want)
					}
					eventually(t, "the metric says so", func() bool { return metric(t, admin, "sluice_config_reload_success") == 0 })
					if n := metric(t, admin, "sluice_config_generations_open"); n != 1 {
						t.Errorf("%g generations are open", n)
					}
					served("while it is broken")
					s.repair(t)
					trigger.pull(p)
					record(p, "configuration reloaded")
					if n := metric(t, admin, "sluice_config_reload_success"); n != 1 {
						t.Errorf("the metric is %g after the repair", n)
					}
					served("after the repair")
				})
			}
			p.t = t
			p.signal(syscall.SIGTERM)
			if exit := p.wait(); exit != 0 {
				t.Errorf("exit %d", exit)
			}
		})
	}
}

// TestF81_AnEmptyFile is what a file is for a moment that is being written. check warns of it; a gateway that serves does
// not take it, for it would open it to everybody.
func TestF81_AnEmptyFile(t *testing.T) {
	text := demoConfig("", testKey)
	path := configured(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	base := p.ready()
	write(t, path, nil)
	if line := p.await(`msg="configuration not reloaded, the old one counts"`); after(line, "error") != errEmpty.Error() {
		t.Errorf("it says %s", line)
	}
	if status, body, err := whole(t, newClient(t), base, "", hello); status != 401 {
		t.Errorf("without a key: %d %v %s", status, err, body)
	}
	write(t, path, []byte(text))
	p.await(`msg="configuration reloaded"`)
}

// TestF81_WhatTakesARestart: the listeners stay where they are, also where the new address is in use, and the rest of the
// configuration counts.
func TestF81_WhatTakesARestart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	text := demoConfig("", testKey)
	path := configured(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	base := p.ready()
	next := strings.Replace(text, "[server]\nlisten = \"127.0.0.1:0\"", fmt.Sprintf("[server]\nlisten = %q\nlog_format = \"json\"\nmax_body = \"2KiB\"", ln.Addr()), 1)
	replace(t, path, next)
	if line := p.await(`msg="configuration reloaded"`); after(line, "changed") != "server.listen, server.max_body, server.log_format" {
		t.Errorf("it says %s", line)
	}
	for _, member := range []string{"server.listen", "server.log_format"} {
		if line := p.await("takes a restart"); after(line, "member") != member {
			t.Errorf("it says %s, want %s", line, member)
		}
	}
	large := strings.Replace(hello, "Hello", strings.Repeat("x", 4000), 1)
	if status, body, err := whole(t, newClient(t), base, testKey, large); status != 413 || !strings.Contains(body, "2048 bytes") {
		t.Errorf("max_body: %d %v %s", status, err, body)
	}
}

// TestF81_AnotherAddressOpensNothing: without keys a gateway is open to this machine only. That the file speaks of such an
// address does not make it so.
func TestF81_AnotherAddressOpensNothing(t *testing.T) {
	text := strings.Replace(demoConfig("", testKey), "[server]\nlisten = \"127.0.0.1:0\"", "[server]\nlisten = \"0.0.0.0:0\"", 1)
	path := configured(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.ready(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	open := strings.Replace(text, "0.0.0.0:0", "127.0.0.1:0", 1)
	open = strings.Replace(open, fmt.Sprintf("[[keys]]\nname   = \"tests\"\nsecret = %q", testKey), "", 1)
	replace(t, path, open)
	if line := p.await(`msg="configuration not reloaded, the old one counts"`); !strings.Contains(line, "0.0.0.0:0") || !strings.Contains(line, "open to everybody") {
		t.Errorf("it says %s", line)
	}
	if status, body, err := whole(t, newClient(t), "http://127.0.0.1:"+port, "", hello); status != 401 {
		t.Errorf("without a key: %d %v %s", status, err, body)
	}
}

// TestF83_AStormOfSignals: a hundred of them while streams and whole answers come and go. All answers are whole, and in the
// end there is one generation, and not a descriptor more than before.
func TestF83_AStormOfSignals(t *testing.T) {
	text := demoConfig("", testKey)
	path := configured(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--quiet", "--config", path)
	base, admin := p.both()
	client := newClient(t)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var answers atomic.Int64
	load := func(body, end string) {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, got, err := whole(t, client, base, testKey, body); status != 200 || !strings.HasSuffix(strings.TrimSpace(got), end) {
					t.Errorf("%d %v %s", status, err, got)
					return
				}
				answers.Add(1)
			}
		})
	}
	streamed := strings.Replace(hello, "{", `{"stream":true,`, 1)
	for range 2 {
		load(hello, "}")
		load(streamed, "data: [DONE]")
	}
	eventually(t, "the clients are served", func() bool { return answers.Load() > 20 })
	before := descriptors(t, p.cmd.Process.Pid)
	const signals = 100
	for n := range signals {
		if n%2 == 0 {
			replace(t, path, strings.Replace(text, testKey, fmt.Sprintf("%s\"\n[[keys]]\nname = \"k%d\"\nsecret = \"sk-k%d-0123456789", testKey, n, n), 1))
		}
		p.signal(syscall.SIGHUP)
		if n%4 == 3 {
			p.await(`msg="configuration reloaded"`)
		}
	}
	seen := answers.Load()
	eventually(t, "the clients are served on", func() bool { return answers.Load() > seen+20 })
	close(stop)
	clients.Wait()
	client.CloseIdleConnections()
	eventually(t, "the last configuration counts", func() bool {
		status, _, _ := whole(t, client, base, "sk-k98-0123456789", hello)
		return status == 200
	})
	eventually(t, "one generation is left", func() bool { return metric(t, admin, "sluice_config_generations_open") == 1 })
	client.CloseIdleConnections()
	eventually(t, "no descriptor is left", func() bool { return descriptors(t, p.cmd.Process.Pid) <= before })
	if n := metric(t, admin, `sluice_config_reloads_total{result="failure"}`); n != 0 {
		t.Errorf("%g reloads failed", n)
	}
	t.Logf("%d answers during %g reloads", answers.Load(), metric(t, admin, `sluice_config_reloads_total{result="success"}`))
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}
