package process_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/cmd/bench/process"
)

// TestMain makes the test binary a role, or a command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "role":
			if err := process.Serve(os.Stdin, os.Stdout, process.Ready{Addr: os.Args[2]}, worker); err != nil {
				os.Exit(1)
			}
			return
		case "command":
			fmt.Fprintln(os.Stderr, "not this line")
			fmt.Fprintln(os.Stderr, "ready at last")
			os.Exit(7)
		}
	}
	goleak.VerifyTestMain(m)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// worker uses CPU time or memory, as ordered.
func worker(order []byte) (any, error) {
	switch string(order) {
	case `"spin"`:
		for from := cpuTime(); cpuTime()-from < 60*time.Millisecond; {
		}
		return cpuTime(), nil
	case `"grow"`:
		kept = make([]byte, 64<<20)
		for i := 0; i < len(kept); i += 4096 {
			kept[i] = 1
		}
		return nil, nil
	case `"die"`:
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	}
	return nil, errors.New("unknown order")
}

var kept []byte

func start(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.Role(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	if p.Addr != "here" {
		t.Errorf("address %q", p.Addr)
	}
	return p
}

func TestUsage(t *testing.T) {
	p := start(t)
	before, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	own := cpuTime()
	var reported time.Duration
	if err := p.Call("spin", &reported); err != nil {
		t.Fatal(err)
	}
	after, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	used := after.Sub(before)
	if used.CPU < 55*time.Millisecond || after.CPU < reported-5*time.Millisecond {
		t.Errorf("used %v, the process reports %v since its start", used.CPU, reported)
	}
	if used.CPU <= cpuTime()-own {
		t.Errorf("used %v, no more than this process with %v", used.CPU, cpuTime()-own)
	}
	if used.Reads < 1 || used.Writes < 1 {
		t.Errorf("%d reads and %d writes for an order and its reply", used.Reads, used.Writes)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRSS(t *testing.T) {
	p := start(t)
	before, err := p.RSS()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Call("grow", nil); err != nil {
		t.Fatal(err)
	}
	after, err := p.RSS()
	if err != nil {
		t.Fatal(err)
	}
	// The race detector keeps several copies of every word.
	if n := after - before; n < 60<<20 || n > 640<<20 {
		t.Errorf("grew by %d", n)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRoleErrors(t *testing.T) {
	p := start(t)
	if err := p.Call("unknown", nil); err == nil || !strings.Contains(err.Error(), "unknown order") {
		t.Error(err)
	}
	if err := p.Call("die", nil); err == nil || !strings.Contains(err.Error(), "last words") {
		t.Error(err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
}

func TestCommandLines(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	p, err := process.Command(t.Context(), "command", nil, func(line string) bool {
		seen = append(seen, line)
		return strings.HasPrefix(line, "ready")
	}, self, "command")
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Error(err)
	}
	if len(seen) != 2 || seen[1] != "ready at last" || !strings.Contains(p.Stderr(), "not this line") {
		t.Errorf("%q, %q", seen, p.Stderr())
	}
}
