package wasm

import "bytes"

// Custom returns a copy of the content of the first custom section with the given name.
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

// AppendCustom returns a copy of the module with another custom section at the end.
func AppendCustom(module []byte, name string, content []byte) []byte {
	w := Writer{Out: bytes.Clone(module)}
	at := w.BeginSection(SecCustom)
	w.Name(name)
	w.Append(content...)
	w.EndSized(at)
	return w.Out
}

// FunctionNames looks up names of functions in the content of a module's name section. It sets the value of each key of
// names, a function index, that has a name. A name may be any UTF-8. If the content is malformed, the names before that
// point are set.
func FunctionNames(content []byte, names map[uint32]string) {
	const functions = 1 // ID of the subsection
	r := reader{buf: content, end: len(content)}
	for r.err == nil && r.left() > 0 {
		id, size := r.byte(), r.u32()
		subsection := r.bytes(size)
		if r.err != nil || id != functions {
			continue
		}
		n := reader{buf: subsection, end: len(subsection)}
		for range n.count(maxFuncs, 2) {
			index, name := n.u32(), n.name()
			if n.err != nil {
				return
			}
			if _, wanted := names[index]; wanted {
				names[index] = string(name)
			}
		}
		return
	}
}
