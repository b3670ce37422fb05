// Package excerpt makes the words of a provider or a plugin fit for the log: one line, of bounded length, without what they
// repeat of the request that they are about.
//
// It does not know credentials: its callers take those out first. It imports nothing of the gateway.
//
// Concurrency: an Excerpt belongs to one goroutine.
package excerpt

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxWords is how many bytes of the words are used: their beginning says what is wrong.
	maxWords = 512

	// minRun is how many bytes in a row must be the same as in a text to count as repeated from it. Shorter runs are found in
	// any two long texts.
	minRun = 24

	// minWhole is how long a text must be to count as repeated when all of it is. Shorter ones are parts of ordinary words.
	minWhole = 8
)

// Excerpt is a provider's or plugin's words in the making.
type Excerpt struct {
	words []byte
	cut   [maxWords]bool
	runs  map[uint64]struct{} // hashes of all runs of minRun bytes in words; nil until they are needed
	maybe [64]uint64          // a bitmap of those hashes, most of which is empty
}

// New returns the beginning of words. They are not copied, and must not change.
func New(words []byte) *Excerpt {
	words = bytes.TrimSpace(words)
	n := min(len(words), maxWords)
	for n < len(words) && n > 0 && !utf8.RuneStart(words[n]) {
		n--
	}
	return &Excerpt{words: words[:n]}
}

// Cut removes what the words repeat of text, which takes time in proportion to its length.
func (e *Excerpt) Cut(text []byte) {
	if len(e.words) == 0 {
		return
	}
	if whole := bytes.TrimSpace(text); len(whole) >= minWhole && len(whole) <= len(e.words) {
		for at := 0; ; {
			i := bytes.Index(e.words[at:], whole)
			if i < 0 {
				break
			}
			e.mark(at+i, at+i+len(whole))
			at += i + 1
		}
	}
	if len(text) < minRun || len(e.words) < minRun {
		return
	}
	if e.runs == nil {
		e.hashRuns()
	}
	eachRun(text, func(at int, hash uint64) {
		if e.maybe[hash>>58]&(1<<(hash>>52&63)) == 0 {
			return
		}
		if _, ok := e.runs[hash]; !ok {
			return
		}
		run := text[at : at+minRun]
		for from := 0; ; {
			i := bytes.Index(e.words[from:], run)
			if i < 0 {
				return
			}
			e.mark(from+i, from+i+minRun)
			from += i + 1
		}
	})
}

func (e *Excerpt) mark(from, to int) {
	for i := from; i < to; i++ {
		e.cut[i] = true
	}
}

func (e *Excerpt) hashRuns() {
	e.runs = make(map[uint64]struct{}, len(e.words))
	eachRun(e.words, func(_ int, hash uint64) {
		e.runs[hash] = struct{}{}
		e.maybe[hash>>58] |= 1 << (hash >> 52 & 63)
	})
}

// eachRun calls f with a hash of each run of minRun bytes in p (Rabin-Karp). Its upper bits are well mixed.
func eachRun(p []byte, f func(at int, hash uint64)) {
	const base, mix = 1_099_511_628_211, 0x9e3779b97f4a7c15
	power := uint64(1)
	for range minRun {
		power *= base
	}
	hash := uint64(0)
	for i, c := range p {
		hash = hash*base + uint64(c) + 1
		if i >= minRun {
			hash -= power * (uint64(p[i-minRun]) + 1)
		}
		if i >= minRun-1 {
			f(i-minRun+1, hash*mix)
		}
	}
}

// String returns the words as one line of text, with "…" where something was cut. A token with "**" in it is a credential that
// the provider has masked in part, and is left out.
func (e *Excerpt) String() string {
	var b strings.Builder
	for i := 0; i < len(e.words); {
		if e.cut[i] {
			for i < len(e.words) && e.cut[i] {
				i++
			}
			b.WriteString("…")
			continue
		}
		r, n := utf8.DecodeRune(e.words[i:])
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			r = ' '
		case r == utf8.RuneError && n == 1:
			r = '?'
		case !unicode.IsPrint(r):
			r = '?'
		}
		b.WriteRune(r)
		i += n
	}
	fields := strings.Fields(b.String())
	for i, f := range fields {
		if strings.Contains(f, "**") {
			fields[i] = "[redacted]"
		}
	}
	return strings.Join(fields, " ")
}
