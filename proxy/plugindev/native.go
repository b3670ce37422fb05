package plugindev

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Native runs a plugin as native code, in a process of a program that serves it (package sdk/native). A process that
// has ended is replaced for the next instance, unless it ended because a call timed out. Close it after the plugins
// that were created from it.
type Native struct {
	Program string        // the file to run
	Timeout time.Duration // timeout of a call; 0 for unlimited
	Output  io.Writer     // receives the output of the process; may be nil

	process *process // the process; nil before the first one starts
	failure string   // the first failure since the last takeFailure
}

// process is a process of the program. Its calls run one at a time.
type process struct {
	cmd       *exec.Cmd
	in        *gob.Encoder
	out       *gob.Decoder
	flush     *bufio.Writer // buffer of in
	pipes     []io.Closer
	printed   *output
	instances int         // number of instances created
	timedOut  atomic.Bool // a call has exceeded its timeout
	ended     error       // why the process cannot be used any more; nil while it runs
}

// message must have the fields of the message in package sdk/native.
type message struct {
	Instance int
	Name     string
	Ints     []int64
	Bytes    [][]byte
	Room     int
	Returns  bool
	Result   int64
	Panic    string
}

// PID returns the ID of the process, which it starts if none is running.
func (n *Native) PID() (int, error) {
	p, err := n.start()
	if err != nil {
		return 0, err
	}
	return p.cmd.Process.Pid, nil
}

// Close ends the process.
func (n *Native) Close() {
	if n.process != nil {
		n.process.end()
		n.process = nil
	}
}

// takeFailure returns and clears the first failure since it was last called.
func (n *Native) takeFailure() string {
	s := n.failure
	n.failure = ""
	return s
}

const (
	// killDelay is how long a process may take to end by itself before it is killed.
	killDelay = 2 * time.Second

	// traceDelay is how long a process may take to print its goroutines. Go's runtime gives each further thread five
	// seconds, and the goroutine of the call may be the last one.
	traceDelay = time.Minute
)

func (n *Native) start() (*process, error) {
	if n.process != nil && (n.process.ended == nil || n.process.timedOut.Load()) {
		return n.process, n.process.ended
	}
	calls, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reader, results, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, calls.Close(), writer.Close())
	}
	buffered := bufio.NewWriter(writer)
	p := &process{
		cmd: exec.Command(n.Program), in: gob.NewEncoder(buffered), out: gob.NewDecoder(reader), flush: buffered,
		pipes: []io.Closer{writer, reader}, printed: &output{to: n.Output},
	}
	p.cmd.ExtraFiles = []*os.File{calls, results}
	// The environment is otherwise empty, as a module's is. With this variable, an interrupted process also prints the
	// goroutines that are running.
	p.cmd.Env = []string{"GOTRACEBACK=crash"}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = p.printed, p.printed, killDelay
	err = p.cmd.Start()
	if err = errors.Join(err, calls.Close(), results.Close()); err != nil {
		return nil, errors.Join(err, writer.Close(), reader.Close())
	}
	n.process = p
	return p, nil
}

