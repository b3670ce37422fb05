package jsondoc

import (
	"bytes"
	"encoding/binary"
)

// minCopied is the size of the shortest string, with its quotes, that is compared with those of Limits.Source. Shorter
// ones are scanned as fast.
const minCopied = 64

// copiedWindow is how many nodes of the source a search visits once many strings have not been found.
const copiedWindow = 32

// copies finds strings that were copied unchanged from another document. A string that equals one of the source, quotes
// included, is valid and ends where that one does, so it needs no scan. Comparing takes a fraction of the time.
//
// Most strings are found at once, because a document that is made from another one has most of its strings in the same
// order. All others have to share a budget, so that the time is linear in the size of the two documents.
type copies struct {
	source *Doc
	next   int // node after the string that was found last
	budget int // nodes that may be visited before searches end after copiedWindow nodes
}

// copiesFrom returns the copies from a source, which may be nil. If it is, or if its strings may be invalid in d, source
// is nil in the result.
func (d *Doc) copiesFrom(source *Doc) copies {
	if source == nil || source == d || source.loose && !d.loose {
		return copies{}
	}
	return copies{source: source, budget: 8 * len(source.nodes)}
}

// find returns the index of the closing quote and the flags of the string whose opening quote is at i in b, or 0 if the
// source does not have it.
func (c *copies) find(b []byte, i int) (end int, flags uint8) {
	if len(b)-i < minCopied {
		return 0, 0
	}
	nodes, body, rest := c.source.nodes, c.source.body, b[i:]
	begin := binary.LittleEndian.Uint64(rest)
	visits := len(nodes)
	if c.budget <= 0 {
		visits = min(visits, copiedWindow)
	}
	k := c.next
	for range visits {
		if k >= len(nodes) {
			k = 0
		}
		n := &nodes[k]
		k++
		if n.kind != String || n.end-n.start < minCopied || binary.LittleEndian.Uint64(body[n.start:]) != begin {
			continue
		}
		if bytes.HasPrefix(rest, body[n.start:n.end]) {
			c.next = k
			return i + int(n.end-n.start) - 1, n.flags & flagEscaped
		}
	}
	c.budget -= visits
	return 0, 0
}
