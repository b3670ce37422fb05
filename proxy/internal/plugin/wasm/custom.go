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
