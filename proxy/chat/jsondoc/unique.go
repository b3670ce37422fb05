package jsondoc

import (
	"bytes"
	"hash/maphash"
)

// fewMembers is up to how many members the names of an object are compared with each other. Larger objects, and all
// with escaped names, go through a hash table, so that an object of any size costs time in proportion to it.
const fewMembers = 16

// seed makes the hash of a name unknown to whoever writes documents.
var seed = maphash.MakeSeed()

// duplicate looks at the names of an object whose members are the end of the tape. It returns the node of a name that
// stands there for the second time, or 0, which can be no name.
func (d *Doc) duplicate(nodes []node, object uint32) uint32 {
	var seen uint64 // one bit for each name's signature
	n, clash, escaped := 0, false, uint8(0)
	end := uint32(len(nodes))
	for i := object + 1; i < end; i = nodes[i+1].next {
		name := &nodes[i]
		bit := signature(d.body[name.start:name.end])
		clash = clash || seen&bit != 0
		seen |= bit
		escaped |= name.flags
		n++
	}
	switch {
	case n <= 1:
		return 0
	case n > fewMembers || escaped&flagEscaped != 0:
		return d.duplicateMany(nodes, object, n)
	case !clash:
		return 0
	}
	for i := object + 1; i < end; i = nodes[i+1].next {
		name := d.body[nodes[i].start:nodes[i].end]
		for j := object + 1; j < i; j = nodes[j+1].next {
			if bytes.Equal(name, d.body[nodes[j].start:nodes[j].end]) {
				return i
			}
		}
	}
	return 0
}

// signature is one bit that equal names share. name has its quotes.
func signature(name []byte) uint64 {
	return 1 << ((uint(len(name))*13 + uint(name[1])*7 + uint(name[len(name)-2])*31) & 63)
}

// duplicateMany is duplicate for n members of any kind. The table holds, for each name, half of its hash and its node;
// no name is node 0, so 0 is a free place.
func (d *Doc) duplicateMany(nodes []node, object uint32, n int) uint32 {
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

// name is a name's text. If it is escaped it lies in scratch, until the next call.
func (d *Doc) name(n *node) []byte {
	inside := d.body[n.start+1 : n.end-1]
	if n.flags&flagEscaped == 0 {
		return inside
	}
	d.scratch = appendText(d.scratch[:0], inside)
	return d.scratch
}

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
