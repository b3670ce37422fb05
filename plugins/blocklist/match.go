package blocklist

import "unicode/utf8"

// span is the range of a phrase in the text.
type span struct{ from, to int }

// finder finds phrases in one piece of text: of overlapping ones the leftmost, and of those the longest. It is reused,
// so that found keeps its memory.
type finder struct {
	phrases automaton
	words   bool // phrases begin and end at word boundaries
	longest int  // number of runes in the longest phrase

	text     []byte
	complete bool // no more text follows

	found []span
	hold  int // the text from here on is held

	// The state of the automaton: the current node, and its start in the text.
	state int32
	start int
}

// scan looks for phrases in text. It holds the possible start of a phrase at the end of the text. With words, it also
// holds the last word, because its rest would otherwise look like the start of a word. If the word is longer than any
// phrase, its end is enough.
func (f *finder) scan(text []byte, complete bool) {
	f.text, f.complete, f.found = text, complete, f.found[:0]
	f.state, f.start, f.hold = root, 0, len(text)
	pending, i := span{from: -1}, 0
	for {
		if f.phrases.nodes[f.state].match != root {
			if f.words && i == len(text) && !complete {
				// The next rune may continue the last word of the phrase. An earlier pending match is final.
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

// isFinal reports whether a match cannot be replaced by a longer or earlier one.
func (f *finder) isFinal(m span, i int) bool {
	return f.state == root || f.start > m.from || i == len(f.text) && f.complete || f.start == m.from && f.phrases.nodes[f.state].leaf
}

// endingAt returns the longest valid match that ends at i.
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

// isBoundary reports whether i is not within a word. The beginning of the text is a boundary, because scan holds a
// complete word, or enough of it that no phrase can end in it.
func (f *finder) isBoundary(i int) bool {
	if i == 0 || i == len(f.text) {
		return true
	}
	before, _ := utf8.DecodeLastRune(f.text[:i])
	after, _ := utf8.DecodeRune(f.text[i:])
	return !inWord(before) || !inWord(after)
}

// next consumes the rune at i, and returns the position after it. At the root, it first skips bytes with which no
// phrase begins.
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
		f.step(foldedASCII[c])
		i++
	} else {
		r, size := utf8.DecodeRune(text[i:])
		var folded [utf8.UTFMax]byte
		for _, c := range folded[:utf8.EncodeRune(folded[:], fold(r))] {
			f.step(c)
		}
		i += size
	}
	if f.words {
		for f.state != root && !f.isBoundary(f.start) {
			f.followFail()
		}
	}
	return i
}

// step advances the automaton by a byte.
func (f *finder) step(c byte) {
	for {
		if next := f.phrases.child(f.state, c); next != root || f.state == root {
			f.state = next
			return
		}
		f.followFail()
	}
}

// followFail replaces the state by its longest proper suffix, and advances start accordingly.
func (f *finder) followFail() {
	x := &f.phrases.nodes[f.state]
	f.state = x.fail
	for range x.runes - f.phrases.nodes[x.fail].runes {
		_, size := utf8.DecodeRune(f.text[f.start:])
		f.start += size
	}
}

// wordStart returns the start of the word at the end of the text, or if that is longer than any phrase, of its last
// longest+1 runes.
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
