package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// The tests are of the binary as it ships. testdata/*.txt says what a command line prints and how it ends; what takes
// signals, sockets or a broken pipe is in serve_test.go.

// built is the folder of the binaries, and of the cache that they share.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-")
	if err != nil {
		panic(err)
	}
	built = dir
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

var builds = struct {
	sync.Mutex
	done map[bool]string
}{done: map[bool]string{}}

// binary builds sluice, with the plugins in it or without, whatever the folder of the built modules holds: an overlay
// takes its place.
func binary(t *testing.T, withPlugins bool) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if path := builds.done[withPlugins]; path != "" {
		return path
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	bundle := filepath.Join(root, "plugins", "bundle")
	modules, err := filepath.Glob(filepath.Join(bundle, "*.wasm*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		replace[m] = "" // as if it were not there
	}
	name := "bare"
	if withPlugins {
		name = "sluice"
		wasm, err := fs.ReadFile(proxytest.Bundled(t), proxytest.Module)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(built, proxytest.Module)
		write(t, file, wasm)
		replace[filepath.Join(bundle, proxytest.Module)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(built, name+".json"), overlay)
	path := filepath.Join(built, name)
	cmd := exec.Command("go", "build", "-overlay", path+".json", "-ldflags", "-X main.version=v1.2.3", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	builds.done[withPlugins] = path
	return path
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// cache is where the tests' processes keep compiled plugins: each is compiled once.
func cache() string { return filepath.Join(built, "cache") }

// environment is all that a child sees of the environment.
func environment(vars ...string) []string {
	return append([]string{"SLUICE_CACHE=" + cache(), "HOME=" + filepath.Join(built, "nobody")}, vars...)
}

// ended is how a process ended.
type ended struct {
	exit           int // -1 for a signal
	stdout, stderr string
}

// run runs a command line to its end, in dir.
func run(t *testing.T, path, dir string, vars, args []string) ended {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, environment(vars...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return ended{exitOf(t, cmd.Run()), stdout.String(), stderr.String()}
}

func exitOf(t *testing.T, err error) int {
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

// process is a sluice that serves.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of the standard error, until it is closed
	seen  []string
	end   chan error
}

// start starts a process whose standard error is read line by line. It is killed if it outlives the test.
func start(t *testing.T, dir string, vars []string, args ...string) *process {
	t.Helper()
	return launch(t, exec.Command(binary(t, true), args...), dir, vars)
}

// launch is start for a command that ends in a sluice.
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

// await reads lines until one holds mark, and returns it.
func (p *process) await(mark string) string {
	p.t.Helper()
	timer := time.NewTimer(proxytest.Patience)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("it ended without a line that holds %q:\n%s", mark, strings.Join(p.seen, "\n"))
			}
			if p.seen = append(p.seen, line); strings.Contains(line, mark) {
				return line
			}
		case <-timer.C:
			p.t.Fatalf("no line holds %q:\n%s", mark, strings.Join(p.seen, "\n"))
		}
	}
}

// ready waits until it serves and returns its base URL.
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

// wait waits for its end and returns the exit code, -1 for a signal.
func (p *process) wait() int {
	p.t.Helper()
	timer := time.NewTimer(proxytest.Patience)
	defer timer.Stop()
	end := (chan error)(nil) // asked once all lines are read
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				p.seen = append(p.seen, line)
				continue
			}
			p.lines, end = nil, p.end
		case err := <-end:
			return exitOf(p.t, err)
		case <-timer.C:
			p.t.Fatalf("it does not end:\n%s", strings.Join(p.seen, "\n"))
		}
	}
}
