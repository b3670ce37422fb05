package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// The tests run the compiled binary. testdata/*.txt contains command lines with their output and exit code.

// waitTimeout limits every wait for an event. It is long because it only expires when a test fails.
const waitTimeout = 2 * time.Minute

// homeDir is the home directory of all processes.
var homeDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-")
	if err != nil {
		panic(err)
	}
	homeDir = dir
	code := m.Run()
	if code == 0 {
		// These goroutines of fasthttp end some time after their server has stopped, or never, because the date is
		// process-wide.
		if err := goleak.Find(
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
			goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// buildSluice builds the binary once, with or without bundled plugins. It skips the test under -short, because starting
// a process takes too long.
func buildSluice(t *testing.T, withPlugins bool) string {
	t.Helper()
	if testing.Short() && t.Name() != "TestBannerCommand" {
		t.Skip("starts the gateway's process")
	}
	return proxytest.Binary(t, proxytest.BinaryOptions{Bare: !withPlugins})
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// cacheDir returns a cache that all processes share, even across test runs, so that each plugin is compiled once.
func cacheDir() string { return proxytest.CacheDir() }

// environment returns the whole environment of a process.
func environment(vars ...string) []string {
	return append([]string{"SLUICE_CACHE=" + cacheDir(), "HOME=" + homeDir}, vars...)
}

// result is how a process ended.
type result struct {
	exit           int // -1 if killed by a signal
	stdout, stderr string
}

// run runs a command line in dir and waits for its end.
func run(t *testing.T, path, dir string, vars, args []string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, environment(vars...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return result{processExit(t, cmd.Run()), stdout.String(), stderr.String()}
}

func processExit(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return 0
}

// process is a running gateway.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of standard error; closed at its end
	seen  []string
	end   chan error
}

// start starts a gateway and reads its standard error line by line. The test's cleanup kills it.
func start(t *testing.T, dir string, vars []string, args ...string) *process {
	t.Helper()
	return launch(t, exec.Command(buildSluice(t, true), args...), dir, vars)
}

// launch is like start, for a command that executes a gateway.
func launch(t *testing.T, cmd *exec.Cmd, dir string, vars []string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, lines: make(chan string, 4096), end: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Env = dir, environment(vars...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	go func() {
		<-read
		p.end <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-read
	})
	return p
}

// await reads lines until one contains text, and returns it.
func (p *process) await(text string) string {
	p.t.Helper()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the process ended without a line that contains %q:\n%s", text, strings.Join(p.seen, "\n"))
			}
			if p.seen = append(p.seen, line); strings.Contains(line, text) {
				return line
			}
		case <-timer.C:
			p.t.Fatalf("timed out waiting for a line that contains %q:\n%s", text, strings.Join(p.seen, "\n"))
		}
	}
}

// ready waits until the gateway serves and returns its base URL.
func (p *process) ready() string {
	p.t.Helper()
	line := p.await("msg=listening")
	_, rest, _ := strings.Cut(line, "address=")
	address, _, _ := strings.Cut(rest, " ")
	return "http://" + address
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the process to end and returns the exit code, -1 if it was killed by a signal.
func (p *process) wait() int {
	p.t.Helper()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	end := (chan error)(nil) // set once all lines are read
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				p.seen = append(p.seen, line)
				continue
			}
			p.lines, end = nil, p.end
		case err := <-end:
			return processExit(p.t, err)
		case <-timer.C:
			p.t.Fatalf("timed out waiting for the process to end:\n%s", strings.Join(p.seen, "\n"))
		}
	}
}
