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

// AppendCompact appends the value without the white space between its tokens.
func (v Value) AppendCompact(dst []byte) []byte {
	if v.d == nil {
		return dst
	}
	n := v.node()
	if v.d.spaces == 0 || n.kind < Object {
		return append(dst, v.Raw()...)
	}
	at, nodes := n.start, v.d.nodes
	for i := v.i + 1; i < uint32(len(nodes)) && nodes[i].start < n.end; i++ {
		if c := &nodes[i]; c.kind == String {
			dst = appendWithoutSpace(dst, v.d.body[at:c.start])
			dst = append(dst, v.d.body[c.start:c.end]...)
			at = c.end
		}
	}
	return appendWithoutSpace(dst, v.d.body[at:n.end])
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
// between its tokens. dst must not overlap json. An error is a *SyntaxError; nothing is appended then.
func AppendCompact(dst, json []byte) ([]byte, error) {
	d := docs.Get().(*Doc)
	defer docs.Put(d)
	defer d.Reset()
	if err := d.Parse(json, Limits{}); err != nil {
		return dst, err
	}
	return d.AppendCompact(dst), nil
}
