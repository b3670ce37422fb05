package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// defaultConfigPath returns the absolute path of the repository's gateway.toml.
func defaultConfigPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../gateway.toml")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// do sends a request on a new connection.
func do(t *testing.T, method, url, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		req.Header.Set(name, strings.TrimSpace(value))
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// splitShell splits a command line as a shell does, with quotes, variables in double quotes, and continued lines.
func splitShell(t *testing.T, line string, variables map[string]string) []string {
	t.Helper()
	var out []string
	var word strings.Builder
	in, quote := false, rune(0)
	for _, c := range strings.ReplaceAll(line, "\\\n", "") + "\n" {
		switch {
		case quote != 0 && c == quote:
			text := word.String()
			if quote == '"' {
				text = os.Expand(text, func(name string) string { return variables[name] })
				word.Reset()
				word.WriteString(text)
			}
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			in, quote = true, c
		case c == ' ' || c == '\n':
			if in {
				out = append(out, word.String())
			}
			word.Reset()
			in = false
		default:
			in = true
			word.WriteRune(c)
		}
	}
	if quote != 0 {
		t.Fatalf("unbalanced quote in %s", line)
	}
	return out
}

// TestBannerCommand runs the command line that the banner shows.
func TestBannerCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		vars   []string
		config string            // instead of the default configuration
		note   string            // expected after "Try it"
		shell  map[string]string // variables of the shell that runs the command
	}{
		{"default configuration", nil, "", "", nil},
		{"key in the environment", []string{"SLUICE_KEY=sk-mine-0123456789abcdef"}, "", "", map[string]string{"SLUICE_KEY": "sk-mine-0123456789abcdef"}},
		{"unknown key", nil, `
[[keys]]
name     = "old"
secret   = "sk-local"
disabled = true
[[keys]]
name   = "other"
secret = "sk-other-0123456789abcdef"
[providers.demo]
plugin = "demo"
[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`, ", with one of your keys in SLUICE_KEY", map[string]string{"SLUICE_KEY": "sk-other-0123456789abcdef"}},
		{"no keys", nil, `
[providers.demo]
plugin = "demo"
[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.config+strings.Join(c.vars, "") != "" {
				t.Skip("one process is enough; TestBanner covers the banner's text")
			}
			dir, path := t.TempDir(), defaultConfigPath(t)
			if c.config != "" {
				path = filepath.Join(dir, "gateway.toml")
				write(t, path, []byte(c.config))
			}
			p := start(t, dir, c.vars, "serve", "--config", path, "--listen", "127.0.0.1:0")
			p.await("Try it" + c.note + ":")
			line := p.await("curl")
			for strings.HasSuffix(line, `\`) {
				line += "\n" + p.await("")
			}
			for _, key := range []string{"mine-0123", "other-0123"} {
				if strings.Contains(line, key) {
					t.Errorf("the banner shows a secret: %s", line)
				}
			}
			args := splitShell(t, line, c.shell)
			var url, body string
			var headers []string
			for i := 1; i < len(args); i++ {
				switch args[i] {
				case "-N":
				case "-H":
					i++
					headers = append(headers, args[i])
				case "-d":
					i++
					body = args[i]
				default:
					url = args[i]
				}
			}
			resp := do(t, "POST", url, body, headers...)
			text := readAll(t, resp)
			if resp.StatusCode != 200 || !strings.HasSuffix(text, "data: [DONE]\n\n") || !strings.Contains(text, `"content":`) {
				t.Errorf("%s\nreturns %d %s", line, resp.StatusCode, text)
			}
			base := p.ready()
			if !strings.HasPrefix(url, base+"/v1/") {
				t.Errorf("the banner shows %s, the gateway listens on %s", url, base)
			}
			p.signal(syscall.SIGTERM)
			if exit := p.wait(); exit != 0 {
				t.Errorf("exit %d", exit)
			}
		})
	}
}

func TestBannerListsModelsAndProviders(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), []string{"OPENAI_API_KEY=sk-canary", "OPENAI_BASE_URL=http://127.0.0.1:1/v1"}, "serve", "--config", defaultConfigPath(t), "--listen", "127.0.0.1:0")
	base := p.ready()
	banner := strings.Join(p.seen, "\n")
	for _, want := range []string{
		"Sluice v1.2.3 serves " + base + "/v1, ready after ", "  demo ", "demo/demo-a, demo/demo-b", "openai/gpt-5.4-mini", "demo/demo (fallback)",
		"and the models that openai lists", "anthropic: ANTHROPIC_API_KEY is not set", "ollama: OLLAMA_BASE_URL is not set",
	} {
		if !strings.Contains(banner, want) {
			t.Errorf("the banner lacks %q:\n%s", want, banner)
		}
	}
	for _, bad := range []string{"sk-canary", "openai: ", "claude-"} {
		if strings.Contains(banner, bad) {
			t.Errorf("the banner contains %q:\n%s", bad, banner)
		}
	}
	p.signal(os.Interrupt)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

func TestQuietPrintsOnlyTheLog(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), nil, "serve", "-q", "--config", defaultConfigPath(t), "--listen", "127.0.0.1:0")
	p.ready()
	p.signal(syscall.SIGTERM)
	exit := p.wait()
	for _, line := range p.seen {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("unexpected line %q", line)
		}
	}
	if exit != 0 {
		t.Errorf("exit %d", exit)
	}
}

// TestPortInUse checks that the error is reported before plugins are compiled.
//
// covers: F88
func TestPortInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	address, fresh := ln.Addr().String(), filepath.Join(t.TempDir(), "cache")
	got := run(t, buildSluice(t, true), t.TempDir(), nil, []string{"serve", "--config", defaultConfigPath(t), "--listen", address, "--cache", fresh})
	want := result{1, "", "sluice: " + address + " is in use, perhaps by another sluice; stop it or choose another address with --listen\n"}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("the cache was opened: %v", err)
	}
}

// TestRestartAfterKill kills a process when it opens its cache, while it writes compiled plugins to it, and while it
// serves. Each time, the next process starts and no incomplete files are left, even if the machine crashed as well and
// the end of a file was lost.
//
// covers: F79
func TestRestartAfterKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the plugins five times")
	}
	fresh := filepath.Join(t.TempDir(), "cache")
	args := []string{"serve", "--config", writeConfig(t, demoConfig("", testKey)), "--cache", fresh}
	for _, moment := range []string{fresh, filepath.Join(fresh, "new-*"), filepath.Join(fresh, "new-*", "*")} {
		p := start(t, t.TempDir(), nil, args...)
		awaitPath(t, p, moment)
		p.signal(syscall.SIGKILL)
		if exit := p.wait(); exit != -1 {
			t.Errorf("killed at %s: exit %d", moment, exit)
		}
	}
	for _, damage := range []func(string) error{nil, func(file string) error { return os.Truncate(file, 1000) }, nil} {
		if damage != nil {
			files, err := filepath.Glob(filepath.Join(fresh, "[0-9a-f]*", "*"))
			if err != nil || len(files) == 0 {
				t.Fatalf("the cache has %d files, %v", len(files), err)
			}
			for _, file := range files {
				if info, err := os.Stat(file); err != nil || info.Mode().IsRegular() && damage(file) != nil {
					t.Fatal(file, err)
				}
			}
		}
		p := start(t, t.TempDir(), nil, args...)
		base := p.ready()
		if status, body, err := complete(t, newClient(t), base, testKey, hello); status != 200 {
			t.Errorf("%d %v %s", status, err, body)
		}
		p.signal(syscall.SIGKILL)
		p.wait()
	}
}

const hello = `{"model":"demo","messages":[{"role":"user","content":"Hello"}]}`

// awaitPath waits until a path matches the pattern. It also returns when the gateway serves, because a slow test may
// miss a path that exists only for a short time.
func awaitPath(t *testing.T, p *process, pattern string) {
	t.Helper()
	eventually(t, pattern+" exists", func() bool {
		for {
			select {
			case line, ok := <-p.lines:
				if !ok {
					t.Fatalf("the process ended:\n%s", strings.Join(p.seen, "\n"))
				}
				if p.seen = append(p.seen, line); strings.Contains(line, "msg=listening") {
					return true
				}
				continue
			default:
			}
			break
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(found) > 0
	})
}

// startWithStream starts a gateway whose provider sends one event and then waits for proceed, and opens a stream that
// has received that event.
func startWithStream(t *testing.T, shutdownTimeout string, proceed <-chan struct{}) (p *process, stream *bufio.Reader) {
	t.Helper()
	const event = "data: {\"id\":\"up\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n"
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"Hel"}`)),
		upstreamtest.Wait(proceed),
		upstreamtest.Chunk(fmt.Sprintf(event, `{"content":"lo"},"finish_reason":"stop"`), "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "gateway.toml"), fmt.Appendf(nil, `
[server]
shutdown_timeout = %q
heartbeat        = "100ms"
[providers.up]
plugin   = "openai"
base_url = %q
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, shutdownTimeout, provider.URL()))
	p = start(t, dir, nil, "serve", "--listen", "127.0.0.1:0")
	base := p.ready()
	resp := do(t, "POST", base+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`, "Content-Type: application/json")
	stream = bufio.NewReader(resp.Body)
	for {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ends with %v", err)
		}
		if strings.Contains(line, `"Hel"`) {
			return p, stream
		}
	}
}

// covers: F77
func TestFirstSignalLetsStreamsFinish(t *testing.T) {
	t.Parallel()
	signals := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if testing.Short() {
		signals = signals[:1]
	}
	for _, sig := range signals {
		t.Run(sig.String(), func(t *testing.T) {
			proceed := make(chan struct{})
			p, stream := startWithStream(t, "1m", proceed)
			p.signal(sig)
			p.await(`msg="shutting down"`)
			close(proceed)
			rest, err := io.ReadAll(stream)
			if err != nil || !strings.Contains(string(rest), `"lo"`) || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
				t.Errorf("%v: the stream ends with %q", err, rest)
			}
			if exit := p.wait(); exit != 0 {
				t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
			}
		})
	}
}

// covers: F77
func TestShutdownDeadlineEndsStreamsWithError(t *testing.T) {
	t.Parallel()
	p, stream := startWithStream(t, "50ms", nil)
	p.signal(syscall.SIGTERM)
	wantCut(t, stream)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d:\n%s", exit, strings.Join(p.seen, "\n"))
	}
}

// covers: F78
func TestSecondSignalCutsStreams(t *testing.T) {
	t.Parallel()
	p, stream := startWithStream(t, "1h", nil)
	p.signal(syscall.SIGTERM)
	p.await(`msg="shutting down"`)
	p.signal(syscall.SIGTERM)
	wantCut(t, stream)
	exit := p.wait()
	if output := strings.Join(p.seen, "\n"); exit != 1 || !strings.HasSuffix(output, "sluice: a second signal cut off requests in flight") {
		t.Errorf("exit %d:\n%s", exit, output)
	}
}

// wantCut reads the rest of a stream, which must end with an error and not look complete.
func wantCut(t *testing.T, stream *bufio.Reader) {
	t.Helper()
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.Contains(string(rest), `"code":"gateway_shutdown"`) || strings.Contains(string(rest), "[DONE]") || strings.Contains(string(rest), `"finish_reason":"`) {
		t.Errorf("%v: the stream ends with %q", err, rest)
	}
}

