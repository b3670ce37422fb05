// Package process runs the processes of the benchmark and reads their resource usage from the operating system.
//
// A process is this program in another role, or a command. Roles read orders as lines of JSON from standard input and
// reply to each with a line on standard output. A role ends with its input, so it never outlives its parent. The
// package is independent of the measurements.
//
// Concurrency: a Process accepts one order at a time; its usage can be read from any goroutine.
package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long Stop waits for a process to end before it kills it.
const stopTimeout = 5 * time.Second

// Usage is the resource usage of a process since its start.
type Usage struct {
	CPU    time.Duration // user and system
	Reads  int64         // read system calls
	Writes int64         // write system calls
}

// Sub returns the usage since an earlier reading.
func (u Usage) Sub(before Usage) Usage {
	return Usage{u.CPU - before.CPU, u.Reads - before.Reads, u.Writes - before.Writes}
}

// Process is a running process.
type Process struct {
	Name string
	Addr string // listen address, if it has one

	cmd     *exec.Cmd
	stdin   io.WriteCloser
	replies *bufio.Scanner
	stderr  *tail
	reap    sync.Once     // calls wait, for a role
	ended   chan struct{} // closed when the process has ended
	err     error         // error of Wait; set before ended is closed
}

// Ready is the first line that a role writes.
type Ready struct{ Addr string }

// Role starts this program in a role, and waits until it is ready.
func Role(ctx context.Context, name string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"role", name}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, cmd: cmd, stdin: stdin, replies: bufio.NewScanner(stdout), stderr: &tail{}}
	p.replies.Buffer(nil, 64<<20)
	cmd.Stderr = p.stderr
	if err := p.start(); err != nil {
		return nil, err
	}
	var ready Ready
	if err := p.receive(&ready); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	p.Addr = ready.Addr
	return p, nil
}

// Command starts a program that takes no orders. line, if not nil, is called with each line of its standard error until
// it returns true.
func Command(ctx context.Context, name string, env []string, line func(string) bool, command string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = append(os.Environ(), env...)
	p := &Process{Name: name, cmd: cmd, stderr: &tail{line: line}}
	cmd.Stderr = p.stderr
	return p, p.start()
}

func (p *Process) start() error {
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	p.ended = make(chan struct{})
	if p.stdin != nil {
		// Wait closes the pipe from which replies are read, so it is only called after the last reply.
		return nil
	}
	go p.wait()
	return nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.ended)
}

// Call sends an order and waits for the reply.
func (p *Process) Call(order, value any) error {
	line, err := json.Marshal(order)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w%s", p.Name, err, p.stderr)
	}
	return p.receive(value)
}

// reply is a role's reply to an order.
type reply struct {
	Error string          `json:",omitempty"`
	Value json.RawMessage `json:",omitempty"`
}

func (p *Process) receive(value any) error {
	if !p.replies.Scan() {
		// Wait for the process, because the end of its standard error may still be in the pipe.
		p.reap.Do(func() { go p.wait() })
		t := time.NewTimer(stopTimeout)
		defer t.Stop()
		select {
		case <-p.ended:
		case <-t.C:
		}
		return fmt.Errorf("%s ended: %w%s", p.Name, errors.Join(io.ErrUnexpectedEOF, p.replies.Err()), p.stderr)
	}
	var r reply
	if err := json.Unmarshal(p.replies.Bytes(), &r); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	if r.Error != "" {
		return fmt.Errorf("%s: %s", p.Name, r.Error)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(r.Value, value)
}

// Ended returns a channel that is closed when a command has ended. For a role, call Stop first.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stderr returns the end of what the process wrote to standard error, for error messages.
func (p *Process) Stderr() string { return p.stderr.String() }

// Stop ends the process and waits for it.
func (p *Process) Stop() error {
	if p.stdin != nil {
		if err := p.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			return err
		}
		p.reap.Do(func() { go p.wait() })
	} else if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-t.C:
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-p.ended
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && !exit.Exited() {
		return nil // ended by the signal
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w%s", p.Name, p.err, p.stderr)
	}
	return nil
}

// Serve runs a role: it writes ready, and handles orders until the input ends.
func Serve(in io.Reader, out io.Writer, ready Ready, handle func(order []byte) (any, error)) error {
	w := json.NewEncoder(out)
	respond := func(v any, err error) error {
		if err != nil {
			return w.Encode(reply{Error: err.Error()})
		}
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return w.Encode(reply{Value: value})
	}
	if err := respond(ready, nil); err != nil {
		return err
	}
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 64<<20)
	for orders.Scan() {
		if err := respond(handle(orders.Bytes())); err != nil {
			return err
		}
	}
	return orders.Err()
}

// tail keeps the last bytes written to it, and passes each line to a function until the function returns true.
type tail struct {
	mu   sync.Mutex
	line func(string) bool
	part []byte // incomplete line
	last []byte // at least the last tailSize bytes
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line != nil {
		t.part = append(t.part, p...)
		for t.line != nil {
			line, rest, ok := bytes.Cut(t.part, []byte{'\n'})
			if !ok {
				break
			}
			if t.line(string(line)) {
				t.line, rest = nil, nil
			}
			t.part = rest
		}
	}
	t.last = append(t.last, p...)
	if len(t.last) > 2*tailSize {
		t.last = append(t.last[:0], t.last[len(t.last)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == 0 {
		return ""
	}
	return "\n" + string(t.last[max(0, len(t.last)-tailSize):])
}
