package proxy

import (
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// pools keep what completions are made with for the next ones. What is put back has been reset.
type pools struct {
	writers  sync.Pool // *response.Writer
	requests sync.Pool // *openai.Request
	works    sync.Pool // *work
}

func (p *pools) getWriter() *response.Writer {
	if w, ok := p.writers.Get().(*response.Writer); ok {
		return w
	}
	return openai.NewWriter()
}

func (p *pools) getWork() *work {
	if w, ok := p.works.Get().(*work); ok {
		return w
	}
	return newWork()
}

func (p *pools) getRequest() *openai.Request {
	if r, ok := p.requests.Get().(*openai.Request); ok {
		return r
	}
	return new(openai.Request)
}

// buffers keeps the memory of bodies of requests and responses. The large ones are kept apart, or most of them would
// be used for requests of a line.
type buffers struct{ small, large, handles sync.Pool } // of *[]byte; those of handles are empty

const (
	// smallBuffer is how large a buffer for a body of unknown length is.
	smallBuffer = 4 << 10

	// largeBuffer is how large the smallest of the large ones is.
	largeBuffer = 32 << 10
)

func (b *buffers) pool(size int) *sync.Pool {
	if size < largeBuffer {
		return &b.small
	}
	return &b.large
}

// get returns an empty buffer with room for a body of about size bytes.
func (b *buffers) get(size int) []byte {
	h, ok := b.pool(size).Get().(*[]byte)
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
	b.pool(cap(p)).Put(h)
}
