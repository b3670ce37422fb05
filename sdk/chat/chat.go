// Package chat reads the messages of a chat completions request, for providers whose upstream uses another message
// format.
//
//	case "messages":
//		var messages chat.Messages
//		for messages.Open(r); messages.Next(); {
//			m := &messages.Message
//			switch string(m.Role) {
//			case "system", "developer", "user", "assistant":
//				w.Object()
//				w.Field("role").Text(m.Role)
//				w.Field("text").Inside(m.Text)
//				w.EndObject()
//				…
//			}
//		}
//
// Members may be in any order, so each message, part and call is read completely before it is returned. Strings are the
// bytes between the quotes, still escaped, as json.Reader.Inside returns them, unless documented otherwise. All slices
// share the memory of the request's body. Nothing is validated, because the gateway has validated the request.
package chat

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// Message is one of the client's messages.
type Message struct {
	Index int
	Role  []byte // unescaped

	Text    []byte     // content that is a string, escaped; otherwise nil
	Parts   json.Value // content that is an array: see Parts
	Refusal []byte     // escaped

	ToolCalls  json.Value // see Calls
	ToolCallID json.Value // a string: the ID of the call whose result the message is
	Failed     bool       // is_error: the tool failed

	Reasoning        []byte     // reasoning_content, escaped
	ReasoningDetails json.Value // reasoning of earlier turns with its signatures

	Named bool // the message has a name
	Audio bool // the message refers to earlier audio

	// Unknown are the names of all other members, such as cache_control, except annotations, which describe text of
	// earlier responses.
	Unknown [][]byte
}

// Param returns the path of a member of the message for an error, such as "messages[2].content".
func (m *Message) Param(rest string) string { return param("messages", m.Index) + rest }

func param(list string, index int) string {
	return list + "[" + string(json.AppendInt(nil, int64(index))) + "]"
}

// Messages iterates over the messages of a request.
type Messages struct {
	Message

	in   *json.Reader
	loop json.Loop
	next int
}

// Open starts reading the array of messages at the position of in.
func (l *Messages) Open(in *json.Reader) { l.in, l.loop, l.next = in, in.Array(), 0 }

// Next reads the next message into Message. It returns false if there is none.
func (l *Messages) Next() bool {
	if !l.loop.Next() {
		return false
	}
	l.Message.read(l.in, l.next)
	l.next++
	return true
}

func (m *Message) read(in *json.Reader, index int) {
	*m = Message{Index: index, Unknown: m.Unknown[:0]}
	for o := in.Object(); o.Next(); {
		if in.Kind() == json.Null {
			continue
		}
		switch name := in.Name(); string(name) {
		case "role":
			m.Role = in.Text()
		case "content":
			if in.Kind() == json.String {
				m.Text = in.Inside()
			} else {
				m.Parts = in.Raw()
			}
		case "refusal":
			m.Refusal = in.Inside()
		case "tool_calls":
			m.ToolCalls = in.Raw()
		case "tool_call_id":
			m.ToolCallID = in.Raw()
		case "is_error":
			m.Failed, _ = in.Bool()
		case "reasoning_content":
			m.Reasoning = in.Inside()
		case "reasoning_details":
			m.ReasoningDetails = in.Raw()
		case "audio":
			m.Audio = true
		case "name":
			m.Named = true
		case "annotations":
		default:
			m.Unknown = append(m.Unknown, name)
		}
	}
}

// Part is a part of a message's content.
type Part struct {
	Index int
	Type  []byte // unescaped: "text", "image_url", "file", "input_audio", …

	Text        []byte     // of a text or refusal, escaped
	URL, Detail []byte     // of an image or video, escaped
	File        json.Value // the member file
	Audio       json.Value // the member input_audio

	CacheControl bool // the client marked a cache breakpoint here
}

// Parts iterates over the parts of a message's content.
type Parts struct {
	Part

	in   json.Reader
	loop json.Loop
	next int
}

// Open starts reading the parts of m. There are none if its content is a string.
func (l *Parts) Open(m *Message) {
	l.in.ResetChecked(m.Parts)
	l.loop, l.next = l.in.Array(), 0
}

// Next reads the next part into Part. It returns false if there is none.
func (l *Parts) Next() bool {
	if !l.loop.Next() {
		return false
	}
	l.Part = Part{Index: l.next}
	l.next++
	p, in := &l.Part, &l.in
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "type":
			p.Type = in.Text()
		case "text", "refusal":
			p.Text = in.Inside()
		case "image_url", "video_url":
			for o := in.Object(); o.Next(); {
				switch string(in.Name()) {
				case "url":
					p.URL = in.Inside()
				case "detail":
					p.Detail = in.Inside()
				}
			}
		case "file":
			p.File = in.Raw()
		case "input_audio":
			p.Audio = in.Raw()
		case "cache_control":
			p.CacheControl = true
		}
	}
	return true
}

// Param returns the path of a member of a part of m, for an error.
func (p *Part) Param(m *Message, rest string) string {
	return m.Param("." + param("content", p.Index) + rest)
}

// Call is a tool call in an assistant message.
type Call struct {
	Index int
	Type  []byte     // unescaped: "function" or "custom"
	ID    json.Value // a string

	Name      []byte // escaped
	Arguments []byte // arguments of a function or input of a custom tool, escaped; the model wrote them, so they need not be JSON

	ExtraContent json.Value // extra_content, in which some providers keep a signature
	CacheControl bool       // the client marked a cache breakpoint here
}

// ArgumentsText returns the arguments unescaped.
func (c *Call) ArgumentsText() []byte {
	if bytes.IndexByte(c.Arguments, '\\') < 0 {
		return c.Arguments
	}
	return json.AppendText(nil, c.Arguments)
}

// Calls iterates over the tool calls of a message.
type Calls struct {
	Call

	in   json.Reader
	loop json.Loop
	next int
}

// Open starts reading the tool calls of m.
func (l *Calls) Open(m *Message) {
	l.in.ResetChecked(m.ToolCalls)
	l.loop, l.next = l.in.Array(), 0
}

// Next reads the next call into Call. It returns false if there is none.
func (l *Calls) Next() bool {
	if !l.loop.Next() {
		return false
	}
	l.Call = Call{Index: l.next}
	l.next++
	c, in := &l.Call, &l.in
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "type":
			c.Type = in.Text()
		case "id":
			c.ID = in.Raw()
		case "function", "custom":
			for o := in.Object(); o.Next(); {
				switch string(in.Name()) {
				case "name":
					c.Name = in.Inside()
				case "arguments", "input":
					c.Arguments = in.Inside()
				}
			}
		case "extra_content":
			c.ExtraContent = in.Raw()
		case "cache_control":
			c.CacheControl = true
		}
	}
	return true
}

// Param returns the path of a member of a call of m, for an error.
func (c *Call) Param(m *Message, rest string) string {
	return m.Param("." + param("tool_calls", c.Index) + rest)
}
