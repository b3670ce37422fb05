package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// passing is the state of a response that is passed on as its provider sends it.
//
// In a stream, what comes before any content waits for that, so that a provider that fails there has sent nothing yet; and
// what completes the message waits for Complete, with everything behind it, so that a message that fails has no end.
type passing struct {
	on    bool
	begun bool        // there was content
	head  []byte      // frames before any content; of a non-streaming response its body
	tail  []byte      // frames from the one on that completes the message
	doc   jsondoc.Doc // of one frame
}

func (p *passing) reset() passing {
	p.doc.Reset()
	return passing{head: response.Reuse(p.head), tail: response.Reuse(p.tail), doc: p.doc}
}

// Pass implements clientapi.Renderer.
func (r *Renderer) Pass() { r.pass.on = true }

// Frame implements response.Renderer.
func (r *Renderer) Frame(name, data []byte) {
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

// precedesContent reports whether an event may come before any content. The start of a block does where nothing of what it holds
// has been reported before.
func precedesContent(name []byte) bool {
	switch string(name) {
	case "message_start", "content_block_start", "ping":
		return true
	}
	return false
}

// completes reports whether an event says that the message is complete, or why it ended.
func (p *passing) completes(name, data []byte) bool {
	switch string(name) {
	case "message_stop":
		return true
	case "message_delta":
		defer p.doc.Reset()
		if p.doc.Parse(data, looseLimits) != nil {
			return true // its reader has read it
		}
		return p.doc.Root().Get("delta").Get("stop_reason").Kind() == jsondoc.String
	}
	return false
}

// appendFrame appends an event as it came. A line break in its data is white space between two tokens of JSON, and must not end
// the line here.
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
