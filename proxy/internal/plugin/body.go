package plugin

import "sync"

// maxKept is how large the memory of a body may be, in bytes, to be kept for another request.
const maxKept = 1 << 20

// bodies is memory for the bodies that attempts send, shared by all of them: an attempt needs it only until its request
// has been sent, and a request is much larger than what an attempt should hold on to.
var bodies sync.Pool // *[]byte

func borrowBody() []byte {
	if p, ok := bodies.Get().(*[]byte); ok {
		return (*p)[:0]
	}
	return nil
}

func returnBody(p []byte) {
	if cap(p) > 0 && cap(p) <= maxKept {
		kept := p // p itself would be allocated on every way
		bodies.Put(&kept)
	}
}
