package plugin

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// callTracer writes what goes in and out of each call of a guest in WebAssembly: its input, and the imports that it
// calls, with their results. The text has prompts and responses. It is for developing plugins, and safe for concurrent
// use: a call is written as a whole when it ends.
type callTracer struct {
	mu  sync.Mutex
	out io.Writer
}

// maxTraced is the length, in bytes, at which a text in a trace is cut.
const maxTraced = 400

// callTrace is the trace of the current call. It is empty unless Options.Trace is set.
type callTrace struct {
	tracer *callTracer // nil if calls are not traced
	text   strings.Builder
	began  time.Time
}

// begin starts the trace of a call.
func (t *callTrace) begin(c *call) {
	t.text.Reset()
	t.began = time.Now()
	request := ""
	if c.attempt != nil {
		request = c.attempt.Summary.RequestID + " "
	}
	fmt.Fprintf(&t.text, "%s%s %s", request, c.binding.name, c.export)
	switch c.export {
	case exportResponse, exportModels:
		fmt.Fprintf(&t.text, " status %d", c.number)
	case exportEvent:
		if c.number != int32(abi.EventPlain) {
			fmt.Fprintf(&t.text, " kind %d", c.number)
		}
	}
	t.text.WriteByte('\n')
	for _, p := range [][]byte{c.first, c.second} {
		if len(p) > 0 {
			fmt.Fprintf(&t.text, "  in   %s\n", traced(p))
		}
	}
}

// addImport adds a call of an import, after it has run. stack are its parameters as they were passed, and a has its
// result.
func (t *callTrace) addImport(i *engine.Instance, index int, stack []uint64, a *args) {
	im := &abi.Imports[index]
	t.text.WriteString("  " + im.Name)
	for _, kind := range strings.TrimSuffix(im.Params, bufferParams(im)) {
		switch kind {
		case 's':
			p, _ := i.Read(uint32(stack[0]), uint32(stack[1]))
			t.text.WriteString(" " + traced(p))
			stack = stack[2:]
		default:
			t.text.WriteString(" " + strconv.FormatInt(signed(kind, stack[0]), 10))
			stack = stack[1:]
		}
	}
	if im.Results != "" {
		result := signed(rune(im.Results[0]), a.stack[0])
		fmt.Fprintf(&t.text, " = %d", result)
		if n := min(result, int64(len(a.room))); n > 0 {
			t.text.WriteString(": " + traced(a.room[:n]))
		}
	}
	t.text.WriteByte('\n')
}

// bufferParams returns the parameters of an import that are the buffer for its result.
func bufferParams(im *abi.Import) string {
	switch im.Name {
	case "input_get", "input_text", "body_get", "body_index", "response_header", "state_get":
		return "ii"
	}
	return ""
}

func signed(kind rune, cell uint64) int64 {
	if kind == 'I' {
		return int64(cell)
	}
	return int64(int32(uint32(cell)))
}

// end writes the trace of a call that has ended.
func (t *callTrace) end(used int64, status int32, failed *CallError, err error) {
	took := time.Since(t.began).Round(time.Microsecond)
	switch {
	case failed != nil:
		fmt.Fprintf(&t.text, "  failed after %d units, %v: %v: %s\n", used, took, failed.Kind, failed.Reason)
	case err != nil:
		fmt.Fprintf(&t.text, "  failed after %d units, %v: %v\n", used, took, err)
	default:
		fmt.Fprintf(&t.text, "  returned %d after %d units, %v\n", status, used, took)
	}
	t.tracer.mu.Lock()
	defer t.tracer.mu.Unlock()
	_, _ = io.WriteString(t.tracer.out, t.text.String()) // nobody could be told
}

// traced quotes a text on one line, cut if it is long.
func traced(p []byte) string {
	rest := 0
	if len(p) > maxTraced {
		n := maxTraced
		for n > 0 && !utf8.RuneStart(p[n]) {
			n--
		}
		p, rest = p[:n], len(p)-n
	}
	text := strconv.Quote(string(p))
	if rest > 0 {
		text += fmt.Sprintf(" and %d bytes", rest)
	}
	return text
}
