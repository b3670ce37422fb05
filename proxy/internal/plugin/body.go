package plugin

import "sync"

// maxKept is the largest buffer, in bytes, that is kept for another request.
const maxKept = 1 << 20

// bodies holds buffers for request bodies. An attempt returns its buffer when the request has been sent, so that an
// open stream does not hold it.
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
