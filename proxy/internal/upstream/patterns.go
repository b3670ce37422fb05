package upstream

import (
	"bytes"
	"slices"
)

// patterns are texts of one length to be found in another one. A few are looked for one after the other, which is what a
// processor does best; a gateway with a hundred thousand client keys has too many for that, and a text is then read once,
// with a rolling hash (Rabin and Karp).
type patterns struct {
	length int
	few    [][]byte
	many   map[string]struct{}
	sieve  sieve // of the hashes of many
	first  uint64
}

// maxFew is how many are looked for one after the other.
const maxFew = 16

// base is that of the hash, a polynomial modulo 2^64.
const base = 0x9E3779B97F4A7C15

// patternsOf groups texts by their length, the longest first. There is no text without a byte.
func patternsOf(texts [][]byte) []patterns {
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
	p.many, p.sieve = make(map[string]struct{}, len(texts)), newSieve(len(texts))
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
		p.sieve.add(h)
	}
}

// replace returns text with all patterns redacted: text itself where it has none, else a new slice.
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
	from, hashed := 0, 0 // text[:from] is done with; h is of the last hashed bytes
	for i, c := range text {
		if hashed == p.length {
			h -= uint64(text[i-p.length]) * p.first
			hashed--
		}
		h = h*base + uint64(c)
		hashed++
		if hashed < p.length || !p.sieve.has(h) {
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

// sieve knows of most hashes that they are not among some. Its size is a power of two.
type sieve []uint64

// newSieve makes a sieve for n hashes, of which one in 16 passes that should not.
func newSieve(n int) sieve {
	bits := 64
	for bits < 16*n {
		bits *= 2
	}
	return make(sieve, bits/64)
}

func (s sieve) place(h uint64) (word int, bit uint64) {
	// The high bits of the hash depend on all bytes.
	h ^= h >> 32
	return int(h>>6) & (len(s) - 1), 1 << (h & 63)
}

func (s sieve) add(h uint64) {
	word, bit := s.place(h)
	s[word] |= bit
}

func (s sieve) has(h uint64) bool {
	word, bit := s.place(h)
	return s[word]&bit != 0
}
