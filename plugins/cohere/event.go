package cohere

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// toolKeys is the first key of tool calls. The API numbers calls and blocks of content separately, but they share one
// sequence of keys in the gateway.
const toolKeys = abi.MaxKeys

// event contains the members of an event that the plugin uses. Its slices share the memory of the event's data; strings
// are escaped string contents, except the IDs and the name.
type event struct {
	kind  []byte
	index int64
	id    []byte

	// The part of the message in this event.
	content
	plan     []byte
	citation json.Value

	finish, problem []byte // finish reason, and a message if that is an error
	usage           json.Value
	message         []byte // message of an error
}

// content is a block of content, a piece of one, or a tool call.
type content struct {
	kind, text, thinking, callID, name, arguments []byte
}

// Event reads one event of a stream.
func (p *cohere) Event(a *provider.Answer, e *provider.Event) error {
	if string(e.Data) == "[DONE]" {
		return nil // message-end, not [DONE], tells that the response is complete
	}
	r := &p.reader
	r.Reset(e.Data)
	var ev event
	ev.read(r)
	if err := r.End(); err != nil {
		return err
	}
	if len(ev.kind) == 0 {
		ev.kind = e.Name
	}
	key := int32(ev.index)
	switch string(ev.kind) {
	case "content-delta":
		ev.content.emit(a, key)
	case "content-start":
		return ev.content.emitStart(a, key)
	case "tool-plan-delta":
		if len(ev.plan) > 0 {
			a.Text(0, abi.EncodingEscaped, ev.plan)
		}
	case "tool-call-delta":
		if len(ev.content.arguments) > 0 && !a.ToolArguments(0, toolKeys+key, abi.EncodingEscaped, ev.content.arguments) {
			a.Unknown([]byte("arguments without a tool call"))
		}
	case "tool-call-start":
		return ev.content.emitCall(a, toolKeys+key)
	case "tool-call-end":
		a.ToolEnd(0, toolKeys+key)
	case "citation-start":
		emitAnnotations(a, ev.citation, textOffset(a))
	case "message-start":
		a.Start(provider.FitName(ev.id), nil, format)
	case "message-end":
		emitUsage(a, ev.usage)
		if err := emitFinish(a, ev.finish, ev.problem); err != nil {
			return err
		}
		a.Done()
	case "content-end", "citation-end", "debug":
	default:
		if ev.message != nil {
			return sdk.Fail(abi.FailServer, string(json.AppendText(nil, ev.message)))
		}
		a.Unknown(ev.kind)
	}
	return nil
}

func (ev *event) read(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			ev.kind = r.Inside()
		case "index":
			ev.index, _ = r.Int()
		case "id":
			ev.id = r.Text()
		case "message":
			ev.message = r.Inside()
		case "delta":
			ev.readDelta(r)
		}
	}
}

func (ev *event) readDelta(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "message":
			ev.readMessage(r)
		case "finish_reason":
			ev.finish = r.Inside()
		case "error":
			ev.problem = r.Inside()
		case "usage":
			ev.usage = r.Raw()
		}
	}
}

// readMessage reads the part of a message in an event. Lists of the message are a single element in an event. In the
// first event they are empty lists, which count as absent.
func (ev *event) readMessage(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "content", "tool_calls":
			ev.content.read(r)
		case "tool_plan":
			ev.plan = r.Inside()
		case "citations":
			ev.citation = r.Raw()
		}
	}
}

func (c *content) read(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			c.kind = r.Inside()
		case "text":
			c.text = r.Inside()
		case "thinking":
			c.thinking = r.Inside()
		case "id":
			c.callID = r.Text()
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					c.name = r.Text()
				case "arguments":
					c.arguments = r.Inside()
				}
			}
		}
	}
}

// emitStart emits the content in the start of a block.
func (c *content) emitStart(a *provider.Answer, key int32) error {
	switch string(c.kind) {
	case "text":
		saveTextOffset(a)
	case "thinking":
	default:
		a.Unknown(c.kind)
		return nil
	}
	c.emit(a, key)
	return nil
}

// emit emits a piece of a block, which has no type.
func (c *content) emit(a *provider.Answer, key int32) {
	if len(c.text) > 0 {
		a.Text(0, abi.EncodingEscaped, c.text)
	}
	if len(c.thinking) > 0 {
		a.Reasoning(0, abi.ReasoningText, key, abi.EncodingEscaped, c.thinking)
	}
}

// emitCall emits a tool call, or the start of one.
func (c *content) emitCall(a *provider.Answer, key int32) error {
	if len(provider.FitName(c.name)) == 0 {
		return sdk.Fail(abi.FailBadToolCall, "The provider's response calls a tool without a valid name.")
	}
	a.ToolCall(0, key, provider.FitName(c.callID), c.name)
	if len(c.arguments) > 0 {
		a.ToolArguments(0, key, abi.EncodingEscaped, c.arguments)
	}
	return nil
}
