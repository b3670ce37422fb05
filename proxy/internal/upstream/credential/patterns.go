package credential

import (
	"bytes"
	"slices"
)

// patterns are strings of one length to search for. A few are searched one after the other, which is fastest. A gateway with a
// hundred thousand client keys has too many for that: text is then scanned once with a rolling hash (Rabin-Karp).
type patterns struct {
	length int
	few    [][]byte
	many   map[string]struct{}
	filter filter // of the hashes of many
	first  uint64
}

// maxFew is how many are searched one after the other.
const maxFew = 16

// base is the base of the hash, a polynomial modulo 2^64.
const base = 0x9E3779B97F4A7C15

// groupPatterns groups texts, none of which is empty, by length, the longest first.
func groupPatterns(texts [][]byte) []patterns {
	byLength := map[int][][]byte{}
	for _, t := range texts {
		byLength[len(t)] = append(byLength[len(t)], t)
	}
	all := make([]patterns, 0, len(byLength))
	for length, same := range byLength {
		p := patterns{length: length}
		if len(same) <= maxFew {
			p.few = same
		} else {
			p.index(same)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b patterns) int { return b.length - a.length })
	return all
}

func (p *patterns) index(texts [][]byte) {
	p.many, p.filter = make(map[string]struct{}, len(texts)), newFilter(len(texts))
	p.first = 1
	for range p.length - 1 {
		p.first *= base
	}
	for _, t := range texts {
		p.many[string(t)] = struct{}{}
		var h uint64
		for _, c := range t {
			h = h*base + uint64(c)
		}
		p.filter.add(h)
	}
}

// replace returns text with all patterns redacted: text itself if it has none, otherwise a new slice.
func (p *patterns) replace(text []byte) []byte {
	for _, f := range p.few {
		if bytes.Contains(text, f) {
			text = bytes.ReplaceAll(text, f, []byte(redacted))
		}
	}
	if p.many == nil || len(text) < p.length {
		return text
	}
	var out []byte
	var h uint64
	from, hashed := 0, 0 // text[:from] is copied to out; h covers the last hashed bytes
	for i, c := range text {
		if hashed == p.length {
			h -= uint64(text[i-p.length]) * p.first
			hashed--
		}
		h = h*base + uint64(c)
		hashed++
		if hashed < p.length || !p.filter.has(h) {
			continue
		}
		at := i + 1 - p.length
		if _, is := p.many[string(text[at:i+1])]; is {
			out = append(append(out, text[from:at]...), redacted...)
			from, h, hashed = i+1, 0, 0
		}
	}
	if out == nil {
		return text
	}
	return append(out, text[from:]...)
}

// filter is a Bloom filter with one hash function. Its size is a power of two.
type filter []uint64

// newFilter returns a filter for n hashes with a false positive rate of 1/16.
func newFilter(n int) filter {
	bits := 64
	for bits < 16*n {
		bits *= 2
	}
	return make(filter, bits/64)
}

func (s filter) place(h uint64) (word int, bit uint64) {
	// The high bits of the hash depend on all bytes.
	h ^= h >> 32
	return int(h>>6) & (len(s) - 1), 1 << (h & 63)
}

func (s filter) add(h uint64) {
	word, bit := s.place(h)
	s[word] |= bit
}

func (s filter) has(h uint64) bool {
	word, bit := s.place(h)
	return s[word]&bit != 0
}
