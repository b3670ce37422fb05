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

// message is what a process that serves plugins and its parent exchange, encoded with encoding/gob. The parent declares
// the same type. The parent calls an export; the child calls imports until it sends the export's result. An import
// without a result gets no reply.
type message struct {
	Instance int      // chosen by the parent
	Name     string   // name of the called method of Instance or abi.Host; "New" and "Has" take a name as argument; empty in a result
	Ints     []int64  // the call's integer arguments in order
	Bytes    [][]byte // the call's slice arguments in order; in a result, the bytes for the destination slice
	Room     int      // length of the import's destination slice, which is its last parameter; 0 if it has none
	Returns  bool     // the import has a result
	Result   int64
	Panic    string // if the export panicked: the value and the stack, one frame per line
}

// ServeParent serves the plugins of this program to its parent process over file descriptors 3 and 4, then exits.
// `sluice plugin test` adds a call of it to a plugin's program.
func ServeParent() {
	if err := Serve(os.NewFile(3, "calls"), os.NewFile(4, "results")); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve reads calls of exports from r and writes their results to w until r ends.
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

// server is the child's end of the connection.
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
			result.Panic = fmt.Sprintf("panic: %v\n%s", v, formatStack())
		}
	}()
	in := s.instances[m.Instance]
	if m.Name == "New" {
		in = New(string(m.Bytes[0]), remote{s})
		s.instances[m.Instance] = in
	}
	if in == nil {
		return result // no plugin of that name
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

// arguments converts the arguments of a call to the function's parameter types.
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

// formatStack formats the stack of the current panic: the functions of the plugin and the SDK, innermost first.
func formatStack() string {
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

// remote is the parent's host. It forwards imports to the parent.
type remote struct{ s *server }

var _ abi.Host = remote{}

// call calls an import with arguments that are integers or byte slices. What the host writes is copied to dst, which
// may be nil.
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

// check exits if the connection to the parent is broken.
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
