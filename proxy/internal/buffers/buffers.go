// Package buffers pools the buffers of request and response bodies.
//
// A buffer belongs to the caller of Get until Put returns it. Without Put, the garbage collector frees it.
//
// Concurrency: a Pool is safe for concurrent use.
package buffers

import "sync"

const (
	// small is the minimum capacity of a new buffer.
	small = 4 << 10

	// large is the capacity from which a buffer is pooled as a large one.
	large = 32 << 10

	// MaxKept is the maximum capacity of a pooled buffer.
	MaxKept = 256 << 10
)

// Pool is a pool of buffers. Large buffers are pooled separately, or most of them would be used for tiny requests. The
// zero value is ready to use.
type Pool struct {
	small, large sync.Pool // *[]byte
	handles      sync.Pool // *[]byte whose buffers are in use, so that Put does not allocate a pointer
}

func (p *Pool) class(size int) *sync.Pool {
	if size < large {
		return &p.small
	}
	return &p.large
}

// Get returns an empty buffer for a body of about size bytes, 0 if unknown. Its capacity may be less than size.
func (p *Pool) Get(size int) []byte {
	h, ok := p.class(size).Get().(*[]byte)
	if !ok {
		return make([]byte, 0, max(size, small))
	}
	b := (*h)[:0]
	*h = nil
	p.handles.Put(h)
	return b
}

// Put returns a buffer to the pool. The caller must not use it any more.
func (p *Pool) Put(b []byte) {
	if cap(b) == 0 || cap(b) > MaxKept {
		return
	}
	h, ok := p.handles.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	*h = b
	p.class(cap(b)).Put(h)
}
