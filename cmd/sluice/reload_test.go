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
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// triggers are the ways to trigger a reload.
var triggers = []struct {
	name string
	args []string // arguments of serve
	fire func(p *process)
}{
	{"SIGHUP", []string{"--watch=false"}, func(p *process) { p.signal(syscall.SIGHUP) }},
	{"watched", nil, func(*process) {}},
}

// covers: F80 F134
func TestReloadChangesKey(t *testing.T) {
	t.Parallel()
	for _, trigger := range triggers {
		t.Run(trigger.name, func(t *testing.T) {
			if testing.Short() && trigger.args != nil {
				t.Skip("TestReloadCommand has a reload by SIGHUP")
			}
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
			path := writeConfig(t, text)
			p := start(t, t.TempDir(), nil, append([]string{"serve", "--config", path}, trigger.args...)...)
			base, admin := p.addresses()
			client := newClient(t)
			running, err := openStream(t, client, base, "sk-old-0123456789", `"Hel"`)
			if err != nil {
				t.Fatal(err)
			}
			replaceFile(t, path, strings.Replace(text, "sk-old", "sk-new", 1))
			trigger.fire(p)
			line := p.await(`msg="configuration reloaded"`)
			if logAttr(line, "keys_changed") != "tests" || logAttr(line, "generation") != "2" || logAttr(line, "duration_ms") == "" || strings.Contains(line, "models") || strings.Contains(line, "sk-") {
				t.Errorf("unexpected line: %s", line)
			}
			if status, body, err := complete(t, client, base, "sk-old-0123456789", hello); status != 401 {
				t.Errorf("old key: %d %v %s", status, err, body)
			}
			if status, body, err := complete(t, client, base, "sk-new-0123456789", hello); status != 200 {
				t.Errorf("new key: %d %v %s", status, err, body)
			}
			if n := metric(t, admin, "sluice_config_generations_open"); n != 2 {
				t.Errorf("%g generations are open during the stream, want 2", n)
			}
			close(proceed)
			if rest, err := running.rest(); err != nil || !finished(rest) {
				t.Errorf("the stream ends with %v: %q", err, rest)
			}
			eventually(t, "the old generation is closed", func() bool { return metric(t, admin, "sluice_config_generations_open") == 1 })
			if n := metric(t, admin, "sluice_config_generation"); n != 2 {
				t.Errorf("generation %g, want 2", n)
			}
		})
	}
}

// TestRewrittenFileWithoutChanges replaces the configuration with an identical file, which must not cause a reload,
// unlike SIGHUP.
//
// covers: F80
func TestRewrittenFileWithoutChanges(t *testing.T) {
	t.Parallel()
	text := demoConfig("", testKey)
	path := writeConfig(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	p.ready()
	replaceFile(t, path, text)
	p.signal(syscall.SIGHUP)
	if line := p.await(`msg="configuration reloaded"`); logAttr(line, "changed") != "nothing" || logAttr(line, "generation") != "2" {
		t.Errorf("unexpected line: %s", line)
	}
	replaceFile(t, path, strings.Replace(text, `"demo" }]`, `"other" }]`, 1))
	if line := p.await(`msg="configuration reloaded"`); logAttr(line, "models_changed") != "demo" || logAttr(line, "generation") != "3" {
		t.Errorf("unexpected line: %s", line)
	}
}

// TestReloadRenewsCertificate checks that new connections get the new certificate, even while the configuration is
// invalid, and that open connections are not affected.
//
// covers: F80
func TestReloadRenewsCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, next, last := certtest.Valid(t), certtest.Valid(t), certtest.Valid(t)
	cert, key := old.Write(t, dir)
	path := writeConfig(t, demoConfig(fmt.Sprintf("tls = { cert = %q, key = %q }", cert, key), testKey))
	p := start(t, dir, nil, "serve", "--quiet", "--config", path)
	_, address, _ := strings.Cut(p.ready(), "://")
	connect := func(pair *certtest.Pair) *tls.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pair.Roots})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	request := func(c *tls.Conn) {
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
	request(before)
	next.Write(t, dir)
	p.await(`msg="configuration reloaded"`)
	request(connect(next))
	request(before)
	write(t, path, []byte("broken"))
	p.await("reload failed")
	last.Write(t, dir)
	p.await("reload failed")
	request(connect(last))
	request(before)
}

