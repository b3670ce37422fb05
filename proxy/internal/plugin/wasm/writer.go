package wasm

// Writer writes a module. It only appends to its output; sizes and counts that become
// known later are patched into numbers of fixed width.
type Writer struct {
	Out []byte
}

// Append writes raw bytes.
func (w *Writer) Append(b ...byte) { w.Out = append(w.Out, b...) }

// U32 writes an unsigned number.
func (w *Writer) U32(v uint32) { w.Out = AppendU32(w.Out, v) }

// Signed writes a signed number.
func (w *Writer) Signed(v int64) { w.Out = AppendSigned(w.Out, v) }

// Name writes a string, preceded by its length.
func (w *Writer) Name(s string) {
	w.U32(uint32(len(s)))
	w.Out = append(w.Out, s...)
}

// Indexed writes an instruction whose only immediate is an index or a label.
func (w *Writer) Indexed(opcode byte, index uint32) {
	w.Out = AppendU32(append(w.Out, opcode), index)
}

// BeginSection begins a section. EndSized(at) ends it.
func (w *Writer) BeginSection(id byte) (at int) {
	w.Append(id)
	return w.Reserve()
}

// reservedSize is the width in bytes of a number that Reserve reserves.
const reservedSize = 5

// Reserve reserves space for a number that Patch or EndSized writes later.
func (w *Writer) Reserve() (at int) {
	w.Append(0, 0, 0, 0, 0)
	return len(w.Out) - reservedSize
}

// EndSized writes the number reserved at at: the size of the output after it.
func (w *Writer) EndSized(at int) { w.Patch(at, len(w.Out)-at-reservedSize) }

// Patch writes v at at, in five bytes, which LEB128 allows for any 32-bit number.
func (w *Writer) Patch(at, v int) {
	w.Out[at] = byte(v) | 0x80
	w.Out[at+1] = byte(v>>7) | 0x80
	w.Out[at+2] = byte(v>>14) | 0x80
	w.Out[at+3] = byte(v>>21) | 0x80
	w.Out[at+4] = byte(v >> 28)
}

// AppendU32 appends an unsigned LEB128 number.
func AppendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// AppendSigned appends a signed LEB128 number.
func AppendSigned(dst []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}
