// Package content writes the prompt and the response of a request as traces have them, if their content is configured: in
// the JSON of OpenTelemetry's conventions for generative AI, up to a size.
//
// It owns that format, and where a text that is too long is cut. It does not decide which requests have content, and does
// not redact. Files, images, names of tools that are offered, and other settings of a request are left out.
//
// Concurrency: a Recorder belongs to an attempt.
package content

import (
	"bytes"
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// messages collects the messages of a prompt or of a response. All texts in it are the contents of JSON strings.
type messages struct {
	all  []message
	left int // bytes that are left of the maximum
	cut  bool
}

type message struct {
	number int32 // index in the request, or choice
	role   string
	finish string
	parts  []part
}

type part struct {
	kind           string
	tool           int32 // number of a tool call of a response
	id, name, text []byte
}

// The kinds of parts.
const (
	kindText      = "text"
	kindReasoning = "reasoning"
	kindCall      = "tool_call"
	kindResult    = "tool_call_response"
)

// message returns the message with a number and a role, which is the last one or a new one.
func (m *messages) message(number int32, role string) *message {
	for i := len(m.all) - 1; i >= 0; i-- {
		if at := &m.all[i]; at.number == number && at.role == role {
			return at
		}
	}
	m.all = append(m.all, message{number: number, role: role})
	return &m.all[len(m.all)-1]
}

// partSize is what a part and its message count besides its texts.
const partSize = 64

// reserve reports whether another part fits.
func (m *messages) reserve() bool {
	if m.cut = m.cut || m.left < partSize; m.cut {
		return false
	}
	m.left -= partSize
	return true
}

// take appends as much of a text as is left of the maximum.
func (m *messages) take(dst, s []byte) []byte {
	switch n := min(len(s), m.left); {
	case m.cut:
		return dst
	case n < len(s):
		dst = append(dst, s[:n]...)
		m.left, m.cut = 0, true
		return cut(dst)
	default:
		m.left -= n
		return append(dst, s...)
	}
}

// maxWord is how far a text that is cut ends before the maximum, at most, so that it ends with a word: the beginning of a
// credential would not be recognised as one.
const maxWord = 256

// cut removes the end of the contents of a JSON string, which was cut anywhere.
func cut(s []byte) []byte {
	from := max(0, len(s)-maxWord)
	if i := bytes.LastIndexByte(s[from:], ' '); i >= 0 {
		return s[:from+i]
	}
	for from > 0 && (s[from]&0xc0 == 0x80 || inEscape(s, from)) {
		from--
	}
	return s[:from]
}

// inEscape reports whether an offset is within an escape sequence, or may be.
func inEscape(s []byte, at int) bool {
	const longest = len(`\ud83d\ude00`)
	return bytes.IndexByte(s[max(0, at-longest):at], '\\') >= 0
}

// append appends the messages as JSON, or nothing if none has a part.
func (m *messages) append(dst []byte) []byte {
	empty := len(dst)
	dst = append(dst, '[')
	for i := range m.all {
		at := &m.all[i]
		if len(at.parts) == 0 {
			continue
		}
		if len(dst) > empty+1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"role":"`...), at.role...), `","parts":`...)
		dst = appendParts(dst, at.parts)
		if at.finish != "" {
			dst = append(append(append(dst, `,"finish_reason":"`...), at.finish...), '"')
		}
		dst = append(dst, '}')
	}
	if len(dst) == empty+1 {
		return dst[:empty]
	}
	return append(dst, ']')
}