// installation is a directory with a configuration that loads a plugin from a file.
type installation struct {
	dir, config string
	module      []byte
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	module := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/keeper")
	s := &installation{dir: t.TempDir(), module: module}
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

func (s *installation) path(name string) string { return filepath.Join(s.dir, name) }

// repair restores all files.
func (s *installation) repair(t *testing.T) {
	t.Helper()
	replaceFile(t, s.path("mine.wasm"), string(s.module))
	replaceFile(t, s.path("gateway.toml"), s.config)
}

// edit replaces text in the configuration file.
func (s *installation) edit(t *testing.T, old, new string) {
	t.Helper()
	if !strings.Contains(s.config, old) {
		t.Fatalf("the configuration lacks %q", old)
	}
	replaceFile(t, s.path("gateway.toml"), strings.Replace(s.config, old, new, 1))
}

// breakages are ways to make a configuration invalid, each with part of the expected error.
var breakages = []struct {
	name   string
	damage func(t *testing.T, s *installation)
	error  string
}{
	{"syntax", func(t *testing.T, s *installation) { s.edit(t, "secret = ", "secret == ") }, "gateway.toml:10:9: "},
	{"unknown key", func(t *testing.T, s *installation) { s.edit(t, "[admin]", "max_con = 1\n[admin]") }, `gateway.toml:5:1: server.max_con: unknown key, did you mean "max_conns"?`},
	{"two errors", func(t *testing.T, s *installation) {
		s.edit(t, "[admin]", "max_con = 1\nheartbeat = \"soon\"\n[admin]")
	}, "gateway.toml:6:13: server.heartbeat: "},
	{"missing variable", func(t *testing.T, s *installation) { s.edit(t, testKey, "${NOT_THERE}") }, "gateway.toml:10:11: keys[0].secret: NOT_THERE is not set"},
	{"wrong SHA-256", func(t *testing.T, s *installation) {
		replaceFile(t, s.path("mine.wasm"), string(s.module)+"\x00\x01\x00")
	}, "plugins.mine"},
	{"not a module", func(t *testing.T, s *installation) {
		replaceFile(t, s.path("mine.wasm"), "no module")
		s.edit(t, fmt.Sprintf("%x", sha256.Sum256(s.module)), fmt.Sprintf("%x", sha256.Sum256([]byte("no module"))))
	}, "plugin mine: "},
	{"invalid option of the router", func(t *testing.T, s *installation) { s.edit(t, "weighted", "by whim") }, `router.strategy: "by whim" is invalid`},
	{"configuration removed", func(t *testing.T, s *installation) { s.remove(t, "gateway.toml") }, "gateway.toml does not exist"},
	{"module removed", func(t *testing.T, s *installation) { s.remove(t, "mine.wasm") }, "mine.wasm does not exist"},
}

func (s *installation) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(s.path(name)); err != nil {
		t.Fatal(err)
	}
}