// TestLogReaderStops stops reading standard error, or closes it. Requests must still be served, and lost lines counted.
// Standard output is not used.
//
// covers: F85
func TestLogReaderStops(t *testing.T) {
	if testing.Short() {
		t.Skip("sends requests until a megabyte of log lines is buffered, twice")
	}
	for name, closed := range map[string]bool{"stops reading": false, "closes the pipe": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := exec.Command(buildSluice(t, true), "serve", "-q", "--config", writeConfig(t, demoConfig("", testKey)))
			cmd.Env, cmd.Stderr = environment(), w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer cmd.Process.Kill()
			lines := bufio.NewReaderSize(r, 16)
			await := func(text string) string {
				t.Helper()
				for {
					s, err := lines.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(s, text) {
						return strings.TrimSpace(s)
					}
				}
			}
			base := "http://" + logAttr(await("msg=listening"), "address")
			admin := "http://" + logAttr(await(`msg="serving health, metrics and status"`), "address")
			if closed {
				r.Close()
			}
			client := newClient(t)
			fillLog(t, client, base, admin)
			listModels(t, client, base)
			if !closed {
				// When reading resumes, the buffered lines arrive, followed by the number of dropped lines.
				await("msg=request")
				rest := make(chan string, 1)
				go func() {
					text, _ := io.ReadAll(lines)
					rest <- string(text)
				}()
				lost := metric(t, admin, "sluice_log_lines_dropped_total")
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				var logged string
				for l := range strings.Lines(<-rest) {
					if strings.Contains(l, "log lines dropped") {
						logged = logAttr(strings.TrimSpace(l), "lines")
					}
				}
				if n, err := strconv.ParseFloat(logged, 64); err != nil || n < lost {
					t.Errorf("the log reports %q dropped lines, want at least the metric's %g", logged, lost)
				}
			} else if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if exit := processExit(t, err); exit != 0 {
					t.Errorf("exit %d", exit)
				}
			case <-time.After(waitTimeout):
				t.Error("timed out waiting for the process to end")
			}
		})
	}
}

