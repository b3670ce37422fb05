// Package buffers keeps the memory of request and response bodies for the next ones.
//
// A buffer belongs to the caller of Get until Put gives it back. Put may be left out: the garbage collector frees the buffer then.
//
// Concurrency: a Pool is safe for concurrent use.
package buffers

import "sync"

const (
	// small is the capacity of a buffer for a body of unknown length.
	small = 4 << 10

	// large is the capacity from which a buffer is kept with the large ones.
	large = 32 << 10

	// MaxKept is the largest capacity of a buffer that is kept for another body.
	MaxKept = 256 << 10
)

// Pool is a pool of buffers. The large ones are kept apart, or most of them would be used for requests of a line. The zero value
// is ready to use.
type Pool struct{ small, large, handles sync.Pool } // of *[]byte; those of handles are empty

func (p *Pool) class(size int) *sync.Pool {
	if size < large {
		return &p.small
	}
	return &p.large
}

// Get returns an empty buffer for a body of about size bytes, which may have less room than that.
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

// Put gives a buffer back, which nothing uses any more.
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
