package json

// Output takes what a Writer hands on. The bytes belong to the Writer and are valid during the call only.
type Output interface {
	Write(p []byte)
}

// handOn is from how many bytes on a Writer hands a value to its Output as it stands instead of copying it. In a guest
// that takes two calls of the host, and a copy of a kilobyte costs less than one.
const handOn = 4096

// Writer appends JSON to Buf. It puts the commas; the caller puts names before the members of objects and closes what
// it opened.
//
//	w.Object()
//	w.Name("model")
//	w.Text(model)
//	w.Name("messages")
//	w.Raw(messages)
//	w.EndObject()
//
// Literal, Verbatim and Part are for what is written often: they become a part of the caller. The others are calls, which
// makes a module of a translator a twentieth smaller.
//
// The zero Writer is ready to use. Where Out is set, a large value given to Raw or Inside is handed on without being
// copied, after what Buf holds, and Flush hands on the rest.
type Writer struct {
	Buf  []byte
	Out  Output
	last byte // the last byte that was handed on
}

// Reset begins a document and keeps Buf's memory.
func (w *Writer) Reset() { w.Buf, w.last = w.Buf[:0], 0 }

// Flush hands Buf on to Out.
func (w *Writer) Flush() {
	if len(w.Buf) > 0 && w.Out != nil {
		w.last = w.Buf[len(w.Buf)-1]
		w.Out.Write(w.Buf)
		w.Buf = w.Buf[:0]
	}
}

// separate puts a comma where a value stands before the one that comes. The last byte tells: no value ends in an
// opening bracket, a colon or a comma.
func (w *Writer) separate() {
	last := w.last
	if n := len(w.Buf); n > 0 {
		last = w.Buf[n-1]
	}
	if !opens[last] {
		w.Buf = append(w.Buf, ',')
	}
}

// opens says which bytes no comma follows; zero is that of an empty document.
var opens = [256]bool{0: true, '{': true, '[': true, ':': true, ',': true}

// Object opens an object.
//
//go:noinline
func (w *Writer) Object() { w.separate(); w.Buf = append(w.Buf, '{') }

// EndObject closes an object.
func (w *Writer) EndObject() { w.Buf = append(w.Buf, '}') }

// Array opens an array.
//
//go:noinline
func (w *Writer) Array() { w.separate(); w.Buf = append(w.Buf, '[') }

// EndArray closes an array.
func (w *Writer) EndArray() { w.Buf = append(w.Buf, ']') }

// Name begins a member. The name must need no escapes.
//
//go:noinline
func (w *Writer) Name(name string) {
	w.separate()
	w.Buf = append(w.Buf, '"')
	w.Buf = append(w.Buf, name...)
	w.Buf = append(w.Buf, '"', ':')
}

// NameText is Name for a name that comes from outside.
func (w *Writer) NameText(name []byte) {
	w.separate()
	w.Buf = append(AppendString(w.Buf, name), ':')
}

// Raw writes a value that is JSON already.
//
//go:noinline
func (w *Writer) Raw(value []byte) {
	w.separate()
	w.Part(value)
}

// Part writes a part of a value, such as of the inside of a string. It puts no comma before it.
func (w *Writer) Part(p []byte) {
	if len(p) < handOn {
		w.Buf = append(w.Buf, p...)
		return
	}
	w.partOut(p)
}

// partOut writes a large part. It is apart from Part so that this is inlined.
func (w *Writer) partOut(p []byte) {
	if w.Out == nil {
		w.Buf = append(w.Buf, p...)
		return
	}
	w.Flush()
	w.last = p[len(p)-1]
	w.Out.Write(p)
}

// Literal writes a value as it stands in the program, or the beginning of one: Verbatim writes the rest.
func (w *Writer) Literal(s string) {
	w.separate()
	w.Buf = append(w.Buf, s...)
}

// Verbatim appends s as it stands in the program. It puts no comma before it.
func (w *Writer) Verbatim(s string) { w.Buf = append(w.Buf, s...) }

// Inside writes a string whose inside is escaped already.
//
//go:noinline
func (w *Writer) Inside(inside []byte) {
	w.separate()
	w.Buf = append(w.Buf, '"')
	w.Part(inside)
	w.Buf = append(w.Buf, '"')
}

// Text writes a string.
func (w *Writer) Text(text []byte) { w.separate(); w.Buf = AppendString(w.Buf, text) }

// String writes a string that is written in the program and needs no escapes.
//
//go:noinline
func (w *Writer) String(s string) {
	w.separate()
	w.Buf = append(w.Buf, '"')
	w.Buf = append(w.Buf, s...)
	w.Buf = append(w.Buf, '"')
}

// Int writes a number.
func (w *Writer) Int(n int64) { w.separate(); w.Buf = AppendInt(w.Buf, n) }

// Bool writes true or false.
//
//go:noinline
func (w *Writer) Bool(b bool) {
	w.separate()
	if b {
		w.Buf = append(w.Buf, "true"...)
	} else {
		w.Buf = append(w.Buf, "false"...)
	}
}

// Null writes null.
func (w *Writer) Null() { w.separate(); w.Buf = append(w.Buf, "null"...) }