// end closes the input of the process, which makes it end, and waits for it.
func (p *process) end() {
	if p.ended != nil {
		return
	}
	for _, c := range p.pipes {
		c.Close()
	}
	kill := time.AfterFunc(killDelay, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait() // ProcessState has the result
	p.ended = fmt.Errorf("the plugin's process has ended: %v", p.cmd.ProcessState)
}

// interrupt makes a process whose call has timed out print its goroutines and end.
func (p *process) interrupt() {
	p.timedOut.Store(true)
	if p.cmd.Process.Signal(syscall.SIGQUIT) != nil {
		p.cmd.Process.Kill()
		return
	}
	time.AfterFunc(traceDelay, func() { p.cmd.Process.Kill() })
}

// call makes one call to an instance. While it runs, the instance's imports call host.
func (p *process) call(m *message, host abi.Host, timeout time.Duration) (int64, error) {
	if p.ended != nil {
		return 0, p.ended
	}
	p.printed.reset()
	if timeout > 0 {
		defer time.AfterFunc(timeout, p.interrupt).Stop()
	}
	result, err := p.exchange(m, host)
	if err == nil && result.Panic != "" {
		return 0, errors.New(result.Panic)
	}
	if err == nil {
		return result.Result, nil
	}
	p.end()
	err = fmt.Errorf("%s: %w", m.Name, p.ended)
	if p.timedOut.Load() {
		err = fmt.Errorf("%s has not returned within %v; the plugin's process was ended", m.Name, timeout)
	}
	if text := p.printed.text(); text != "" {
		err = fmt.Errorf("%w\n%s", err, text)
	}
	return 0, err
}

// exchange sends a call and serves its imports until the result.
func (p *process) exchange(m *message, host abi.Host) (message, error) {
	send := func(m *message) error { return errors.Join(p.in.Encode(m), p.flush.Flush()) }
	err := send(m)
	for err == nil {
		var got message
		if err = p.out.Decode(&got); err != nil || got.Name == "" {
			return got, err
		}
		result, served := serveImport(&got, host)
		if !served {
			return got, fmt.Errorf("unknown import %q", got.Name)
		}
		if got.Returns {
			err = send(&result)
		}
	}
	return message{}, err
}

// serveImport calls a method of the host for a process. Messages are not validated, since they come from the author's
// own code.
func serveImport(m *message, host abi.Host) (result message, served bool) {
	f := reflect.ValueOf(hostMethods[m.Name])
	if !f.IsValid() {
		return result, false
	}
	ints, slices, room := m.Ints, m.Bytes, make([]byte, m.Room)
	in := []reflect.Value{reflect.ValueOf(host)}
	for i := 1; i < f.Type().NumIn(); i++ {
		v := reflect.New(f.Type().In(i)).Elem()
		switch {
		case v.Kind() != reflect.Slice:
			v.SetInt(ints[0])
			ints = ints[1:]
		case len(slices) == 0:
			v.SetBytes(room)
		default:
			v.SetBytes(slices[0])
			slices = slices[1:]
		}
		in = append(in, v)
	}
	for _, v := range f.Call(in) {
		result.Result = v.Int()
	}
	if m.Room > 0 {
		result.Bytes = [][]byte{room[:max(0, min(result.Result, int64(m.Room)))]}
	}
	return result, true
}

// hostMethods are all methods of abi.Host. It is a table because looking up methods by name with reflection would keep
// the linker from removing any unused exported method of the gateway.
var hostMethods = map[string]any{
	"Log": abi.Host.Log, "Fail": abi.Host.Fail, "HostMinor": abi.Host.HostMinor, "InputGet": abi.Host.InputGet,
	"InputCount": abi.Host.InputCount, "InputText": abi.Host.InputText, "BodyGet": abi.Host.BodyGet, "BodySet": abi.Host.BodySet,
	"BodyCount": abi.Host.BodyCount, "BodyIndex": abi.Host.BodyIndex,
	"NextRequest": abi.Host.NextRequest, "CancelRequest": abi.Host.CancelRequest,
	"BodyDelete": abi.Host.BodyDelete, "BodyRename": abi.Host.BodyRename, "BodyReplace": abi.Host.BodyReplace,
	"RequestPath": abi.Host.RequestPath, "RequestHeader": abi.Host.RequestHeader, "RequestWrite": abi.Host.RequestWrite,
	"RequestString": abi.Host.RequestString, "RequestCopy": abi.Host.RequestCopy, "RequestPart": abi.Host.RequestPart, "ToolAlias": abi.Host.ToolAlias,
	"Answer": abi.Host.Answer, "Warn": abi.Host.Warn, "ResponseHeader": abi.Host.ResponseHeader, "StateGet": abi.Host.StateGet,
	"StateSet": abi.Host.StateSet, "Start": abi.Host.Start, "Text": abi.Host.Text, "Refusal": abi.Host.Refusal,
	"Reasoning": abi.Host.Reasoning, "ToolCall": abi.Host.ToolCall, "ToolArguments": abi.Host.ToolArguments, "ToolEnd": abi.Host.ToolEnd,
	"Extra": abi.Host.Extra, "TextLength": abi.Host.TextLength, "Usage": abi.Host.Usage, "Finish": abi.Host.Finish,
	"Done": abi.Host.Done, "OpenAIEvent": abi.Host.OpenAIEvent, "Embedding": abi.Host.Embedding, "Rank": abi.Host.Rank,
	"Unknown": abi.Host.Unknown, "Model": abi.Host.Model, "More": abi.Host.More, "Candidate": abi.Host.Candidate,
	"Explain": abi.Host.Explain, "Tag": abi.Host.Tag, "Replace": abi.Host.Replace, "Hold": abi.Host.Hold,
}

// remoteGuest is an instance in a process.
type remoteGuest struct {
	native  *Native
	process *process // nil if it could not be started
	err     error    // why it could not be started
	host    abi.Host
	id      int
}

// newGuest returns a function that creates instances of the plugin with this name.
func (n *Native) newGuest(name string) func(host abi.Host) plugin.Guest {
	return func(host abi.Host) plugin.Guest {
		g := &remoteGuest{native: n, host: host}
		if g.process, g.err = n.start(); g.err != nil {
			n.failure = cmp.Or(n.failure, g.err.Error())
			return g
		}
		g.process.instances++
		g.id = g.process.instances
		var found int64
		if found, g.err = g.process.call(&message{Instance: g.id, Name: "New", Bytes: [][]byte{[]byte(name)}}, host, n.Timeout); found == 0 && g.err == nil {
			g.err = fmt.Errorf("the program has no plugin %s", name)
		}
		if g.err != nil {
			n.failure = cmp.Or(n.failure, g.err.Error())
		}
		return g
	}
}

// call makes a call. Like other native guests, it panics if the plugin panics, and also if the call fails in any other
// way.
func (g *remoteGuest) call(name string, ints []int64, slices ...[]byte) int32 {
	var result int64
	err := g.err
	if err == nil {
		result, err = g.process.call(&message{Instance: g.id, Name: name, Ints: ints, Bytes: slices}, g.host, g.native.Timeout)
	}
	if err != nil {
		g.native.failure = cmp.Or(g.native.failure, err.Error())
		panic(err)
	}
	return int32(result)
}

func (g *remoteGuest) Has(export string) bool {
	if g.err != nil {
		return false
	}
	has, err := g.process.call(&message{Instance: g.id, Name: "Has", Bytes: [][]byte{[]byte(export)}}, g.host, g.native.Timeout)
	if err != nil {
		g.err, g.native.failure = err, cmp.Or(g.native.failure, err.Error())
	}
	return has != 0
}

func (g *remoteGuest) Configure(binding int32, settings []byte) int32 {
	return g.call("Configure", []int64{int64(binding)}, settings)
}

func (g *remoteGuest) Forms(binding int32) int32 { return g.call("Forms", []int64{int64(binding)}) }

func (g *remoteGuest) SummaryParts(binding int32) int32 {
	return g.call("SummaryParts", []int64{int64(binding)})
}

func (g *remoteGuest) Request(binding int32, summary []byte) int32 {
	return g.call("Request", []int64{int64(binding)}, summary)
}

func (g *remoteGuest) Response(binding, status int32, body []byte) int32 {
	return g.call("Response", []int64{int64(binding), int64(status)}, body)
}

func (g *remoteGuest) Event(binding int32, kind abi.EventKind, name, data []byte) int32 {
	return g.call("Event", []int64{int64(binding), int64(kind)}, name, data)
}

func (g *remoteGuest) End(binding int32) int32 { return g.call("End", []int64{int64(binding)}) }

func (g *remoteGuest) List(binding int32, cursor []byte) int32 {
	return g.call("List", []int64{int64(binding)}, cursor)
}

func (g *remoteGuest) Models(binding, status int32, body []byte) int32 {
	return g.call("Models", []int64{int64(binding), int64(status)}, body)
}

func (g *remoteGuest) Reads(binding int32) int32 { return g.call("Reads", []int64{int64(binding)}) }

func (g *remoteGuest) Choose(binding int32, input []byte) int32 {
	return g.call("Choose", []int64{int64(binding)}, input)
}

func (g *remoteGuest) FilterParts(binding int32) int32 {
	return g.call("FilterParts", []int64{int64(binding)})
}

func (g *remoteGuest) FilterRequest(binding int32, input []byte) int32 {
	return g.call("FilterRequest", []int64{int64(binding)}, input)
}

func (g *remoteGuest) FilterText(binding int32, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32 {
	return g.call("FilterText", []int64{int64(binding), int64(what), int64(choice), int64(flags), int64(held)}, text)
}

// output passes on the output of a process, and keeps the beginning of the output during a call.
type output struct {
	to io.Writer

	mu   sync.Mutex
	kept []byte
}

// maxKept limits the output that is kept, in bytes. The first goroutine of a fatal error is at its beginning.
const maxKept = 4 << 10

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p[:min(len(p), maxKept-len(o.kept))]...)
	if o.to == nil {
		return len(p), nil
	}
	return o.to.Write(p)
}

