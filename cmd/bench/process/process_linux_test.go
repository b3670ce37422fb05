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

func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// worker uses CPU time and memory as it is told, and says what it used.
func worker(order []byte) (any, error) {
	switch string(order) {
	case `"spin"`:
		for from := spent(); spent()-from < 60*time.Millisecond; {
		}
		return spent(), nil
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
	return nil, errors.New("what is this")
}

var kept []byte

func start(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.Role(t.Context(), "here")
	if err != nil {
		t.Fatal(err)
	}
	if p.Addr != "here" {
		t.Errorf("it listens at %q", p.Addr)
	}
	return p
}

func TestUsageReportsProcessorTime(t *testing.T) {
	p := start(t)
	before, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	own := spent()
	var said time.Duration
	if err := p.Call("spin", &said); err != nil {
		t.Fatal(err)
	}
	after, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	used := after.Sub(before)
	if used.CPU < 55*time.Millisecond || after.CPU < said-5*time.Millisecond {
		t.Errorf("%v, where the process knows of %v in all", used.CPU, said)
	}
	if used.CPU <= spent()-own {
		t.Errorf("%v of another process: this one used %v", used.CPU, spent()-own)
	}
	if used.Reads < 1 || used.Writes < 1 {
		t.Errorf("%d reads and %d writes for an order and its answer", used.Reads, used.Writes)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRSSGrowsWithTouchedMemory(t *testing.T) {
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
	// The race detector remembers every word that was written, some times over.
	if n := after - before; n < 60<<20 || n > 640<<20 {
		t.Errorf("grew by %d", n)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRoleErrorsAreReported(t *testing.T) {
	p := start(t)
	if err := p.Call("unknown", nil); err == nil || !strings.Contains(err.Error(), "what is this") {
		t.Error(err)
	}
	if err := p.Call("die", nil); err == nil || !strings.Contains(err.Error(), "last words") {
		t.Error(err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
}

func TestCommandOutputIsForwarded(t *testing.T) {
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
	if len(seen) != 2 || seen[1] != "ready at last" || !strings.Contains(p.Said(), "not this line") {
		t.Errorf("%q, %q", seen, p.Said())
	}
}
