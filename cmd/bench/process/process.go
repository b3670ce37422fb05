// Package process runs the programs of the comparison and reads what the operating system accounts to each of them.
//
// A program is this one again in another role, or a command. The roles take orders as lines of JSON on their standard
// input and answer each with a line on their standard output; the end of the input ends them, so that none outlives
// whoever started it. Package process knows nothing of what is measured.
//
// Concurrency: a Process takes one order at a time; its figures can be read from any goroutine.
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

// patience is how long a process gets to end by itself.
const patience = 5 * time.Second

// Usage is what a process has used since it began.
type Usage struct {
	CPU    time.Duration // user and system
	Reads  int64         // read system calls
	Writes int64         // write system calls
}

// Sub is what was used since an earlier look.
func (u Usage) Sub(before Usage) Usage {
	return Usage{u.CPU - before.CPU, u.Reads - before.Reads, u.Writes - before.Writes}
}

// Process is a program that runs.
type Process struct {
	Name string
	Addr string // where it listens, if it does

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	answer *bufio.Scanner
	stderr *tail
	reap   sync.Once // of a role
	ended  chan struct{}
	err    error
}

// Ready is the first line of a role.
type Ready struct{ Addr string }

// Role starts this program again in a role, and waits until it is ready.
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
	p := &Process{Name: name, cmd: cmd, stdin: stdin, answer: bufio.NewScanner(stdout), stderr: &tail{}}
	p.answer.Buffer(nil, 64<<20)
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

// Command starts a program that takes no orders. Each line of its standard error is shown to line until that returns
// true; nil shows it to nobody.
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
		// Wait closes the pipe that answers are read from: Stop calls it, behind the last one.
		return nil
	}
	go p.wait()
	return nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.ended)
}

// Call gives an order and waits for its answer.
func (p *Process) Call(order, answer any) error {
	line, err := json.Marshal(order)
	if err != nil {
		return err
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w%s", p.Name, err, p.stderr)
	}
	return p.receive(answer)
}

// reply is a role's answer to an order.
type reply struct {
	Error string          `json:",omitempty"`
	Value json.RawMessage `json:",omitempty"`
}

func (p *Process) receive(answer any) error {
	if !p.answer.Scan() {
		// What it said last may still be on its way here. A process that lives on without an output has said enough.
		p.reap.Do(func() { go p.wait() })
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-p.ended:
		case <-t.C:
		}
		return fmt.Errorf("%s ended: %w%s", p.Name, errors.Join(io.ErrUnexpectedEOF, p.answer.Err()), p.stderr)
	}
	var r reply
	if err := json.Unmarshal(p.answer.Bytes(), &r); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	if r.Error != "" {
		return fmt.Errorf("%s: %s", p.Name, r.Error)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(r.Value, answer)
}

// Ended is closed when a command has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Said is the end of what the process wrote to its standard error, for a message.
func (p *Process) Said() string { return p.stderr.String() }

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
	t := time.NewTimer(patience)
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
		return nil // by the signal
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w%s", p.Name, p.err, p.stderr)
	}
	return nil
}

// Serve is what a role does: it says that it is ready, and answers orders until the input ends.
func Serve(in io.Reader, out io.Writer, ready Ready, handle func(order []byte) (any, error)) error {
	w := json.NewEncoder(out)
	answer := func(v any, err error) error {
		if err != nil {
			return w.Encode(reply{Error: err.Error()})
		}
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return w.Encode(reply{Value: value})
	}
	if err := answer(ready, nil); err != nil {
		return err
	}
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 64<<20)
	for orders.Scan() {
		if err := answer(handle(orders.Bytes())); err != nil {
			return err
		}
	}
	return orders.Err()
}

// tail keeps the end of what is written to it, and shows lines to whoever waits for one.
type tail struct {
	mu   sync.Mutex
	line func(string) bool
	part []byte // of a line
	last []byte
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