func (o *output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = o.kept[:0]
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}

// testNative runs each vector on native code. The outcome must be the same as the module's, which texts contains.
func (s *Suite) testNative(ctx context.Context, h *Host, name string, n *Native, cases []testCase, texts []string, tested []Tested) error {
	if _, err := n.start(); err != nil {
		return fmt.Errorf("run the plugin natively: %w", err)
	}
	p, err := h.LoadNative(name, n.newGuest(name))
	if failure := n.takeFailure(); err != nil && failure != "" {
		err = errors.New(failure)
	}
	if err != nil {
		return fmt.Errorf("run the plugin natively: %w", err)
	}
	bound := &bindings{s, p, make(map[string]*Binding)}
	defer bound.close()
	for i, c := range cases {
		const where = "native code"
		t := &tested[i]
		b, err := bound.bindFor(ctx, c)
		if err != nil {
			if failure := n.takeFailure(); failure != "" || len(t.Failures) == 0 {
				t.fail(where, err.Error()+"\n"+failure)
			}
			continue
		}
		text := c.outcome(b).text
		failure := n.takeFailure()
		switch {
		case text != texts[i]:
			t.fail(where, strings.TrimSpace("differs from the module\n"+Diff(texts[i], text)+"\n"+failure))
		case failure != "" && len(t.Failures) > 0:
			t.fail(where, failure)
		}
		if n.process.timedOut.Load() {
			return nil // the other vectors would time out as well
		}
	}
	return nil
}
