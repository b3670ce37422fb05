// Package excerpt turns a message of a provider or a plugin into text for the log: one line of bounded length, without
// the parts that the message repeats from the request.
//
// Callers remove credentials first. The package imports nothing from the gateway.
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
	// maxMessage is how many bytes of the message are used: its beginning says what is wrong.
	maxMessage = 512

	// minRun is the minimum number of consecutive bytes that count as repeated from a text. Any two long texts share
	// shorter runs.
	minRun = 24

	// minWhole is the minimum length of a text that counts as repeated if the message has all of it. A shorter text may
	// be part of an ordinary word.
	minWhole = 8
)

// Excerpt is a message of a provider or a plugin, and the parts of it to cut.
type Excerpt struct {
	message []byte
	cut     [maxMessage]bool    // by byte of message
	runs    map[uint64]struct{} // hashes of all runs of minRun bytes in message; nil until they are needed
	filter  [64]uint64          // a sparse bitmap of those hashes, checked before runs
}

// New returns the beginning of a message. It is not copied, and must not change.
func New(message []byte) *Excerpt {
	message = bytes.TrimSpace(message)
	n := min(len(message), maxMessage)
	for n < len(message) && n > 0 && !utf8.RuneStart(message[n]) {
		n--
	}
	return &Excerpt{message: message[:n]}
}

// Cut removes what the message repeats from text. It takes time proportional to the length of text.
func (e *Excerpt) Cut(text []byte) {
	if len(e.message) == 0 {
		return
	}
	if whole := bytes.TrimSpace(text); len(whole) >= minWhole && len(whole) <= len(e.message) {
		for at := 0; ; {
			i := bytes.Index(e.message[at:], whole)
			if i < 0 {
				break
			}
			e.mark(at+i, at+i+len(whole))
			at += i + 1
		}
	}
	if len(text) < minRun || len(e.message) < minRun {
		return
	}
	if e.runs == nil {
		e.hashRuns()
	}
	eachRun(text, func(at int, hash uint64) {
		if e.filter[hash>>58]&(1<<(hash>>52&63)) == 0 {
			return
		}
		if _, ok := e.runs[hash]; !ok {
			return
		}
		run := text[at : at+minRun]
		for from := 0; ; {
			i := bytes.Index(e.message[from:], run)
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
	e.runs = make(map[uint64]struct{}, len(e.message))
	eachRun(e.message, func(_ int, hash uint64) {
		e.runs[hash] = struct{}{}
		e.filter[hash>>58] |= 1 << (hash >> 52 & 63)
	})
}

// eachRun calls f with a rolling hash (Rabin-Karp) of each run of minRun bytes in p. The hash's upper bits are well
// mixed.
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

// String returns the message as one line of text, with "…" in place of each cut part. A word with "**" in it is a
// credential that the provider has partly masked, and is redacted.
func (e *Excerpt) String() string {
	var b strings.Builder
	for i := 0; i < len(e.message); {
		if e.cut[i] {
			for i < len(e.message) && e.cut[i] {
				i++
			}
			b.WriteString("…")
			continue
		}
		r, n := utf8.DecodeRune(e.message[i:])
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
