package json

import (
	"encoding/binary"
	"math"
)

// Bounds are the bounds of the long values of a document, which the gateway knows since it has parsed the document
// itself. With them a Reader finds the end of a long string, array or object without reading it. The zero Bounds is
// empty.
type Bounds struct {
	list []byte // for each value, in document order: its start, and its end with escapedBit; see sdk/abi/README.md
	next int    // index in list of the value that is expected next, which is mostly the next one in the document

	// Between the values before and at next there is no other one.
	previous, expected int
}

const (
	boundsSize = 8
	escapedBit = 1 << 31 // a string has escapes
)

// Reset sets the bounds as the import body_index returns them. It retains the slice.
func (b *Bounds) Reset(list []byte) {
	b.list = list[:len(list)/boundsSize*boundsSize]
	b.moveTo(0)
}

// mayStart reports whether a long value may start at an index of the document. It is inlined: most values are short.
func (b *Bounds) mayStart(i int) bool { return i >= b.expected || i <= b.previous }

// find returns the end of the value that starts at an index of the document, and whether it is a string with escapes;
// 0 if it is not a long value, or if its end would be beyond limit.
func (b *Bounds) find(start, limit int) (end int, escaped bool) {
	if start != b.expected {
		low, high := 0, len(b.list)/boundsSize
		for low < high {
			if mid := int(uint(low+high) >> 1); b.start(mid*boundsSize) < start {
				low = mid + 1
			} else {
				high = mid
			}
		}
		if b.moveTo(low * boundsSize); start != b.expected {
			return 0, false
		}
	}
	e := binary.LittleEndian.Uint32(b.list[b.next+4:])
	b.moveTo(b.next + boundsSize)
	if end = int(e &^ escapedBit); end <= start+1 || end > limit {
		return 0, false
	}
	return end, e&escapedBit != 0
}

// moveTo makes the value at an index in list the one that is expected next.
func (b *Bounds) moveTo(next int) {
	b.next, b.previous, b.expected = next, -1, math.MaxInt32
	if next > 0 {
		b.previous = b.start(next - boundsSize)
	}
	if next < len(b.list) {
		b.expected = b.start(next)
	}
}

func (b *Bounds) start(i int) int { return int(binary.LittleEndian.Uint32(b.list[i:])) }
