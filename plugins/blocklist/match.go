package blocklist

import "unicode/utf8"

// span is a range of the text in which a phrase is.
type span struct{ from, to int }

// finder finds phrases in one piece of text: of those that overlap the leftmost, and of those the longest. It is reused: found keeps its
// memory.
type finder struct {
	phrases automaton
	words   bool // a phrase neither begins nor ends within a word
	longest int  // runes of the longest phrase

	text     []byte
	complete bool

	found []span
	hold  int // the text from here on is held

	// The state of the automaton at a position: the node, and where in the text its phrase begins.
	state int32
	start int
}

// scan looks for phrases in text. What it holds is the beginning of a phrase, or the end of a word in which none begins: otherwise the
// rest of the word would look like the beginning of one. Of a word that is longer than any phrase the end is enough to see that.
func (f *finder) scan(text []byte, complete bool) {
	f.text, f.complete, f.found = text, complete, f.found[:0]
	f.state, f.start, f.hold = root, 0, len(text)
	pending, i := span{from: -1}, 0
	for {
		if f.phrases.nodes[f.state].match != root {
			if f.words && i == len(text) && !complete {
				// The next rune may belong to the phrase's last word. What was found before this phrase is final.
				if pending.from < 0 || f.start <= pending.from {
					break
				}
			} else if m, ok := f.endingAt(i); ok && (pending.from < 0 || m.from <= pending.from) {
				pending = m
			}
		}
		if pending.from >= 0 && f.isFinal(pending, i) {
			f.found = append(f.found, pending)
			i = pending.to
			f.state, f.start = root, i
			pending.from = -1
			continue
		}
		if i == len(text) {
			break
		}
		i = f.next(i)
	}
	if complete {
		return
	}
	if f.state != root {
		f.hold = f.start
	}
	if f.words {
		f.hold = min(f.hold, f.wordStart())
	}
}

// isFinal reports whether no longer or earlier phrase can take the place of a match.
func (f *finder) isFinal(m span, i int) bool {
	return f.state == root || f.start > m.from || i == len(f.text) && f.complete || f.start == m.from && f.phrases.nodes[f.state].leaf
}

// endingAt returns the longest phrase that ends at i and may end there.
func (f *finder) endingAt(i int) (m span, ok bool) {
	if f.words && !f.isBoundary(i) {
		return m, false
	}
	nodes := f.phrases.nodes
	for n := nodes[f.state].match; n != root; n = nodes[nodes[n].fail].match {
		from := i
		for range nodes[n].runes {
			_, size := utf8.DecodeLastRune(f.text[:from])
			from -= size
		}
		if !f.words || f.isBoundary(from) {
			return span{from, i}, true
		}
	}
	return m, false
}

// isBoundary reports whether i is not within a word. The beginning of the text is none: what was before it has gone on.
func (f *finder) isBoundary(i int) bool {
	if i == 0 || i == len(f.text) {
		return true
	}
	before, _ := utf8.DecodeLastRune(f.text[:i])
	after, _ := utf8.DecodeRune(f.text[i:])
	return !inWord(before) || !inWord(after)
}

// next takes in the rune at i, or all up to the first of which a phrase may begin, and returns the position after it.
func (f *finder) next(i int) int {
	a, text := &f.phrases, f.text
	if f.state == root {
		for i < len(text) && text[i] < utf8.RuneSelf && a.first[foldedASCII[text[i]]] == root {
			i++
		}
		f.start = i
		if i == len(text) {
			return i
		}
	}
	if c := text[i]; c < utf8.RuneSelf {
		f.take(foldedASCII[c])
		i++
	} else {
		r, size := utf8.DecodeRune(text[i:])
		var folded [utf8.UTFMax]byte
		for _, c := range folded[:utf8.EncodeRune(folded[:], fold(r))] {
			f.take(c)
		}
		i += size
	}
	if f.words {
		for f.state != root && !f.isBoundary(f.start) {
			f.fail()
		}
	}
	return i
}

// take goes from the state by a byte.
func (f *finder) take(c byte) {
	for {
		if next := f.phrases.child(f.state, c); next != root || f.state == root {
			f.state = next
			return
		}
		f.fail()
	}
}

// fail goes to the longest proper suffix of the state, and moves start by as many runes.
func (f *finder) fail() {
	x := &f.phrases.nodes[f.state]
	f.state = x.fail
	for range x.runes - f.phrases.nodes[x.fail].runes {
		_, size := utf8.DecodeRune(f.text[f.start:])
		f.start += size
	}
}

// wordStart returns where the word begins in which the text ends, or, if it has more runes than any phrase, the last runes of it that show
// that.
func (f *finder) wordStart() int {
	at := len(f.text)
	for range f.longest + 1 {
		r, size := utf8.DecodeLastRune(f.text[:at])
		if !inWord(r) {
			break
		}
		at -= size
	}
	return at
}
