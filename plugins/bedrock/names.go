package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// maxName is the maximum length of a tool's name and of a call's ID.
const maxName = 64

// validName reports whether the provider accepts s as a name or ID.
func validName(s []byte) bool { return len(s) <= maxName && translate.ValidName(s) }

// appendName appends s, or if the provider does not accept it, a valid name derived from it and made unique by a hash.
// The same s always gives the same name, so that results refer to their calls, and the turns of a conversation match.
func appendName(dst, s []byte) []byte {
	if validName(s) {
		return append(dst, s...)
	}
	const (
		digits = "0123456789abcdef"
		tail   = 1 + 16
	)
	hash := uint64(0xcbf29ce484222325) // FNV-1a
	for i, c := range s {
		hash = (hash ^ uint64(c)) * 0x100000001b3
		switch {
		case i >= maxName-tail:
		case translate.NameByte(c):
			dst = append(dst, c)
		default:
			dst = append(dst, '_')
		}
	}
	dst = append(dst, '_')
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[hash>>shift&15])
	}
	return dst
}

// writeID writes the ID of a tool call.
func (t *translation) writeID(id []byte) {
	if validName(id) {
		t.w.Inside(id)
		return
	}
	t.scratch = appendName(t.scratch[:0], id)
	t.w.Text(t.scratch)
}

// writeName writes the name of a tool, given as escaped content. If the provider does not accept it, the tool gets an
// alias, which the gateway replaces by the name in the response.
func (t *translation) writeName(inside []byte) {
	if validName(inside) {
		t.w.Inside(inside)
		return
	}
	name := json.AppendText(nil, inside)
	alias := appendName(nil, name)
	t.w.Text(alias)
	for _, known := range t.aliased {
		if bytes.Equal(known, name) {
			return
		}
	}
	if !bytes.Equal(alias, name) && t.r.ToolAlias(alias, name) {
		t.aliased = append(t.aliased, name)
	}
}
