package credential

import (
	"bytes"
	"slices"
)

// patterns are the strings of one length to search for. A few strings are searched one after the other, which is
// fastest. A gateway with a hundred thousand client keys has too many for that, so text is scanned once with a rolling
// hash (Rabin-Karp). In that case only the hash and the origin of each string are kept.
type patterns struct {
	length int              // in bytes
	few    [][]byte         // the strings, if there are at most maxFew
	many   map[uint64]int32 // otherwise: maps a string's hash to an index of origins
	filter filter           // Bloom filter of the keys of many
	first  uint64           // factor of the first byte of a string in its hash

	origins []origin
	secrets []string // all secrets, whatever their length
}

// origin is the secret and the form that a pattern is made from.
type origin struct {
	hash   uint64
	secret int32 // index in patterns.secrets
	next   int32 // index of another origin with the same hash, or -1
	length int32 // of the pattern
	form   form
}

// maxFew is the maximum number of strings that are searched one after the other.
const maxFew = 16

// base is the base of the hash, a polynomial modulo 2^64.
const base = 0x9E3779B97F4A7C15

// groupForms groups the forms of secrets by length, the longest first.
func groupForms(secrets []string) []patterns {
	var f forms
	var found []origin
	byLength := map[int32]int{}
	for i, s := range secrets {
		for _, t := range f.list(s) {
			o := origin{secret: int32(i), form: t.form, length: int32(len(t.text))}
			for _, c := range t.text {
				o.hash = o.hash*base + uint64(c)
			}
			if found == nil {
				found = make([]origin, 0, 4*len(secrets))
			}
			found = append(found, o)
			byLength[o.length]++
		}
	}
	lengths := make([]int32, 0, len(byLength))
	for n := range byLength {
		lengths = append(lengths, n)
	}
	slices.SortFunc(lengths, func(a, b int32) int { return int(b - a) })
	all := make([]patterns, len(lengths))
	at := make(map[int32]*patterns, len(lengths))
	for i, n := range lengths {
		p := &all[i]
		p.length, at[n] = int(n), p
		if n := byLength[n]; n > maxFew {
			p.secrets, p.origins = secrets, make([]origin, 0, n)
			p.many, p.filter = make(map[uint64]int32, n), newFilter(n)
			p.first = 1
			for range p.length - 1 {
				p.first *= base
			}
		}
	}
	for _, o := range found {
		at[o.length].add(o, secrets[o.secret])
	}
	return all
}

func (p *patterns) add(o origin, secret string) {
	if p.many == nil {
		p.few = append(p.few, o.form.append(nil, secret))
		return
	}
	o.next = -1
	if same, ok := p.many[o.hash]; ok {
		o.next = same
	}
	p.many[o.hash] = int32(len(p.origins))
	p.origins = append(p.origins, o)
	p.filter.add(o.hash)
}

// has reports whether text, whose hash is h, is one of the patterns in many.
func (p *patterns) has(h uint64, text []byte) bool {
	i, ok := p.many[h]
	for ok && i >= 0 {
		o := &p.origins[i]
		if bytes.Equal(o.form.append(nil, p.secrets[o.secret]), text) {
			return true
		}
		i = o.next
	}
	return false
}

// replace returns text with all patterns redacted: text itself if it contains none, otherwise a new slice.
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
		if p.has(h, text[at:i+1]) {
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
