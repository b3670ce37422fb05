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

// Options are the options of a gateway.
type Options struct {
	Config string // text of gateway.toml, which must start with [server] and have no [admin]
	Listen string // listen address; "" means a free port of 127.0.0.1
	Env    []string
	Race   bool // use a binary built with the race detector

	// Line is called for each line of the log. It must not block for long, because the gateway drops log lines when its
	// buffer is full.
	Line func(*Line)

	// Start calls start, which starts the process. It can set up what the process inherits from the thread, such as a
	// network namespace or a CPU set. nil calls start directly.
	Start func(start func() error) error

	// Dial connects to the admin listener of a process in another network namespace. nil dials in the namespace of the
	// test.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Line has the fields of a log line that tests use. Text is the whole line.
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
	Cost       float64 `json:"cost"`
	UnusedCost float64 `json:"unused_cost"`

	Text string `json:"-"`
}

// Gateway is a gateway in a process of its own.
type Gateway struct {
	URL        string // http://host:port of the listener
	Addr       string // host:port of the listener
	Admin      string // host:port of the admin listener
	ConfigFile string // path of gateway.toml
	PID        int
	Ready      time.Duration // time from the start of the process until it listened

	cmd    *exec.Cmd
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	ended  chan struct{} // closed when the process has ended
	exit   int           // exit code; set before ended is closed
	mu     sync.Mutex
	tail   []string  // last lines of standard error
	listen chan Line // the lines with the addresses of the listeners
}

// Start starts a gateway and waits until it listens. The end of the test kills the process if it is still running.
func Start(tb testing.TB, o Options) *Gateway {
	tb.Helper()
	dir := tb.TempDir()
	g := &Gateway{ConfigFile: filepath.Join(dir, "gateway.toml"), dial: o.Dial, ended: make(chan struct{}), listen: make(chan Line, 2)}
	g.WriteConfig(tb, o.Config)
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
	g.cmd = exec.Command(binary, "serve", "--quiet", "--config", g.ConfigFile, "--listen", o.Listen)
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
				g.handleLine(strings.TrimSuffix(text, "\n"), o.Line)
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
			if l.Message == msgListening {
				g.Addr, g.URL, g.Ready = l.Address, "http://"+l.Address, time.Since(began)
			} else {
				g.Admin = l.Address
			}
		case <-g.ended:
			tb.Fatalf("the gateway exited with code %d:\n%s", g.exit, g.Tail())
		case <-timeout.C:
			tb.Fatalf("the gateway did not start within %v:\n%s", startTimeout, g.Tail())
		}
	}
	return g
}

// EventTimeout is how long a test waits for an event. It is long because it only elapses in failing tests.
const EventTimeout = 20 * time.Second

// startTimeout is how long a start may take. It is enough to compile all plugins with the race detector on a busy
// machine.
const startTimeout = 6 * EventTimeout

// Messages of the log lines with the addresses of the listeners.
const (
	msgListening      = "listening"
	msgListeningAdmin = "serving health, metrics and status"
)

// tailLines is the number of lines of standard error that are kept for failure messages.
const tailLines = 40

// handleLine handles a line of standard error, and passes it to onLine unless that is nil.
func (g *Gateway) handleLine(text string, onLine func(*Line)) {
	g.mu.Lock()
	g.tail = append(g.tail, text)
	g.tail = g.tail[max(0, len(g.tail)-tailLines):]
	g.mu.Unlock()
	l := Line{Text: text}
	if json.Unmarshal([]byte(text), &l) != nil {
		l = Line{Text: text}
	}
	if l.Message == msgListening || l.Message == msgListeningAdmin {
		select {
		case g.listen <- l:
		default:
		}
	}
	if onLine != nil {
		onLine(&l)
	}
}

// Tail returns the last lines of standard error.
func (g *Gateway) Tail() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.tail, "\n")
}

// configHead is the start of every configuration. Line is parsed from JSON.
const configHead = "[admin]\nlisten = \"127.0.0.1:0\"\n[server]\nlog_format = \"json\"\n"

// WriteConfig replaces the gateway's configuration file atomically. The configuration must start with [server].
func (g *Gateway) WriteConfig(tb testing.TB, toml string) {
	tb.Helper()
	rest, ok := strings.CutPrefix(strings.TrimLeft(toml, "\n"), "[server]\n")
	if !ok {
		tb.Fatal("the configuration does not start with [server]")
	}
	if err := os.WriteFile(g.ConfigFile+".new", []byte(configHead+rest), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(g.ConfigFile+".new", g.ConfigFile); err != nil {
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

// Ended returns a channel that is closed when the process has ended and its log has been read.
func (g *Gateway) Ended() <-chan struct{} { return g.ended }

// Wait waits for the end of the process and returns its exit code, or -1 if a signal ended it.
func (g *Gateway) Wait(tb testing.TB, timeout time.Duration) int {
	tb.Helper()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-g.ended:
		return g.exit
	case <-t.C:
		tb.Fatalf("the gateway did not exit within %s:\n%s", timeout, g.Tail())
		return 0
	}
}

// String identifies the gateway in messages.
func (g *Gateway) String() string { return fmt.Sprintf("gateway %d at %s", g.PID, g.Addr) }
