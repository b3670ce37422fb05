package wasm

import "bytes"

// Custom returns the content of the first custom section with a name.
func Custom(module []byte, name string) (content []byte, ok bool) {
	sections, err := Split(module)
	if err != nil {
		return nil, false
	}
	for i := range sections {
		s := &sections[i]
		if s.ID != SecCustom || string(s.Name) != name {
			continue
		}
		r := s.reader(module)
		r.name()
		return bytes.Clone(module[r.pos:s.End]), true
	}
	return nil, false
}

// AppendCustom returns the module with a further custom section at its end.
func AppendCustom(module []byte, name string, content []byte) []byte {
	w := Writer{Out: bytes.Clone(module)}
	at := w.BeginSection(SecCustom)
	w.Name(name)
	w.Append(content...)
	w.EndSized(at)
	return w.Out
}

// FunctionNames looks the names of functions up in the content of a module's name section: for each index that is a key of
// found and has a name, it sets the name. Names are what the module says, and may be any UTF-8. Content that is malformed
// has only the names before that.
func FunctionNames(content []byte, found map[uint32]string) {
	const functions = 1 // the subsection
	r := reader{buf: content, end: len(content)}
	for r.err == nil && r.left() > 0 {
		id, size := r.byte(), r.u32()
		names := r.bytes(size)
		if r.err != nil || id != functions {
			continue
		}
		n := reader{buf: names, end: len(names)}
		for range n.count(maxFuncs, 2) {
			index, name := n.u32(), n.name()
			if n.err != nil {
				return
			}
			if _, wanted := found[index]; wanted {
				found[index] = string(name)
			}
		}
		return
	}
}
