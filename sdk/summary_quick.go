package sdk

import (
	"math/bits"
	"unsafe"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// The gateway writes the members of a summary in one order and without white space. To read just that form takes a fifth
// of what a reader of any JSON needs, and that was most of the work of a plugin that has little to say of a request.
// Whatever deviates is left to that reader.

// literal is what stands between two values of a summary, 8 to 24 bytes.
type literal struct {
	head, middle, tail uint64
	middleAt, size     int
}

func newLiteral(text string) (l literal) {
	p := []byte(text)
	l.size = len(p)
	l.middleAt = min(8, l.size-8)
	base := unsafe.Pointer(&p[0])
	return literal{word(base, 0), word(base, l.middleAt), word(base, l.size-8), l.middleAt, l.size}
}

var (
	litRequestID  = newLiteral(`{"request_id":"`)
	litTime       = newLiteral(`","time":`)
	litAttempt    = newLiteral(`,"attempt":`)
	litRandom     = newLiteral(`,"random":"`)
	litStream     = newLiteral(`","stream":`)
	litUsage      = newLiteral(`,"include_usage":`)
	litModel      = newLiteral(`,"model":"`)
	litTarget     = newLiteral(`","target":"`)
	litLimits     = newLiteral(`","limits":{`)
	litMaxTokens  = newLiteral(`"max_tokens":`)
	litDefaultMax = newLiteral(`,"default_max_tokens":`)
	litFlags      = newLiteral(`},"flags":[`)
	litBody       = newLiteral(`],"body":`)
	litOptions    = newLiteral(`,"options":`)
)

// word is eight bytes. Guests are little-endian; so is every machine that their code is tested on natively.
func word(base unsafe.Pointer, i int) uint64 { return *(*uint64)(unsafe.Add(base, i)) }

// cursor goes through a document. It is where at is; a negative one has found something else than it looked for.
type cursor struct {
	base unsafe.Pointer
	at   int
	end  int // the last place where eight bytes can be loaded
}

// pass goes over a literal.
func (c *cursor) pass(l *literal) {
	i := c.at
	if uint(i+l.size-8) > uint(c.end) || word(c.base, i) != l.head || word(c.base, i+l.middleAt) != l.middle || word(c.base, i+l.size-8) != l.tail {
		c.fail()
		return
	}
	c.at = i + l.size
}

func (c *cursor) fail() { c.at, c.end = 0, -1 }

const (
	lanes  = 0x0101010101010101
	highs  = 0x80 * lanes
	quotes = '"' * lanes
	zeros  = '0' * lanes
)

// text goes over a string without escapes to its closing quote.
func (c *cursor) text() (start, end int) {
	start = c.at
	for i := start; i <= c.end; i += 8 {
		w := word(c.base, i)
		q := w ^ quotes
		b := w ^ '\\'*lanes
		if m := ((q-lanes)&^q | (b-lanes)&^b) & highs; m != 0 {
			i += bits.TrailingZeros64(m) >> 3
			c.at = i
			if *(*byte)(unsafe.Add(c.base, i)) != '"' {
				c.fail()
			}
			return start, i
		}
	}
	c.fail()
	return 0, 0
}

// number goes over one to eighteen digits.
func (c *cursor) number() (n int64) {
	start := c.at
	for c.at <= c.end {
		w := word(c.base, c.at)
		other := (w&(0xf0*lanes) ^ zeros) | ((w+6*lanes)&(0xf0*lanes) ^ zeros)
		if other == 0 {
			n = n*1e8 + digits(w-zeros)
			c.at += 8
			continue
		}
		k := bits.TrailingZeros64(other) >> 3
		c.at += k
		if k > 0 {
			n = n*tens[k] + digits((w-zeros)<<(64-8*uint(k)))
		}
		if uint(c.at-start-1) >= 18 {
			break
		}
		return n
	}
	c.fail()
	return 0
}

var tens = [8]int64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7}

// digits is the number of eight digits, the first one in the lowest byte.
func digits(w uint64) int64 {
	w = (w*10 + w>>8) & 0x00ff00ff00ff00ff
	w = (w*100 + w>>16) & 0x0000ffff0000ffff
	return int64((w*10000 + w>>32) & 0xffffffff)
}

// boolean goes over true or false.
func (c *cursor) boolean() bool {
	if c.at > c.end {
		c.fail()
		return false
	}
	switch *(*uint32)(unsafe.Add(c.base, c.at)) {
	case wordTrue:
		c.at += 4
		return true
	case wordFals:
		c.at += 5
		return false
	}
	c.fail()
	return false
}

const (
	wordTrue = 't' | 'r'<<8 | 'u'<<16 | 'e'<<24
	wordFals = 'f' | 'a'<<8 | 'l'<<16 | 's'<<24
)

// hex goes over sixteen hexadecimal digits in lower case.
func (c *cursor) hex() uint64 {
	if c.at+8 > c.end {
		c.fail()
		return 0
	}
	n := nibbles(word(c.base, c.at))<<32 | nibbles(word(c.base, c.at+8))
	c.at += 16
	return n
}

// nibbles is the number of eight hexadecimal digits.
func nibbles(w uint64) uint64 {
	w = w&(0x0f*lanes) + (w>>6&lanes)*9
	w = (w<<4 | w>>8) & 0x00ff00ff00ff00ff
	w = (w<<8 | w>>16) & 0x0000ffff0000ffff
	return (w<<16 | w>>32) & 0xffffffff
}

// quick reads a summary in the gateway's own form, which it takes the gateway's word for: that its options are JSON, for
// one. Where it returns false it has read nothing that counts.
func (s *Summary) quick(doc []byte) bool {
	if len(doc) < 16 {
		return false
	}
	c := cursor{unsafe.Pointer(&doc[0]), 0, len(doc) - 8}
	c.pass(&litRequestID)
	idStart, idEnd := c.text()
	c.pass(&litTime)
	s.Time = c.number()
	c.pass(&litAttempt)
	s.Attempt = c.number()
	c.pass(&litRandom)
	s.Random = c.hex()
	c.pass(&litStream)
	s.Stream = c.boolean()
	c.pass(&litUsage)
	s.IncludeUsage = c.boolean()
	c.pass(&litModel)
	modelStart, modelEnd := c.text()
	c.pass(&litTarget)
	targetStart, targetEnd := c.text()
	c.pass(&litLimits)
	c.pass(&litMaxTokens)
	s.MaxTokens = c.number()
	c.pass(&litDefaultMax)
	s.DefaultMaxTokens = c.number()
	c.pass(&litFlags)
	flagsStart := c.at
	for c.at < c.end && doc[c.at] != ']' {
		c.at++
	}
	flagsEnd := c.at
	c.pass(&litBody)
	s.BodySize = c.number()
	c.pass(&litOptions)
	last := len(doc) - 1
	if c.end < 0 || c.at >= last || doc[c.at] != '{' || doc[last-1] != '}' || doc[last] != '}' {
		return false
	}
	s.RequestID = doc[idStart:idEnd:idEnd]
	s.Model = doc[modelStart:modelEnd:modelEnd]
	s.Target = doc[targetStart:targetEnd:targetEnd]
	s.Flags = 0
	if flagsStart < flagsEnd {
		s.Flags = readFlags(doc[flagsStart-1 : flagsEnd+1])
	}
	s.Options = json.Value(doc[c.at:last:last])
	return true
}
