package gemini

import "github.com/sluice-gateway/sluice/proxy/internal/response"

// passing is the state of a response whose frames are passed on as the provider sends them.
//
// In a stream, frames that precede any content are held until there is content, so that another target can still be
// tried if the provider fails before. The first frame with a finish reason and all frames after it are held until
// Complete, so that a response that fails does not look complete.
type passing struct {
	on    bool
	begun bool   // there has been content
	head  []byte // held frames that precede any content; the body of a non-streaming response
	tail  []byte // held frames, from the first one with a finish reason on
}

func (p *passing) reset() passing {
	return passing{head: response.Reuse(p.head), tail: response.Reuse(p.tail)}
}

// Pass implements clientapi.Renderer.
func (r *Renderer) Pass() { r.pass.on = true }

// Frame implements response.Renderer. A name marks the frames from the first finish reason on: see finishFrame.
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

// releaseHead writes the frames that were held until there was content.
func (r *Renderer) releaseHead() {
	if p := &r.pass; len(p.head) > 0 {
		r.out.Buf = append(r.out.Buf, p.head...)
		r.out.Held -= len(p.head)
		p.head = p.head[:0]
	}
}

// completePassed writes the frames that were held until the response was complete.
func (r *Renderer) completePassed() {
	r.releaseHead()
	p := &r.pass
	r.out.Buf = append(r.out.Buf, p.tail...)
	r.out.Held -= len(p.tail)
	p.tail = p.tail[:0]
}

// appendFrame appends an event as the provider sent it, on one data line.
func appendFrame(dst, data []byte) []byte {
	return append(appendOneLine(append(dst, "data: "...), data), "\n\n"...)
}
