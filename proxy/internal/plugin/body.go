package plugin

import "sync"

// maxKept is how large the memory of a body may be, in bytes, to be kept for another request.
const maxKept = 1 << 20

// bodies is memory for the bodies that attempts send: an attempt needs it only until its request has been sent, and a
// body is much larger than what an open stream should keep.
var bodies sync.Pool // *[]byte

func borrowBody() []byte {
	if p, ok := bodies.Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return nil
}

func returnBody(p []byte) {
	if cap(p) > 0 && cap(p) <= maxKept {
		kept := p // taking the address of p would allocate it in any case
		bodies.Put(&kept)
	}
}
