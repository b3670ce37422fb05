package wasm

// TakeData removes the data section from a module if the host can write its segments instead of the runtime, that is,
// if all segments are active and within the initial memory and no code refers to them. data is the content of the
// section, for [Segments]; it is nil if the module has no data section or has to keep it.
//
// The output shares memory with the module only if data is nil.
func TakeData(module []byte) (rest, data []byte, err error) {
	m, err := Parse(module)
	if err != nil {
		return nil, nil, err
	}
	s := m.Section(SecData)
	if s == nil || m.DataCount >= 0 {
		return module, nil, nil
	}
	for _, d := range m.Data {
		if d.Passive || uint64(d.Offset)+uint64(len(d.Bytes)) > uint64(m.Memory.Min)*pageSize {
			return module, nil, nil
		}
	}
	rest = make([]byte, 0, len(module)-(s.End-s.Start))
	rest = append(append(rest, module[:s.Start]...), module[s.End:]...)
	return rest, append([]byte(nil), module[s.Content:s.End]...), nil
}

// pageSize is the size of a page of memory in bytes.
const pageSize = 64 << 10

// Segments parses the content of a data section. The segments share its memory.
func Segments(data []byte) ([]Data, error) {
	if len(data) == 0 {
		return nil, nil
	}
	m := &Module{Bytes: data, Sections: []Section{{ID: SecData, End: len(data)}}, DataCount: -1}
	if err := m.parseSection(SecData); err != nil {
		return nil, err
	}
	return m.Data, nil
}
