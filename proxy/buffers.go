package proxy

import (
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

func (s *Server) writer() *response.Writer {
	if w, ok := s.writers.Get().(*response.Writer); ok {
		return w
	}
	return openai.NewWriter()
}

func (s *Server) work() *work {
	if w, ok := s.works.Get().(*work); ok {
		return w
	}
	return newWork()
}

func (s *Server) request() *openai.Request {
	if r, ok := s.requests.Get().(*openai.Request); ok {
		return r
	}
	return new(openai.Request)
}

// buffers keeps the memory of requests' bodies and of whole answers. The large ones are kept apart, or most of them would
// be lent to requests of a line.
type buffers struct{ small, large, handles sync.Pool } // of *[]byte; those of handles are empty

const (
	// smallBuffer is how large a buffer for a body of unknown length is.
	smallBuffer = 4 << 10

	// largeBuffer is how large the smallest of the large ones is.
	largeBuffer = 32 << 10
)

func (b *buffers) of(size int) *sync.Pool {
	if size < largeBuffer {
		return &b.small
	}
	return &b.large
}

// get returns an empty buffer with room for a body of about size bytes.
func (b *buffers) get(size int) []byte {
	h, ok := b.of(size).Get().(*[]byte)
	if !ok {
		return make([]byte, 0, max(size, smallBuffer))
	}
	p := (*h)[:0]
	*h = nil
	b.handles.Put(h)
	return p
}

func (b *buffers) put(p []byte) {
	if cap(p) == 0 || cap(p) > keepBody {
		return
	}
	h, ok := b.handles.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	*h = p
	b.of(cap(p)).Put(h)
}
