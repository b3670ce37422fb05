package jsondoc

import "sync"

// AppendCompact appends the document without the white space between its tokens. Digits, escapes and the order of the
// members stay as they are.
func (d *Doc) AppendCompact(dst []byte) []byte {
	if d.spaces == 0 {
		return append(dst, d.body...)
	}
	at := 0
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.kind != String {
			continue
		}
		dst = appendWithoutSpace(dst, d.body[at:n.start])
		dst = append(dst, d.body[n.start:n.end]...)
		at = int(n.end)
	}
	return appendWithoutSpace(dst, d.body[at:])
}

// appendWithoutSpace appends the bytes between two strings, without white space.
func appendWithoutSpace(dst, s []byte) []byte {
	for _, c := range s {
		if c > ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}

var docs = sync.Pool{New: func() any { return new(Doc) }}

// AppendCompact checks json as Doc.Parse does, within the default limits, and appends it without the white space
// between its tokens. dst must not overlap json. The error is a *SyntaxError, and then nothing is appended.
func AppendCompact(dst, json []byte) ([]byte, error) {
	d := docs.Get().(*Doc)
	defer docs.Put(d)
	defer d.Reset()
	if err := d.Parse(json, Limits{}); err != nil {
		return dst, err
	}
	return d.AppendCompact(dst), nil
}
