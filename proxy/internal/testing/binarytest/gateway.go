package binarytest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// Options are how a gateway is started.
type Options struct {
	Config string // the text of its gateway.toml, which begins with [server] and has no [admin]
	Listen string // "": a free port of 127.0.0.1
	Env    []string
	Race   bool // a binary with the race detector in it

	// Line is called for each line of the log. It must not block for long: the gateway drops lines that nobody reads.
	Line func(*Line)

	// Start calls start, which starts the process; it is for a place that a process inherits, such as a network or a set
	// of processors. nil just calls it.
	Start func(start func() error) error

	// Dial connects to [admin], where the process is in a network of its own. nil: as usual.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Line is a line of the log, as far as tests look at it. Text is all of it.
type Line struct {
	Message    string  `json:"msg"`
	Level      string  `json:"level"`
	Address    string  `json:"address"`
	Request    string  `json:"request"`
	Path       string  `json:"path"`
	Status     int     `json:"status"`
	Code       string  `json:"code"`
	Cause      string  `json:"cause"`
	Model      string  `json:"model"`
	Provider   string  `json:"provider"`
	Stream     bool    `json:"stream"`
	Complete   bool    `json:"complete"`
	Attempts   int     `json:"attempts"`
	Duration   float64 `json:"duration_ms"`
	Error      string  `json:"error"`
	Prompt     int64   `json:"prompt_tokens"`
	Completion int64   `json:"completion_tokens"`

	Text string `json:"-"`
}

// Gateway is a gateway in a process of its own.
type Gateway struct {
	URL    string // http://host:port of its listener
	Addr   string
	Admin  string // host:port of its health, metrics and status
	Config string // the path of its gateway.toml
	PID    int
	Ready  time.Duration // from its start until it served

	cmd    *exec.Cmd
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	ended  chan struct{} // closed when it has ended; exit is set then
	exit   int
	mu     sync.Mutex
	tail   []string // the last lines of its standard error
	listen chan Line
}

// Start starts a gateway and waits until it serves. The test's end kills it, if it is still there.
func Start(tb testing.TB, o Options) *Gateway {
	tb.Helper()
	dir := tb.TempDir()
	g := &Gateway{Config: filepath.Join(dir, "gateway.toml"), dial: o.Dial, ended: make(chan struct{}), listen: make(chan Line, 2)}
	g.Write(tb, o.Config)
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	binary, err := buildtest.Sluice(buildtest.SluiceOptions{Race: o.Race})
	if err != nil {
		tb.Fatalf("build sluice: %v", err)
	}
	cache, err := buildtest.CacheDir("compiled")
	if err != nil {
		tb.Fatal(err)
	}
	g.cmd = exec.Command(binary, "serve", "--quiet", "--config", g.Config, "--listen", o.Listen)
	g.cmd.Dir = dir
	g.cmd.Env = append([]string{"SLUICE_CACHE=" + cache, "HOME=" + dir}, o.Env...)
	stderr, err := g.cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if o.Start == nil {
		o.Start = func(start func() error) error { return start() }
	}
	began := time.Now()
	if err := o.Start(g.cmd.Start); err != nil {
		tb.Fatal(err)
	}
	g.PID = g.cmd.Process.Pid
	go func() {
		defer close(g.ended)
		lines := bufio.NewReaderSize(stderr, 64<<10)
		for {
			text, err := lines.ReadString('\n')
			if text != "" {
				g.line(strings.TrimSuffix(text, "\n"), o.Line)
			}
			if err != nil {
				break
			}
		}
		err := g.cmd.Wait()
		g.exit = -1
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			g.exit = exit.ExitCode()
		} else if err == nil {
			g.exit = 0
		}
	}()
	tb.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		<-g.ended
	})
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for g.Addr == "" || g.Admin == "" {
		select {
		case l := <-g.listen:
			if l.Message == serves {
				g.Addr, g.URL, g.Ready = l.Address, "http://"+l.Address, time.Since(began)
			} else {
				g.Admin = l.Address
			}
		case <-g.ended:
			tb.Fatalf("the gateway ended with %d:\n%s", g.exit, g.Tail())
		case <-timeout.C:
			tb.Fatalf("the gateway does not serve:\n%s", g.Tail())
		}
	}
	return g
}

// EventTimeout is how long a test waits for an event. It is long because it elapses only in a test that fails.
const EventTimeout = 20 * time.Second

// startTimeout is how long a start may take that compiles all plugins, with the race detector, on a busy machine.
const startTimeout = 6 * EventTimeout

// The lines of the log that say where a gateway listens.
const (
	serves      = "listening"
	servesAdmin = "serving health, metrics and status"
)

// tailLines is how much of the standard error is kept for a test that fails.
const tailLines = 40

func (g *Gateway) line(text string, hear func(*Line)) {
	g.mu.Lock()
	g.tail = append(g.tail, text)
	g.tail = g.tail[max(0, len(g.tail)-tailLines):]
	g.mu.Unlock()
	l := Line{Text: text}
	if json.Unmarshal([]byte(text), &l) != nil {
		l = Line{Text: text}
	}
	if l.Message == serves || l.Message == servesAdmin {
		select {
		case g.listen <- l:
		default:
		}
	}
	if hear != nil {
		hear(&l)
	}
}

// Tail is the last lines of its standard error.
func (g *Gateway) Tail() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.tail, "\n")
}

// head begins every configuration: Line is read from JSON.
const head = "[admin]\nlisten = \"127.0.0.1:0\"\n[server]\nlog_format = \"json\"\n"

// Write puts another configuration in the place of the gateway's own, in one step. A table [server] must come first in it.
func (g *Gateway) Write(tb testing.TB, toml string) {
	tb.Helper()
	rest, ok := strings.CutPrefix(strings.TrimLeft(toml, "\n"), "[server]\n")
	if !ok {
		tb.Fatal("the configuration does not begin with [server]")
	}
	if err := os.WriteFile(g.Config+".new", []byte(head+rest), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(g.Config+".new", g.Config); err != nil {
		tb.Fatal(err)
	}
}

// Signal sends the process a signal.
func (g *Gateway) Signal(tb testing.TB, s os.Signal) {
	tb.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		tb.Fatal(err)
	}
}

// Ended is closed when the process has ended and its log has been read.
func (g *Gateway) Ended() <-chan struct{} { return g.ended }

// Wait waits for the end of the process and returns its exit code, -1 for a signal.
func (g *Gateway) Wait(tb testing.TB, timeout time.Duration) int {
	tb.Helper()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-g.ended:
		return g.exit
	case <-t.C:
		tb.Fatalf("the gateway does not end within %s:\n%s", timeout, g.Tail())
		return 0
	}
}

// String names the gateway in a message.
func (g *Gateway) String() string { return fmt.Sprintf("gateway %d at %s", g.PID, g.Addr) }
