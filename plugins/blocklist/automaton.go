package blocklist

import (
	"unicode"
	"unicode/utf8"
)

// automaton finds a set of phrases (Aho and Corasick): a trie of their folded bytes, in which each node leads to that of its longest
// proper suffix. It is immutable once it is linked.
type automaton struct {
	nodes []node
	first [256]int32 // the children of the root; 0 is none
	edges []edge     // the other ones: a hash table with open addressing, of a power of two
}

// node is the beginning of a phrase.
type node struct {
	fail  int32 // the longest proper suffix that is a node, too; 0 is the root
	match int32 // the longest suffix that is a phrase, this node included; 0 if there is none
	runes uint16
	last  bool // a phrase ends here
	leaf  bool // no phrase goes on
}

// edge leads from a node to a child by a byte.
type edge struct {
	key  uint32 // node<<8 | byte; 0 is free, as an edge of the root is not here
	node int32
}

const root = 0

// build makes the automaton of phrases, which are not empty.
func build(phrases [][]byte) automaton {
	size := 1
	for _, p := range phrases {
		size += len(p) // folding makes no rune longer: it takes the smallest
	}
	a := automaton{nodes: make([]node, 1, size)}
	slots := 16
	for slots < 2*size {
		slots *= 2
	}
	a.edges = make([]edge, slots)
	for _, p := range phrases {
		at, runes := int32(root), uint16(0)
		for len(p) > 0 {
			r, n := utf8.DecodeRune(p)
			p = p[n:]
			var folded [utf8.UTFMax]byte
			for _, c := range folded[:utf8.EncodeRune(folded[:], fold(r))] {
				at = a.grow(at, c, runes)
			}
			runes++
			a.nodes[at].runes = runes
		}
		a.nodes[at].last = true
	}
	a.link()
	return a
}

// grow returns the child of a node by a byte, and adds it if there is none. runes is how many whole runes lead to it.
func (a *automaton) grow(at int32, c byte, runes uint16) int32 {
	if next := a.child(at, c); next != root {
		return next
	}
	next := int32(len(a.nodes))
	a.nodes = append(a.nodes, node{runes: runes, leaf: true})
	a.nodes[at].leaf = false
	if at == root {
		a.first[c] = next
		return next
	}
	key := uint32(at)<<8 | uint32(c)
	i := a.slot(key)
	for a.edges[i].key != 0 {
		i = (i + 1) & (len(a.edges) - 1)
	}
	a.edges[i] = edge{key, next}
	return next
}

// slot is where the search for an edge begins.
func (a *automaton) slot(key uint32) int {
	return int(key*0x9e3779b1>>7) & (len(a.edges) - 1)
}

// child returns the child of a node by a byte, root if there is none.
func (a *automaton) child(at int32, c byte) int32 {
	if at == root {
		return a.first[c]
	}
	key := uint32(at)<<8 | uint32(c)
	for i := a.slot(key); ; i = (i + 1) & (len(a.edges) - 1) {
		switch e := &a.edges[i]; e.key {
		case key:
			return e.node
		case 0:
			return root
		}
	}
}

// link sets fail and match of all nodes. A node's suffixes are shorter than the node, so they are linked level by level.
func (a *automaton) link() {
	// Children by node: the table has them in no order.
	from, by := make([]int32, len(a.nodes)), make([]byte, len(a.nodes))
	for _, e := range a.edges {
		if e.key != 0 {
			from[e.node], by[e.node] = int32(e.key>>8), byte(e.key)
		}
	}
	depth := make([]int32, len(a.nodes))
	deepest := int32(0)
	for n := 1; n < len(a.nodes); n++ { // parents come before their children
		depth[n] = depth[from[n]] + 1
		deepest = max(deepest, depth[n])
	}
	levels := make([][]int32, deepest+1)
	for n := 1; n < len(a.nodes); n++ {
		levels[depth[n]] = append(levels[depth[n]], int32(n))
	}
	for d, level := range levels {
		for _, n := range level {
			x := &a.nodes[n]
			if d > 1 {
				at := a.nodes[from[n]].fail
				for at != root && a.child(at, by[n]) == root {
					at = a.nodes[at].fail
				}
				x.fail = a.child(at, by[n])
			}
			x.match = a.nodes[x.fail].match
			if x.last {
				x.match = n
			}
		}
	}
}

// fold returns what stands for all runes that differ from r only in case (Unicode simple folding): the smallest of them. White space
// is folded to a space.
func fold(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return rune(foldedASCII[r])
	case r >= 0x3000 && r < 0xa640, r >= 0xac00 && r < 0xd800: // most of what has no case
		if r == 0x3000 {
			return ' '
		}
		return r
	case unicode.IsSpace(r):
		return ' '
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// foldedASCII is fold for ASCII: capitals and spaces.
var foldedASCII = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		t[c] = byte(c)
		switch {
		case c >= 'a' && c <= 'z':
			t[c] -= 'a' - 'A'
		case c >= '\t' && c <= '\r':
			t[c] = ' '
		}
	}
	return t
}()

// inWord reports whether a rune is a part of a word, where words are written with spaces between them.
func inWord(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
	case r >= 0x0e00 && r < 0x0f00, // Thai, Lao
		r >= 0x1000 && r < 0x1100 || r >= 0x1780 && r < 0x1800,                                        // Myanmar, Khmer
		r >= 0x2e80 && r < 0xa4d0, r >= 0xac00 && r < 0xd7b0, r >= 0xf900 && r < 0xfb00, r >= 0x20000: // Chinese, Japanese, Korean
		return false
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
}
