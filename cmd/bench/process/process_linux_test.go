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

// TestMain runs the test binary as a role or a command if its first argument says so.
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
		memory = make([]byte, 64<<20)
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		return nil, nil
	case `"die"`:
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	}
	return nil, errors.New("unknown order")
}

// memory is the memory that worker allocated.
var memory []byte

func start(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.Role(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	if p.Addr != "here" {
		t.Errorf("got address %q, want here", p.Addr)
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
		t.Errorf("usage %v during the order, %v in total; the process reports %v in total", used.CPU, after.CPU, reported)
	}
	if used.CPU <= cpuTime()-own {
		t.Errorf("usage %v is not more than this process's own, %v", used.CPU, cpuTime()-own)
	}
	if used.Reads < 1 || used.Writes < 1 {
		t.Errorf("got %d reads and %d writes for an order and its reply, want at least one each", used.Reads, used.Writes)
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
	// The race detector's shadow memory is several times as large.
	if n := after - before; n < 60<<20 || n > 640<<20 {
		t.Errorf("RSS grew by %d bytes, want about 64 MiB", n)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRoleErrors(t *testing.T) {
	p := start(t)
	if err := p.Call("unknown", nil); err == nil || !strings.Contains(err.Error(), "unknown order") {
		t.Errorf("unknown order: got error %v", err)
	}
	if err := p.Call("die", nil); err == nil || !strings.Contains(err.Error(), "last words") {
		t.Errorf("died during an order: got error %v, want one with its standard error", err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Stop: got error %v, want exit status 3", err)
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
		t.Errorf("Stop: got error %v, want exit status 7", err)
	}
	if len(seen) != 2 || seen[1] != "ready at last" || !strings.Contains(p.Stderr(), "not this line") {
		t.Errorf("got lines %q, standard error %q", seen, p.Stderr())
	}
}
