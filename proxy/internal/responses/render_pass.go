package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// passing is the state of a response of a provider that speaks the Responses API itself, whose events are passed on
// unchanged. Events that only announce the response are held until another event arrives, so that another target can be
// tried until then. They are not held if the response is in the background: the provider generates it even if the stream
// breaks off, and the client needs its ID to read it. The event that completes the response is held until the Writer
// considers it complete.
type passing struct {
	on     bool
	atOnce bool   // nothing is held in first
	begun  bool   // first has been written
	first  []byte // held events that only announce the response
	last   []byte // the held event that completes the response, or the body of a non-streaming response
	frames int64  // number of events in first or written
}

func (p *passing) reset() {
	*p = passing{first: response.Reuse(p.first), last: response.Reuse(p.last)}
}

// frame adds an event, or the body of a non-streaming response.
func (p *passing) frame(out *response.Output, stream bool, name, data []byte) {
	if !stream {
		p.last = append(p.last[:0], data...)
		out.Held = len(p.last)
		return
	}
	switch string(eventType(name, data)) {
	case "response.created", "response.queued", "response.in_progress":
		if !p.begun && !p.atOnce {
			p.first = appendEvent(p.first, name, data)
			p.frames++
			out.Held = len(p.first)
			return
		}
	case "response.completed", "response.incomplete":
		p.last = appendEvent(p.last, name, data)
		out.Held = len(p.first) + len(p.last)
		return
	}
	p.begin(out)
	p.frames++
	out.Buf = appendEvent(out.Buf, name, data)
}

// begin writes the events that announce the response.
func (p *passing) begin(out *response.Output) {
	if !p.begun {
		p.begun = true
		out.Buf = append(out.Buf, p.first...)
		p.first = nil
		out.Held = len(p.last)
	}
}

// complete writes all events that are still held.
func (p *passing) complete(out *response.Output) {
	p.begin(out)
	out.Buf = append(out.Buf, p.last...)
}

// eventType returns the name of an event, or if it has no name, the type in its data. It returns nil if neither is a
// type of the Responses API.
func eventType(name, data []byte) []byte {
	if len(name) > 0 {
		return name
	}
	const member = `"type"`
	for {
		at := bytes.Index(data, []byte(member))
		if at < 0 {
			return nil
		}
		// A quote inside a string would be escaped, so this is a member name or a complete string.
		data = bytes.TrimLeft(data[at+len(member):], " \t\r\n")
		value, ok := bytes.CutPrefix(data, []byte(":"))
		if !ok {
			continue
		}
		value, ok = bytes.CutPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte(`"`))
		if end := bytes.IndexByte(value, '"'); ok && end >= 0 && bytes.HasPrefix(value, []byte("response.")) {
			return value[:end]
		}
	}
}

// appendEvent appends an event as the provider sent it.
func appendEvent(dst, name, data []byte) []byte {
	if len(name) > 0 {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		line, rest, more := bytes.Cut(data, []byte("\n"))
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}
