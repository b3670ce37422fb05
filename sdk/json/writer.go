package json

// Output receives the bytes that a Writer does not keep in Buf. They are valid only during the call.
type Output interface {
	Write(p []byte)
}

// minOutput is the size in bytes from which a value is passed to Output instead of being copied to Buf. For a plugin,
// Output costs two calls to the host, which is more than copying a kilobyte.
const minOutput = 4096

// Writer appends JSON to Buf. It writes commas; the caller writes member names and closes objects and arrays.
//
//	w.Object()
//	w.Field("model").Text(model)
//	w.Field("messages").Raw(messages)
//	w.EndObject()
//
// The zero Writer is ready to use. If Out is set, large values given to Raw, Inside and Part are passed to Out without
// being copied, and Flush passes on the rest.
//
// Literal, Verbatim and Part are inlined and meant for output that is written often. The other methods are not inlined,
// which makes a translator's module 5% smaller.
type Writer struct {
	Buf  []byte // the document so far, without what has been passed to Out
	Out  Output // nil keeps the whole document in Buf
	last byte   // the last byte passed to Out
}

// Reset starts a new document, reusing Buf's memory.
func (w *Writer) Reset() { w.Buf, w.last = w.Buf[:0], 0 }

// Flush passes Buf to Out and empties it.
func (w *Writer) Flush() {
	if len(w.Buf) > 0 && w.Out != nil {
		w.last = w.Buf[len(w.Buf)-1]
		w.Out.Write(w.Buf)
		w.Buf = w.Buf[:0]
	}
}

// putComma writes a comma if the last byte ends a value.
func (w *Writer) putComma() {
	last := w.last
	if n := len(w.Buf); n > 0 {
		last = w.Buf[n-1]
	}
	if !opens[last] {
		w.Buf = append(w.Buf, ',')
	}
}

// opens contains the bytes after which there is no comma; zero stands for an empty document.
var opens = [256]bool{0: true, '{': true, '[': true, ':': true, ',': true}

// Object opens an object.
//
//go:noinline
func (w *Writer) Object() { w.putComma(); w.Buf = append(w.Buf, '{') }

// EndObject closes an object.
func (w *Writer) EndObject() { w.Buf = append(w.Buf, '}') }

// Array opens an array.
//
//go:noinline
func (w *Writer) Array() { w.putComma(); w.Buf = append(w.Buf, '[') }

// EndArray closes an array.
func (w *Writer) EndArray() { w.Buf = append(w.Buf, ']') }

// Name writes the name of a member. It must not need escapes.
//
//go:noinline
func (w *Writer) Name(name string) {
	w.putComma()
	w.Buf = append(w.Buf, '"')
	w.Buf = append(w.Buf, name...)
	w.Buf = append(w.Buf, '"', ':')
}

// Field is like Name, and returns w for the value: w.Field("model").Text(model).
func (w *Writer) Field(name string) *Writer {
	w.Name(name)
	return w
}

// NameText is like Name, for a name that may need escapes.
func (w *Writer) NameText(name []byte) {
	w.putComma()
	w.Buf = append(AppendString(w.Buf, name), ':')
}

// Raw writes a JSON value.
//
//go:noinline
func (w *Writer) Raw(value []byte) {
	w.putComma()
	w.Part(value)
}

// Part writes a part of a value as it is, without a comma.
func (w *Writer) Part(p []byte) {
	if len(p) < minOutput {
		w.Buf = append(w.Buf, p...)
		return
	}
	w.outputPart(p)
}

// outputPart is separate from Part so that Part can be inlined.
func (w *Writer) outputPart(p []byte) {
	if w.Out == nil {
		w.Buf = append(w.Buf, p...)
		return
	}
	w.Flush()
	w.last = p[len(p)-1]
	w.Out.Write(p)
}

// Comma writes a comma if the output so far ends with a value. Use it if the next value does not come from this Writer.
func (w *Writer) Comma() { w.putComma() }

// Literal writes a constant JSON value, or the beginning of one; Verbatim writes the rest.
func (w *Writer) Literal(s string) {
	w.putComma()
	w.Buf = append(w.Buf, s...)
}

// Verbatim appends a constant as it is, without a comma.
func (w *Writer) Verbatim(s string) { w.Buf = append(w.Buf, s...) }

// Inside writes a string from the bytes between its quotes, which are already escaped.
//
//go:noinline
func (w *Writer) Inside(inside []byte) {
	w.putComma()
	w.Buf = append(w.Buf, '"')
	w.Part(inside)
	w.Buf = append(w.Buf, '"')
}

// Text writes a string.
func (w *Writer) Text(text []byte) { w.putComma(); w.Buf = AppendString(w.Buf, text) }

// String writes a constant string that needs no escapes.
//
//go:noinline
func (w *Writer) String(s string) {
	w.putComma()
	w.Buf = append(w.Buf, '"')
	w.Buf = append(w.Buf, s...)
	w.Buf = append(w.Buf, '"')
}

// Int writes a number.
func (w *Writer) Int(n int64) { w.putComma(); w.Buf = AppendInt(w.Buf, n) }

// Bool writes true or false.
//
//go:noinline
func (w *Writer) Bool(b bool) {
	w.putComma()
	if b {
		w.Buf = append(w.Buf, "true"...)
	} else {
		w.Buf = append(w.Buf, "false"...)
	}
}

// Null writes null.
func (w *Writer) Null() { w.putComma(); w.Buf = append(w.Buf, "null"...) }
