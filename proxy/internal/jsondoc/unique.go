package jsondoc

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// fewMembers is the maximum number of members whose names are compared with each other. Larger objects, and objects
// with escaped names, are checked with a hash table, so that the time is always proportional to the size of the object.
const fewMembers = 16

// seed makes the hashes of names unpredictable for a client.
var seed = maphash.MakeSeed()

// duplicate checks the names of an object whose members are at the end of the tape. It returns the node of a name that
// appears for the second time, or 0 (which is never a name) if there is none, and flagCased if a name may be cased.
func (d *Doc) duplicate(nodes []node, object uint32) (again uint32, flags uint8) {
	var signatures [fewMembers]uint32
	var seen uint64 // bit set of the signatures, modulo 64
	var upper uint64
	n, clash, escaped := 0, false, uint8(0)
	end := uint32(len(nodes))
	for i := object + 1; i < end; i = nodes[i+1].next {
		name := &nodes[i]
		s, x := signature(d.body, name)
		upper |= x
		escaped |= name.flags
		if n == fewMembers || escaped&flagEscaped != 0 {
			return d.duplicateMany(nodes, object), flagCased
		}
		bit := uint64(1) << (s & 63)
		if seen&bit != 0 {
			for _, other := range signatures[:n] {
				clash = clash || other == s
			}
		}
		seen |= bit
		signatures[n] = s
		n++
	}
	if upper != 0 {
		flags = flagCased
	}
	if !clash {
		return 0, flags
	}
	for i := object + 1; i < end; i = nodes[i+1].next {
		name := d.body[nodes[i].start:nodes[i].end]
		for j := object + 1; j < i; j = nodes[j+1].next {
			if bytes.Equal(name, d.body[nodes[j].start:nodes[j].end]) {
				return i, flags
			}
		}
	}
	return 0, flags
}

// signature returns a cheap hash of a name, computed from its first bytes and its length. upper is not 0 if the name has
// an upper-case letter or a character that is not ASCII.
func signature(body []byte, name *node) (hash uint32, upper uint64) {
	length := name.end - name.start
	var x uint64
	if int(name.start)+8 <= len(body) {
		x = binary.LittleEndian.Uint64(body[name.start:])
		if length < 8 {
			x &= 1<<(8*length) - 1
		}
	} else {
		for i, c := range body[name.start:name.end] {
			x |= uint64(c) << (8 * i)
		}
	}
	upper = upperBytes(x)
	for at := name.end; at > name.start+8; at -= 8 {
		upper |= upperBytes(binary.LittleEndian.Uint64(body[at-8:]))
	}
	return uint32((x ^ uint64(length)<<56) * 0x9E3779B97F4A7C15 >> 32), upper
}

// duplicateMany is duplicate for any number of members and for escaped names. An entry of the table is the upper half
// of a name's hash and the name's node. 0 is a free slot, because no name is node 0.
func (d *Doc) duplicateMany(nodes []node, object uint32) uint32 {
	n := 0
	for i := object + 1; i < uint32(len(nodes)); i = nodes[i+1].next {
		n++
	}
	size := 64
	for size < 2*n {
		size *= 2
	}
	if cap(d.names) < size {
		d.names = make([]uint64, size)
	}
	table := d.names[:size]
	clear(table)
	mask := uint64(size - 1)

	for i := object + 1; i < uint32(len(nodes)); i = nodes[i+1].next {
		h := maphash.Bytes(seed, d.name(&nodes[i]))
		entry := h&^(1<<32-1) | uint64(i)
		for at := h & mask; ; at = (at + 1) & mask {
			e := table[at]
			if e == 0 {
				table[at] = entry
				break
			}
			if e>>32 == h>>32 && d.sameName(&nodes[uint32(e)], &nodes[i]) {
				return i
			}
		}
	}
	return 0
}

// name returns a name's text. If the name is escaped, the text is in scratch and valid until the next call.
func (d *Doc) name(n *node) []byte {
	inside := d.body[n.start+1 : n.end-1]
	if n.flags&flagEscaped == 0 {
		return inside
	}
	d.scratch = AppendUnescaped(d.scratch[:0], inside)
	return d.scratch
}

// sameName reports whether two names have the same text.
func (d *Doc) sameName(a, b *node) bool {
	if a.flags&flagEscaped == 0 {
		a, b = b, a
	}
	text := d.name(a)
	inside := d.body[b.start+1 : b.end-1]
	if b.flags&flagEscaped == 0 {
		return bytes.Equal(text, inside)
	}
	return equalText(inside, text)
}
