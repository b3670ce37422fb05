package blocklist

import (
	"unicode"
	"unicode/utf8"
)

// automaton is an Aho-Corasick automaton for a set of phrases: a trie of their folded bytes, in which each node is
// linked to its longest proper suffix. It is immutable once built.
type automaton struct {
	nodes []node
	first [256]int32 // children of the root by byte, 0 if there is none
	edges []edge     // other children: a hash table with open addressing, whose length is a power of two
}

// node is a prefix of a phrase.
type node struct {
	fail   int32  // the longest proper suffix that is a node as well; may be the root
	match  int32  // the longest suffix that is a phrase, possibly the node itself; 0 if there is none
	runes  uint16 // number of complete runes
	phrase bool   // the node is a complete phrase
	leaf   bool   // the node has no children
}

// edge leads from a node other than the root to a child.
type edge struct {
	key  uint32 // node<<8 | byte, 0 if the slot is free
	node int32  // the child
}

const root = 0

// newAutomaton builds the automaton for phrases, which must not be empty.
func newAutomaton(phrases [][]byte) automaton {
	size := 1
	for _, p := range phrases {
		size += len(p) // fold never returns a longer rune, because it returns the smallest
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
				at = a.addChild(at, c, runes)
			}
			runes++
			a.nodes[at].runes = runes
		}
		a.nodes[at].phrase = true
	}
	a.link()
	return a
}

// addChild returns the child of a node for a byte, which it adds if there is none. runes is the child's number of
// complete runes.
func (a *automaton) addChild(at int32, c byte, runes uint16) int32 {
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

// slot returns the index in edges at which the search for a key begins.
func (a *automaton) slot(key uint32) int {
	return int(key*0x9e3779b1>>7) & (len(a.edges) - 1)
}

// child returns the child of a node for a byte, root if there is none.
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

// link sets fail and match of all nodes, level by level, because a node's suffixes are shorter than the node.
func (a *automaton) link() {
	// The parent of each node, and the byte that leads from there to the node.
	parent, by := make([]int32, len(a.nodes)), make([]byte, len(a.nodes))
	for _, e := range a.edges {
		if e.key != 0 {
			parent[e.node], by[e.node] = int32(e.key>>8), byte(e.key)
		}
	}
	depth := make([]int32, len(a.nodes))
	deepest := int32(0)
	for n := 1; n < len(a.nodes); n++ { // parents have lower indexes than their children
		depth[n] = depth[parent[n]] + 1
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
				at := a.nodes[parent[n]].fail
				for at != root && a.child(at, by[n]) == root {
					at = a.nodes[at].fail
				}
				x.fail = a.child(at, by[n])
			}
			x.match = a.nodes[x.fail].match
			if x.phrase {
				x.match = n
			}
		}
	}
}

// fold returns the smallest of the runes that differ from r only in case (Unicode simple case folding), or a space for
// white space.
func fold(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return rune(foldedASCII[r])
	case r >= 0x3000 && r < 0xa640, r >= 0xac00 && r < 0xd800: // most scripts without case
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

// foldedASCII contains the results of fold for ASCII characters.
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

// inWord reports whether a rune is part of a word, in a script that separates words by spaces.
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
