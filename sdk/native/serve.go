//go:build !wasip1

package native

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// message is what a process that serves plugins and its parent send each other, as encoding/gob. The parent has the same type. The
// parent calls an export; until its result, the child calls imports. An import without a result is not answered.
type message struct {
	Instance int      // of the plugin, chosen by the parent
	Name     string   // the method of Instance, or of abi.Host, that is called; "New" and "Has" take a name; empty is a result
	Ints     []int64  // the call's numbers, in their order
	Bytes    [][]byte // the call's slices, in their order; of a result, what was written to Room
	Room     int      // the length of the slice that an import writes to, its last
	Returns  bool     // the import has a result
	Result   int64
	Panic    string // a call of an export panicked: the value and the place, in lines
}

// ServeParent serves the plugins of this program to the process that has started it, over file descriptors 3 and 4, and exits.
// `sluice plugin test` adds a call of it to a plugin's program.
func ServeParent() {
	if err := Serve(os.NewFile(3, "calls"), os.NewFile(4, "results")); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve runs the calls of exports that are read from r, until it ends.
func Serve(r io.Reader, w io.Writer) error {
	buffered := bufio.NewWriter(w)
	s := &server{in: gob.NewDecoder(r), out: gob.NewEncoder(buffered), buffered: buffered, instances: map[int]*Instance{}}
	for {
		var m message
		err := s.in.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.send(s.run(&m), true)
		}
		if err != nil {
			return fmt.Errorf("serve a plugin: %w", err)
		}
	}
}

// server is the child's side.
type server struct {
	in        *gob.Decoder
	out       *gob.Encoder
	buffered  *bufio.Writer // of out
	instances map[int]*Instance
}

func (s *server) send(m *message, flush bool) error {
	if err := s.out.Encode(m); err != nil || !flush {
		return err
	}
	return s.buffered.Flush()
}

// run runs one call and returns its result.
func (s *server) run(m *message) (result *message) {
	result = &message{}
	defer func() {
		if v := recover(); v != nil {
			result.Panic = fmt.Sprintf("panic: %v\n%s", v, place())
		}
	}()
	in := s.instances[m.Instance]
	if m.Name == "New" {
		in = New(string(m.Bytes[0]), remote{s})
		s.instances[m.Instance] = in
	}
	if in == nil {
		return result // there is no such plugin
	}
	result.Result = 1
	switch m.Name {
	case "New":
	case "Has":
		if !in.Has(string(m.Bytes[0])) {
			result.Result = 0
		}
	default:
		export := reflect.ValueOf(in).MethodByName(m.Name)
		result.Result = export.Call(arguments(export.Type(), m))[0].Int()
	}
	return result
}

// arguments are those of a call as the function's parameters.
func arguments(function reflect.Type, m *message) (in []reflect.Value) {
	ints, bytes := m.Ints, m.Bytes
	for t := range function.Ins() {
		v := reflect.New(t).Elem()
		if t.Kind() == reflect.Slice {
			v.SetBytes(bytes[0])
			bytes = bytes[1:]
		} else {
			v.SetInt(ints[0])
			ints = ints[1:]
		}
		in = append(in, v)
	}
	return in
}

// place is where the running panic began: the functions of the plugin and the SDK, the innermost first.
func place() string {
	var b strings.Builder
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	for {
		f, more := frames.Next()
		if !more || strings.HasPrefix(f.Function, "reflect.") {
			return b.String()
		}
		if !strings.HasPrefix(f.Function, "runtime.") {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
	}
}

// remote is the parent's host.
type remote struct{ s *server }

var _ abi.Host = remote{}

// call calls an import. Its arguments are numbers and slices. dst, if not nil, receives what the host writes.
func (r remote) call(name string, returns bool, dst []byte, arguments ...any) int64 {
	m := message{Name: name, Returns: returns, Room: len(dst)}
	for _, a := range arguments {
		if b, ok := a.([]byte); ok {
			m.Bytes = append(m.Bytes, b)
		} else {
			m.Ints = append(m.Ints, reflect.ValueOf(a).Int())
		}
	}
	err := r.s.send(&m, returns)
	if err != nil || !returns {
		r.check(err)
		return 0
	}
	var result message
	r.check(r.s.in.Decode(&result))
	if len(result.Bytes) > 0 {
		copy(dst, result.Bytes[0])
	}
	return result.Result
}

// check ends the process without its parent.
func (r remote) check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice: call the host:", err)
		os.Exit(1)
	}
}

func (r remote) do(name string, arguments ...any) { r.call(name, false, nil, arguments...) }

func (r remote) status(name string, arguments ...any) abi.Status {
	return abi.Status(r.call(name, true, nil, arguments...))
}

func (r remote) read(name string, dst []byte, arguments ...any) int32 {
	return int32(r.call(name, true, dst, arguments...))
}
