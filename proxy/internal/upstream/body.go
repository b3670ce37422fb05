package upstream

import "math"

const (
	maxExtension = 1 << 10 // bytes of extensions on one chunk
	maxTrailer   = 8 << 10 // total bytes of trailers
)

// body decodes the framing of a body and finds its end. It can stop after any byte.
type body struct {
	framing framing
	done    bool
	left    int64 // remaining bytes of the body or the chunk
	state   chunkState
	digits  int // number of digits of the chunk's size
	extra   int // number of bytes of the chunk's extension, or of the trailers
}

type chunkState uint8

const (
	chunkSize  chunkState = iota
	chunkSpace            // blanks after the size
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailer // at the start of a line
	chunkTrailerLine
	chunkTrailerLF
	chunkEndLF
)

func newBody(f framing, length int64) body {
	b := body{framing: f}
	switch f {
	case sized:
		b.left, b.done = length, length == 0
	case empty:
		b.done = true
	}
	return b
}

// decode decodes p in place: p[:n] are the decoded bytes, and p[:used] was consumed. used is less than len(p) only at
// the end of the body, or with an objection, which describes malformed framing without quoting it.
func (b *body) decode(p []byte) (n, used int, objection string) {
	switch {
	case b.done:
		return 0, 0, ""
	case b.framing == untilClose:
		return len(p), len(p), ""
	case b.framing == sized:
		n = int(min(int64(len(p)), b.left))
		b.consume(n)
		return n, n, ""
	}
	for used < len(p) && !b.done {
		if b.state == chunkData {
			m := int(min(int64(len(p)-used), b.left))
			if n != used {
				copy(p[n:], p[used:used+m])
			}
			n += m
			used += m
			b.consume(m)
			continue
		}
		if objection = b.step(p[used]); objection != "" {
			return n, used, objection
		}
		used++
	}
	return n, used, ""
}

// step consumes one byte of chunked framing.
func (b *body) step(c byte) string {
	switch b.state {
	case chunkSize, chunkSpace:
		d := hexDigit(c)
		switch {
		case d >= 0 && b.state == chunkSize:
			if b.digits++; b.digits > 15 {
				return "chunk size too large"
			}
			b.left = b.left<<4 | int64(d)
		case b.digits == 0:
			return "malformed chunk size"
		case c == '\r':
			b.state = chunkSizeLF
		case c == ';':
			b.state = chunkExtension
		case c == ' ' || c == '\t':
			b.state = chunkSpace
			return b.countExtension()
		default:
			return "malformed chunk size"
		}
	case chunkExtension:
		if c == '\r' {
			b.state = chunkSizeLF
			return ""
		}
		if s := b.countExtension(); s != "" {
			return s
		}
		if c < ' ' && c != '\t' || c == 0x7F {
			return "malformed chunk extension"
		}
	case chunkSizeLF:
		if c != '\n' {
			return "malformed chunk size"
		}
		b.digits, b.extra = 0, 0
		if b.state = chunkData; b.left == 0 {
			b.state = chunkTrailer
		}
	case chunkDataCR:
		if c != '\r' {
			return "chunk longer than its size"
		}
		b.state = chunkDataLF
	case chunkDataLF:
		if c != '\n' {
			return "chunk longer than its size"
		}
		b.state = chunkSize
	case chunkTrailer:
		if c == '\r' {
			b.state = chunkEndLF
			return ""
		}
		b.state = chunkTrailerLine
		return b.step(c)
	case chunkTrailerLine:
		if c == '\r' {
			b.state = chunkTrailerLF
			return ""
		}
		if b.extra++; b.extra > maxTrailer {
			return "trailers too long"
		}
		if c < ' ' && c != '\t' || c == 0x7F {
			return "malformed trailer"
		}
	case chunkTrailerLF:
		if c != '\n' {
			return "malformed trailer"
		}
		b.state = chunkTrailer
	case chunkEndLF:
		if c != '\n' {
			return "malformed end of the chunks"
		}
		b.done = true
	}
	return ""
}

// countExtension counts a byte of a chunk's extension.
func (b *body) countExtension() string {
	if b.extra++; b.extra > maxExtension {
		return "chunk extension too long"
	}
	return ""
}

// plain returns how many of the next bytes are body data without framing. They may be read without calling decode;
// their number must then be passed to consume.
func (b *body) plain() int64 {
	switch {
	case b.done:
		return 0
	case b.framing == untilClose:
		return math.MaxInt64
	case b.framing == sized || b.state == chunkData:
		return b.left
	}
	return 0
}

// consume counts n bytes of body data.
func (b *body) consume(n int) {
	if b.framing == untilClose {
		return
	}
	if b.left -= int64(n); b.left > 0 {
		return
	}
	if b.framing == sized {
		b.done = true
	} else {
		b.state = chunkDataCR
	}
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
