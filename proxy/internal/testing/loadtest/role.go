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

// A provider with ten thousand connections runs in its own process, because the limit of descriptors is per process.
// The process runs the test binary in another role.

// roleEnv is the environment variable that makes the test binary a provider.
const roleEnv = "SLUICE_LOADTEST_ROLE"

// order is an order to the provider, a line of its standard input. The provider replies to each with a Status.
type order struct {
	Event int  // number of the event to send; 0 means none
	End   bool // end the streams
}

// Status is the status of a provider in its own process.
type Status struct {
	Addr     string
	Held     int   // held streams
	Accepted int64 // accepted connections
	Requests int64
	Error    string `json:",omitempty"`
}

// RunRole runs the provider and exits if the process was started as one. TestMain calls it first.
func RunRole() {
	if os.Getenv(roleEnv) == "" {
		return
	}
	if err := runProvider(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runProvider runs a provider that holds streams, until its orders end.
func runProvider(orders io.Reader, replies io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := NewHolder()
	p := Serve(ln, h.Respond)
	out := json.NewEncoder(replies)
	status := func(err error) Status {
		s := Status{Addr: ln.Addr().String(), Held: h.Held(), Accepted: p.Accepted(), Requests: p.Requests()}
		if err != nil {
			s.Error = err.Error()
		}
		return s
	}
	if err := out.Encode(status(nil)); err != nil {
		return err
	}
	for in := json.NewDecoder(orders); ; {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil // the parent process has ended
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
		if err := out.Encode(status(failed)); err != nil {
			return err
		}
	}
}

// Process is a provider that holds streams in its own process.
type Process struct {
	URL string
	PID int

	tb      testing.TB
	in      *json.Encoder
	replies *json.Decoder
}

// StartProvider starts a provider in its own process, which ends with the test.
func StartProvider(tb testing.TB) *Process {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"=provider")
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
			tb.Errorf("provider process: %v", err)
		}
	})
	p := &Process{PID: cmd.Process.Pid, tb: tb, in: json.NewEncoder(in), replies: json.NewDecoder(bufio.NewReader(out))}
	p.URL = "http://" + p.readStatus().Addr
	return p
}

func (p *Process) readStatus() (s Status) {
	p.tb.Helper()
	if err := p.replies.Decode(&s); err != nil {
		p.tb.Fatalf("read the provider's status: %v", err)
	}
	if s.Error != "" {
		p.tb.Fatalf("provider: %s", s.Error)
	}
	return s
}

func (p *Process) send(o order) Status {
	p.tb.Helper()
	if err := p.in.Encode(o); err != nil {
		p.tb.Fatalf("send an order to the provider: %v", err)
	}
	return p.readStatus()
}

// Status returns the provider's status.
func (p *Process) Status() Status { return p.send(order{}) }

// SendEvent sends event n to all streams.
func (p *Process) SendEvent(n int) Status { return p.send(order{Event: n}) }

// End completes all streams.
func (p *Process) End() Status { return p.send(order{End: true}) }
