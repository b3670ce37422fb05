package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// passing is the state of a response whose frames are passed on as the provider sends them.
//
// In a stream, frames that precede any content are held until there is content, so that another target can still be
// tried if the provider fails before. The frame that completes the message and all frames after it are held until
// Complete, so that a message that fails does not look complete.
type passing struct {
	on    bool
	begun bool        // there has been content
	head  []byte      // held frames that precede any content; the body of a non-streaming response
	tail  []byte      // held frames, from the one that completes the message on
	doc   jsondoc.Doc // parses single frames
}

func (p *passing) reset() passing {
	p.doc.Reset()
	return passing{head: response.Reuse(p.head), tail: response.Reuse(p.tail), doc: p.doc}
}

// Pass implements clientapi.Renderer.
func (r *renderer) Pass() { r.pass.on = true }

// Frame implements response.Renderer.
func (r *renderer) Frame(name, data []byte) {
	p := &r.pass
	switch {
	case !p.on:
	case !r.head.Stream:
		r.out.Held += len(data) - len(p.head)
		p.head = append(p.head[:0], data...)
	case len(p.tail) > 0 || p.completes(name, data):
		r.out.Held -= len(p.tail)
		p.tail = appendFrame(p.tail, name, data)
		r.out.Held += len(p.tail)
	case !p.begun && precedesContent(name):
		r.out.Held -= len(p.head)
		p.head = appendFrame(p.head, name, data)
		r.out.Held += len(p.head)
	default:
		p.begun = true
		r.releaseHead()
		r.out.Buf = appendFrame(r.out.Buf, name, data)
	}
}

// releaseHead writes the frames that were held until there was content.
func (r *renderer) releaseHead() {
	if p := &r.pass; len(p.head) > 0 {
		r.out.Buf = append(r.out.Buf, p.head...)
		r.out.Held -= len(p.head)
		p.head = p.head[:0]
	}
}

// completePassed writes the frames that were held until the response was complete.
func (r *renderer) completePassed() {
	r.releaseHead()
	p := &r.pass
	r.out.Buf = append(r.out.Buf, p.tail...)
	r.out.Held -= len(p.tail)
	p.tail = p.tail[:0]
}

// precedesContent reports whether an event precedes content. A content_block_start whose block already has content does
// not count: the reader reports that content first, which sets begun.
func precedesContent(name []byte) bool {
	switch string(name) {
	case "message_start", "content_block_start", "ping":
		return true
	}
	return false
}

// completes reports whether an event completes the message or has the stop reason.
func (p *passing) completes(name, data []byte) bool {
	switch string(name) {
	case "message_stop":
		return true
	case "message_delta":
		defer p.doc.Reset()
		if p.doc.Parse(data, looseLimits) != nil {
			return true // cannot happen: the Reader has already parsed it
		}
		return p.doc.Root().Get("delta").Get("stop_reason").Kind() == jsondoc.String
	}
	return false
}

// appendFrame appends an event as the provider sent it, on one data line. Line breaks in its data can only be white
// space between JSON tokens, so they are replaced by spaces.
func appendFrame(dst, name, data []byte) []byte {
	if len(name) > 0 {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	dst = append(dst, "data: "...)
	from := len(dst)
	dst = append(dst, data...)
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		for i := from; i < len(dst); i++ {
			if dst[i] == '\n' || dst[i] == '\r' {
				dst[i] = ' '
			}
		}
	}
	return append(dst, "\n\n"...)
}
