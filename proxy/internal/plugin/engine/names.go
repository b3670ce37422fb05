package engine

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// names is the content of a module's name section, which is searched when a trap is described. It is empty if the
// module has none, and immutable.
type names []byte

// maxNames limits the size of the name section that is kept in memory for each module. A larger one is ignored.
const maxNames = 1 << 20

// functionNames returns a module's name section.
func functionNames(module []byte) names {
	section, _ := wasm.Custom(module, "name")
	if len(section) > maxNames {
		return nil
	}
	return section
}

// name returns the name of a function, "" if it has none.
func (n names) name(index int) string {
	if index < 0 {
		return ""
	}
	found := map[uint32]string{uint32(index): ""}
	wasm.FunctionNames(n, found)
	return readable(found[uint32(index)])
}

// frames returns the names of the guest's functions in a stack trace of wazero, the innermost first. Host functions and
// functions without a name are left out. It returns nil if the module has no names.
func (n names) frames(trace string) []string {
	if len(n) == 0 {
		return nil
	}
	var indexes []uint32
	found := make(map[uint32]string)
	for line := range strings.Lines(trace) {
		if index, ok := frameIndex(line); ok {
			indexes = append(indexes, index)
			found[index] = ""
		}
	}
	wasm.FunctionNames(n, found)
	var list []string
	for _, i := range indexes {
		if name := found[i]; name != "" {
			list = append(list, readable(name))
		}
	}
	return list
}

// frameIndex parses the function index in a line of wazero's stack trace, such as "\t.$12(i32,i32) i32". It is false
// for a host function and for any other line.
func frameIndex(line string) (index uint32, ok bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), ".$")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(text, "(")
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), ok && err == nil
}

// maxFrame is the length, in bytes, at which a function's name is cut.
const maxFrame = 96

// readable prepares a function's name for the log: demangled if that is simple, printable ASCII, at most maxFrame
// bytes.
func readable(name string) string {
	if plain, ok := demangleRust(name); ok {
		name = plain
	}
	out := make([]byte, 0, min(len(name), maxFrame))
	for i := 0; i < len(name) && len(out) < maxFrame; i++ {
		c := name[i]
		if c < ' ' || c >= 0x7f {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

// demangleRust returns the path of a symbol that Rust or C++ has mangled as a nested name: core::num::parse for
// _ZN4core3num5parse17h0123456789abcdefE. It returns false for any other symbol, including C++ symbols with parameter
// types.
func demangleRust(symbol string) (path string, ok bool) {
	rest, ok := strings.CutPrefix(symbol, "_ZN")
	if !ok {
		return "", false
	}
	var parts []string
	for rest != "" && rest[0] != 'E' {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n > len(rest)-digits {
			return "", false
		}
		parts = append(parts, rest[digits:digits+n])
		rest = rest[digits+n:]
	}
	if rest == "" || len(parts) == 0 {
		return "", false
	}
	if hash := parts[len(parts)-1]; len(parts) > 1 && len(hash) == 17 && hash[0] == 'h' && strings.Trim(hash, "h0123456789abcdef") == "" {
		parts = parts[:len(parts)-1]
	}
	for i, p := range parts {
		if strings.HasPrefix(p, "_$") {
			p = p[1:]
		}
		parts[i] = rustEscapes.Replace(p)
	}
	return strings.Join(parts, "::"), true
}

var rustEscapes = strings.NewReplacer("$LT$", "<", "$GT$", ">", "$RF$", "&", "$BP$", "*", "$LP$", "(", "$RP$", ")", "$C$", ",",
	"$SP$", "@", "$u20$", " ", "$u27$", "'", "$u5b$", "[", "$u5d$", "]", "$u7b$", "{", "$u7d$", "}", "$u7e$", "~", "..", "::")

// Functions of language runtimes, which panic, abort or allocate. The cause of a trap in them is in their caller.
var (
	runtimePrefixes = []string{"std::", "core::", "alloc::", "<std::", "<core::", "<alloc::", "__rust", "runtime.", "internal/", "syscall.", "wasm_pc_", "~lib/", "__wasi_"}
	runtimeNames    = []string{"abort", "exit", "_Exit", "__assert_fail", "proc_exit", "rust_panic", "rust_begin_unwind", "rust_oom"}
)

// skipRuntime drops the innermost frames that belong to a language's runtime, unless all do.
func skipRuntime(frames []string) []string {
	for i, f := range frames {
		if !isRuntime(f) {
			return frames[i:]
		}
	}
	return frames
}

func isRuntime(frame string) bool {
	return slices.Contains(runtimeNames, frame) ||
		slices.ContainsFunc(runtimePrefixes, func(p string) bool { return strings.HasPrefix(frame, p) })
}

// annotate replaces the function indexes in a stack trace of wazero by the names of the guest's functions. goFrames
// describe the first functions of a Go guest.
func (n names) annotate(trace string, goFrames []Frame) string {
	if len(n) == 0 && len(goFrames) == 0 {
		return trace
	}
	found := make(map[uint32]string)
	for line := range strings.Lines(trace) {
		if index, ok := frameIndex(line); ok {
			found[index] = ""
		}
	}
	wasm.FunctionNames(n, found)
	var out bytes.Buffer
	frame := -1
	for line := range strings.Lines(trace) {
		index, ok := frameIndex(line)
		if ok {
			frame++
		}
		if ok && frame < len(goFrames) && goFrames[frame].Name != "" {
			line = "\t" + goFrames[frame].String() + "\n"
		} else if name := found[index]; ok && name != "" {
			at := strings.Index(line, ".$")
			line = line[:at] + readable(name) + line[strings.IndexByte(line, '('):]
		}
		out.WriteString(line)
	}
	return out.String()
}
