package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// passing is the response of a provider that speaks the Responses API itself, on its way to the client as it came. What says
// no more than that the response exists waits for the first event that says more, so that another target can be tried
// until then. The event that completes the response waits until it is complete.
type passing struct {
	on     bool
	begun  bool
	first  []byte // events that wait for the first one with content
	last   []byte // the event that completes the response; of a non-streaming one, its body
	frames int64  // events that have been written
}

func (p *passing) reset() {
	*p = passing{first: response.Reuse(p.first), last: response.Reuse(p.last)}
}

// frame takes an event, or the body of a non-streaming response.
func (p *passing) frame(out *response.Output, stream bool, name, data []byte) {
	if !stream {
		p.last = append(p.last[:0], data...)
		out.Held = len(p.last)
		return
	}
	switch string(eventType(name, data)) {
	case "response.created", "response.queued", "response.in_progress":
		if !p.begun {
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

// begin writes the events that have waited for the first one with content.
func (p *passing) begin(out *response.Output) {
	if !p.begun {
		p.begun = true
		out.Buf = append(out.Buf, p.first...)
		p.first = nil
		out.Held = len(p.last)
	}
}

// complete writes all that has waited.
func (p *passing) complete(out *response.Output) {
	p.begin(out)
	out.Buf = append(out.Buf, p.last...)
}

// eventType is the type of an event: its name, or of one without, the member type of its data. It is empty where neither is a
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
		// A quote in a string would be escaped: this is a name, or a whole string.
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

// appendEvent appends an event as it came.
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