// record reads JSON log lines until one has this message, and returns its attributes.
func record(p *process, msg string) map[string]any {
	p.t.Helper()
	var r map[string]any
	if err := json.Unmarshal([]byte(p.await(fmt.Sprintf(`"msg":%q`, msg))), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// checkOnly matches output of `sluice check` that is not in the log.
var checkOnly = regexp.MustCompile(`(?m)^sluice: |^\d+ errors?\n|^Compil(ing|ed) plugins? .*\n`)

// TestReloadOfInvalidConfiguration breaks a gateway's configuration in several ways. The gateway must keep serving, log
// the errors that `sluice check` prints for the same files, and load the repaired configuration.
//
// covers: F81 F82
func TestReloadOfInvalidConfiguration(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("breaks a configuration in every way, twice")
	}
	for _, trigger := range triggers {
		t.Run(trigger.name, func(t *testing.T) {
			s := newInstallation(t)
			p := start(t, s.dir, nil, append([]string{"serve", "--quiet"}, trigger.args...)...)
			base := "http://" + record(p, "listening")["address"].(string)
			admin := "http://" + record(p, "serving health, metrics and status")["address"].(string)
			client := newClient(t)
			served := func(when string) {
				t.Helper()
				if status, body, err := complete(t, client, base, testKey, hello); status != 200 {
					t.Errorf("%s: %d %v %s", when, status, err, body)
				}
			}
			for _, b := range breakages {
				t.Run(b.name, func(t *testing.T) {
					p.t = t
					b.damage(t, s)
					checked := run(t, buildSluice(t, true), s.dir, nil, []string{"check"})
					if checked.exit != 3 || !strings.Contains(checked.stderr, b.error) {
						t.Fatalf("check: exit %d, %s\nwant %s", checked.exit, checked.stderr, b.error)
					}
					trigger.fire(p)
					want, got := checkOnly.ReplaceAllString(checked.stderr, ""), ""
					// A gateway that watches files may load an incomplete change first.
					for !strings.HasSuffix(got, want) {
						got += record(p, "reload failed; keeping the previous configuration")["error"].(string) + "\n"
					}
					eventually(t, "the metric shows the failure", func() bool { return metric(t, admin, "sluice_config_reload_success") == 0 })
					if n := metric(t, admin, "sluice_config_generations_open"); n != 1 {
						t.Errorf("%g generations are open, want 1", n)
					}
					served("while the configuration is invalid")
					s.repair(t)
					trigger.fire(p)
					record(p, "configuration reloaded")
					eventually(t, "the metric shows the repair", func() bool { return metric(t, admin, "sluice_config_reload_success") == 1 })
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

// TestReloadOfEmptyFile truncates the configuration, as editors may do for a moment while saving. A running gateway
// must not load an empty file, because a configuration without keys would admit everyone.
//
// covers: F81
func TestReloadOfEmptyFile(t *testing.T) {
	t.Parallel()
	text := demoConfig("", testKey)
	path := writeConfig(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	base := p.ready()
	write(t, path, nil)
	if line := p.await(`msg="reload failed; keeping the previous configuration"`); logAttr(line, "error") != errEmpty.Error() {
		t.Errorf("unexpected line: %s", line)
	}
	if status, body, err := complete(t, newClient(t), base, "", hello); status != 401 {
		t.Errorf("without a key: %d %v %s", status, err, body)
	}
	write(t, path, []byte(text))
	p.await(`msg="configuration reloaded"`)
}

// TestChangesThatNeedRestart changes the address of the listener, to one that is in use, and the log format. Both must
// stay until a restart, and the rest of the configuration must be loaded.
//
// covers: F81
func TestChangesThatNeedRestart(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	text := demoConfig("", testKey)
	path := writeConfig(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	base := p.ready()
	next := strings.Replace(text, "[server]\nlisten = \"127.0.0.1:0\"", fmt.Sprintf("[server]\nlisten = %q\nlog_format = \"json\"\nmax_body = \"2KiB\"", ln.Addr()), 1)
	replaceFile(t, path, next)
	if line := p.await(`msg="configuration reloaded"`); logAttr(line, "changed") != "server.listen, server.max_body, server.log_format" {
		t.Errorf("unexpected line: %s", line)
	}
	for _, member := range []string{"server.listen", "server.log_format"} {
		if line := p.await("requires a restart"); logAttr(line, "member") != member {
			t.Errorf("got %s, want %s", line, member)
		}
	}
	large := strings.Replace(hello, "Hello", strings.Repeat("x", 4000), 1)
	if status, body, err := complete(t, newClient(t), base, testKey, large); status != 413 || !strings.Contains(body, "2048 bytes") {
		t.Errorf("max_body: %d %v %s", status, err, body)
	}
}

// TestReloadWithoutKeysStaysLocal reloads a configuration without keys and with a loopback address, in a gateway that
// other machines can reach. The reload must fail, because the address would only change at a restart, and until then
// the gateway would be open to everyone.
//
// covers: F81
func TestReloadWithoutKeysStaysLocal(t *testing.T) {
	t.Parallel()
	text := strings.Replace(demoConfig("", testKey), "[server]\nlisten = \"127.0.0.1:0\"", "[server]\nlisten = \"0.0.0.0:0\"", 1)
	path := writeConfig(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--config", path)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.ready(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	open := strings.Replace(text, "0.0.0.0:0", "127.0.0.1:0", 1)
	open = strings.Replace(open, fmt.Sprintf("[[keys]]\nname   = \"tests\"\nsecret = %q", testKey), "", 1)
	replaceFile(t, path, open)
	if line := p.await(`msg="reload failed; keeping the previous configuration"`); !strings.Contains(line, "0.0.0.0:0") || !strings.Contains(line, "open to everyone") {
		t.Errorf("unexpected line: %s", line)
	}
	if status, body, err := complete(t, newClient(t), "http://127.0.0.1:"+port, "", hello); status != 401 {
		t.Errorf("without a key: %d %v %s", status, err, body)
	}
}

// TestManyReloadSignals sends a hundred signals while streams and non-streaming responses are in flight. All responses
// must be complete, and afterwards one generation and no additional descriptor must be open.
//
// covers: F83
func TestManyReloadSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("reloads a hundred times under load")
	}
	text := demoConfig("", testKey)
	path := writeConfig(t, text)
	p := start(t, t.TempDir(), nil, "serve", "--quiet", "--config", path)
	base, admin := p.addresses()
	client := newClient(t)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var responses atomic.Int64
	load := func(body, end string) {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, got, err := complete(t, client, base, testKey, body); status != 200 || !strings.HasSuffix(strings.TrimSpace(got), end) {
					t.Errorf("%d %v %s", status, err, got)
					return
				}
				responses.Add(1)
			}
		})
	}
	streamed := strings.Replace(hello, "{", `{"stream":true,`, 1)
	for range 2 {
		load(hello, "}")
		load(streamed, "data: [DONE]")
	}
	eventually(t, "the clients are served", func() bool { return responses.Load() > 20 })
	before := descriptors(t, p.cmd.Process.Pid)
	const signals = 100
	for n := range signals {
		if n%2 == 0 {
			replaceFile(t, path, strings.Replace(text, testKey, fmt.Sprintf("%s\"\n[[keys]]\nname = \"k%d\"\nsecret = \"sk-k%d-0123456789", testKey, n, n), 1))
		}
		p.signal(syscall.SIGHUP)
		if n%4 == 3 {
			p.await(`msg="configuration reloaded"`)
		}
	}
	seen := responses.Load()
	eventually(t, "the clients are still served", func() bool { return responses.Load() > seen+20 })
	close(stop)
	clients.Wait()
	client.CloseIdleConnections()
	eventually(t, "the last configuration is served", func() bool {
		status, _, _ := complete(t, client, base, "sk-k98-0123456789", hello)
		return status == 200
	})
	eventually(t, "one generation is left", func() bool { return metric(t, admin, "sluice_config_generations_open") == 1 })
	client.CloseIdleConnections()
	eventually(t, "all descriptors are closed", func() bool { return descriptors(t, p.cmd.Process.Pid) <= before })
	if n := metric(t, admin, `sluice_config_reloads_total{result="failure"}`); n != 0 {
		t.Errorf("%g reloads failed", n)
	}
	t.Logf("%d responses during %g reloads", responses.Load(), metric(t, admin, `sluice_config_reloads_total{result="success"}`))
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// TestReloadOfIncludedFiles changes a file that the configuration includes, adds an invalid file that a pattern
// matches, and repairs it.
func TestReloadOfIncludedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(path("region.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path("base.toml"), []byte(demoConfig("", testKey)))
	write(t, path("gateway.toml"), []byte("include = [\"base.toml\", \"region.d/*.toml\"]\n"))
	p := start(t, t.TempDir(), nil, "serve", "--config", path("gateway.toml"))
	p.ready()
	reloaded := func(attr, want string) {
		t.Helper()
		if line := p.await(`msg="configuration reloaded"`); logAttr(line, attr) != want {
			t.Errorf("want %s=%s: %s", attr, want, line)
		}
	}
	replaceFile(t, path("base.toml"), strings.Replace(demoConfig("", testKey), `"demo" }]`, `"other" }]`, 1))
	reloaded("models_changed", "demo")
	const model = "[[models]]\nid = \"eu\"\ntargets = [{ provider = \"demo\" }]\n"
	write(t, path("region.d/eu.toml"), []byte(model))
	reloaded("models_added", "eu")
	replaceFile(t, path("region.d/us.toml"), "[[models]]\nid = \"us\"\n")
	if line := p.await("keeping the previous configuration"); !strings.Contains(line, "region.d/us.toml:1:3: models[2].targets") {
		t.Errorf("unexpected line: %s", line)
	}
	// The gateway also watches a file that has not been part of a valid configuration yet.
	replaceFile(t, path("region.d/us.toml"), strings.Replace(model, "eu", "us", 1))
	reloaded("models_added", "us")
	if err := os.Remove(path("region.d/eu.toml")); err != nil {
		t.Fatal(err)
	}
	reloaded("models_removed", "eu")
}