func appendParts(dst []byte, parts []part) []byte {
	dst = append(dst, '[')
	for i := range parts {
		p := &parts[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"type":"`...), p.kind...), '"')
		member := func(name string, text []byte) {
			dst = append(append(append(dst, `,"`...), name...), `":"`...)
			dst = append(append(dst, text...), '"')
		}
		if len(p.id) > 0 {
			member("id", p.id)
		}
		switch p.kind {
		case kindCall:
			member("name", p.name)
			member("arguments", p.text)
		case kindResult:
			member("result", p.text)
		default:
			member("content", p.text)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// errFull ends the walk over a request.
var errFull = errors.New("the maximum is reached")

// Prompt returns the texts of a request in an API: at most so many bytes.
func Prompt(doc *jsondoc.Doc, api string, most int) *telemetry.Content {
	m := messages{left: most}
	var system []part
	var name []byte // of the tool call whose arguments follow
	_ = clientapi.Texts(doc, api, func(t clientapi.Text) error {
		at, role := part{kind: kindText}, "user"
		switch t.What {
		case abi.WhatSystem:
			role = ""
		case abi.WhatUser:
		case abi.WhatAssistant:
			if role = "assistant"; t.Seal.Exists() {
				at.kind = kindReasoning
			}
		case abi.WhatSentArguments:
			role, at.kind, at.name = "assistant", kindCall, name
		case abi.WhatToolResult:
			role, at.kind = "tool", kindResult
		default:
			if s := t.Value.Inside(); t.Fixed && t.Value.Name().Is("name") && len(s) <= partSize {
				name = s
			}
			return nil
		}
		if !m.reserve() {
			return errFull
		}
		if at.text = m.take(nil, t.Value.Inside()); role == "" {
			system = append(system, at)
		} else {
			to := m.message(t.Message, role)
			to.parts = append(to.parts, at)
		}
		return nil
	})
	c := &telemetry.Content{Input: m.append(nil), Cut: m.cut}
	if len(system) > 0 {
		c.System = appendParts(nil, system)
	}
	return c
}

// Recorder is a response.Tap that records the texts and tool calls of a response.
type Recorder struct {
	response.Renderer
	most int
	messages
}

// NewRecorder returns a Recorder of at most so many bytes.
func NewRecorder(most int) *Recorder { return &Recorder{most: most} }

// SetNext implements response.Tap. It discards what has been recorded.
func (r *Recorder) SetNext(next response.Renderer) {
	r.Renderer, r.messages = next, messages{left: r.most}
}

// Unwrap returns the next renderer.
func (r *Recorder) Unwrap() response.Renderer { return r.Renderer }

// add appends to a part of a choice: the last one, or that of a tool call.
func (r *Recorder) add(choice int32, kind string, tool int32, s []byte) {
	m := r.message(choice, "assistant")
	for i := len(m.parts) - 1; i >= 0; i-- {
		p := &m.parts[i]
		if p.kind == kind && p.tool == tool {
			p.text = r.take(p.text, s)
			return
		}
		if kind != kindCall {
			break
		}
	}
	if kind != kindCall && r.reserve() {
		m.parts = append(m.parts, part{kind: kind, text: r.take(nil, s)})
	}
}

// Text implements response.Renderer.
func (r *Recorder) Text(choice int32, s []byte) {
	r.add(choice, kindText, 0, s)
	r.Renderer.Text(choice, s)
}

// Refusal implements response.Renderer.
func (r *Recorder) Refusal(choice int32, s []byte) {
	r.add(choice, kindText, 0, s)
	r.Renderer.Refusal(choice, s)
}

// Reasoning implements response.Renderer.
func (r *Recorder) Reasoning(choice int32, p abi.ReasoningPart, key int32, s []byte) {
	if p == abi.ReasoningText || p == abi.ReasoningSummary {
		r.add(choice, kindReasoning, 0, s)
	}
	r.Renderer.Reasoning(choice, p, key, s)
}

// ToolCall implements response.Renderer.
func (r *Recorder) ToolCall(choice int32, c response.ToolCall) {
	if r.reserve() {
		m := r.message(choice, "assistant")
		m.parts = append(m.parts, part{kind: kindCall, tool: c.Index, id: r.take(nil, c.ID), name: r.take(nil, c.Name), text: r.take(nil, c.Arguments)})
	}
	r.Renderer.ToolCall(choice, c)
}

// ToolArguments implements response.Renderer.
func (r *Recorder) ToolArguments(choice, tool int32, s []byte) {
	r.add(choice, kindCall, tool, s)
	r.Renderer.ToolArguments(choice, tool, s)
}

// finishNames are the conventions' names of finish reasons.
var finishNames = [abi.FinishReasons]string{
	abi.FinishStop: "stop", abi.FinishLength: "length", abi.FinishToolCalls: "tool_call", abi.FinishContentFilter: "content_filter", abi.FinishFunctionCall: "tool_call",
}

// Finish implements response.Renderer.
func (r *Recorder) Finish(choice int32, reason abi.FinishReason, native []byte) {
	r.message(choice, "assistant").finish = finishNames[reason]
	r.Renderer.Finish(choice, reason, native)
}

// AddTo adds the response to what the request's trace has.
func (r *Recorder) AddTo(c *telemetry.Content) {
	c.Output, c.Cut = r.append(nil), c.Cut || r.cut
}
