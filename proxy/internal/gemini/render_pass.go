package gemini

import "github.com/sluice-gateway/sluice/proxy/internal/response"

// passing is the state of a response that is passed on as its provider sends it.
//
// In a stream, what comes before any content waits for that, so that a provider that fails there has sent nothing yet. The first
// chunk that says why a candidate ended waits for Complete, with everything behind it, so that a response that fails has no end.
type passing struct {
	on    bool
	begun bool   // there was content
	head  []byte // frames before any content; of a non-streaming response its body
	tail  []byte // frames from the one on that ends a candidate
}

func (p *passing) reset() passing {
	return passing{head: response.Reuse(p.head), tail: response.Reuse(p.tail)}
}

// Pass implements clientapi.Renderer.
func (r *Renderer) Pass() { r.pass.on = true }

// Frame implements response.Renderer. The Reader names the frames that end a candidate.
func (r *Renderer) Frame(name, data []byte) {
	p := &r.pass
	switch {
	case !p.on:
	case !r.head.Stream:
		r.out.Held += len(data) - len(p.head)
		p.head = append(p.head[:0], data...)
	case len(name) > 0 || len(p.tail) > 0:
		r.out.Held -= len(p.tail)
		p.tail = appendFrame(p.tail, data)
		r.out.Held += len(p.tail)
	case !p.begun:
		r.out.Held -= len(p.head)
		p.head = appendFrame(p.head, data)
		r.out.Held += len(p.head)
	default:
		r.releaseHead()
		r.out.Buf = appendFrame(r.out.Buf, data)
	}
}

// releaseHead writes the frames that have waited for content.
func (r *Renderer) releaseHead() {
	if p := &r.pass; len(p.head) > 0 {
		r.out.Buf = append(r.out.Buf, p.head...)
		r.out.Held -= len(p.head)
		p.head = p.head[:0]
	}
}

// completePassed writes what has waited for the end of the stream.
func (r *Renderer) completePassed() {
	r.releaseHead()
	p := &r.pass
	r.out.Buf = append(r.out.Buf, p.tail...)
	r.out.Held -= len(p.tail)
	p.tail = p.tail[:0]
}

// appendFrame appends an event as it came.
func appendFrame(dst, data []byte) []byte {
	return append(appendOneLine(append(dst, "data: "...), data), "\n\n"...)
}
