package loadtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
)

// A provider that holds ten thousand connections is a process of its own: descriptors and processor time are counted by
// process. It is the test's binary once more, in another role.

// roleVariable names the role that a process has in place of running tests.
const roleVariable = "SLUICE_LOADTEST_ROLE"

// order is what the provider is told to do, a line of its standard input; it answers each with a status.
type order struct {
	Event int  // the number of an event; 0: none
	End   bool // end the streams
}

// Status is what a provider in a process of its own knows.
type Status struct {
	Addr     string
	Held     int   // streams
	Accepted int64 // connections
	Requests int64
	Error    string `json:",omitempty"`
}

// RunRole takes the role that the process has been given, and returns where it has none. TestMain calls it first.
func RunRole() {
	if os.Getenv(roleVariable) == "" {
		return
	}
	if err := runProvider(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runProvider is a provider that holds streams, until its orders end.
func runProvider(orders io.Reader, answers io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := NewHolder()
	p := Serve(ln, h.Respond)
	say := json.NewEncoder(answers)
	status := func(err error) Status {
		s := Status{Addr: ln.Addr().String(), Held: h.Held(), Accepted: p.Accepted(), Requests: p.Requests()}
		if err != nil {
			s.Error = err.Error()
		}
		return s
	}
	if err := say.Encode(status(nil)); err != nil {
		return err
	}
	for in := json.NewDecoder(orders); ; {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil // the process that gave the orders has gone
		} else if err != nil {
			return err
		}
		var failed error
		if o.Event != 0 {
			failed = h.SendEvent(o.Event)
		}
		if o.End {
			h.End()
		}
		if err := say.Encode(status(failed)); err != nil {
			return err
		}
	}
}

// Process is a provider that holds streams in a process of its own.
type Process struct {
	URL string
	PID int

	tb      testing.TB
	in      *json.Encoder
	answers *json.Decoder
}

// StartProvider starts one; the test's end stops it.
func StartProvider(tb testing.TB) *Process {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=provider")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the provider's process: %v", err)
		}
	})
	p := &Process{PID: cmd.Process.Pid, tb: tb, in: json.NewEncoder(in), answers: json.NewDecoder(bufio.NewReader(out))}
	p.URL = "http://" + p.status().Addr
	return p
}

func (p *Process) status() (s Status) {
	p.tb.Helper()
	if err := p.answers.Decode(&s); err != nil {
		p.tb.Fatalf("the provider's process: %v", err)
	}
	if s.Error != "" {
		p.tb.Fatalf("the provider: %s", s.Error)
	}
	return s
}

func (p *Process) order(o order) Status {
	p.tb.Helper()
	if err := p.in.Encode(o); err != nil {
		p.tb.Fatalf("the provider's process: %v", err)
	}
	return p.status()
}

// Status asks how things are.
func (p *Process) Status() Status { return p.order(order{}) }

// SendEvent sends event n to all streams.
func (p *Process) SendEvent(n int) Status { return p.order(order{Event: n}) }

// End ends all streams.
func (p *Process) End() Status { return p.order(order{End: true}) }