// listModels sends a request that produces a long log line.
func listModels(t *testing.T, client *http.Client, base string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", strings.Repeat("x", 128))
	req.Header.Set("Authorization", "Bearer "+testKey)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body := readAll(t, resp); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
}

// fillLog sends requests until a log line is dropped.
func fillLog(t *testing.T, client *http.Client, base, admin string) {
	t.Helper()
	for metric(t, admin, "sluice_log_lines_dropped_total") == 0 {
		for range 200 {
			listModels(t, client, base)
		}
	}
}

// TestJSONLogIsJSONFromTheFirstLine checks that all output is JSON, of a gateway that compiles plugins, has a provider
// that is off and would print a banner otherwise, and of one that fails to start.
func TestJSONLogIsJSONFromTheFirstLine(t *testing.T) {
	t.Parallel()
	config := demoConfig(`log_format = "json"`, testKey) + "[providers.idle]\nplugin = \"openai\"\nbase_url = \"https://idle.example\"\nenabled = false\n"
	for _, c := range []struct{ name, config, want string }{
		{"serves", config, `"msg":"provider is off","provider":"idle","reason":`},
		{"address in use", strings.Replace(config, "listen = \"127.0.0.1:0\"", fmt.Sprintf("listen = %q", occupied(t)), 1), `"msg":"exiting","error":"127.0.0.1:`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(buildSluice(t, true), "serve", "--config", writeConfig(t, c.config))
			if cmd.Env = environment(); !testing.Short() {
				cmd.Env = environment("SLUICE_CACHE=" + t.TempDir()) // compiling takes seconds, so progress is reported
			}
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			all := ""
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				line := lines.Text()
				all += line + "\n"
				var fields struct{ Time, Level, Msg string }
				if err := json.Unmarshal([]byte(line), &fields); err != nil || fields.Time == "" || fields.Level == "" || fields.Msg == "" {
					t.Errorf("invalid line: %q", line)
				}
				if fields.Msg == "serving health, metrics and status" {
					if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
						t.Error(err)
					}
				}
			}
			_ = cmd.Wait() // other tests check the exit code
			if !strings.Contains(all, c.want) {
				t.Errorf("the log lacks %s:\n%s", c.want, all)
			}
		})
	}
}

// occupied returns an address that is in use by another listener.
func occupied(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}
