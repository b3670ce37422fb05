package thinking

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxRecorded limits the reasoning that is recorded of a choice, in bytes. It is at least what a Memory of the default
// size accepts.
const maxRecorded = 2 << 20

// Recorder is a response.Renderer that forwards all calls to the next one and records the reasoning of the response. It
// adds tokens with signed reasoning to the tool calls that follow it, and stores the reasoning when the response is
// complete. A signature in the provider's extra_content is recorded as reasoning, which is also how APIs other than chat
// completions render it (see carried).
//
// After each Reset, it only forwards until Record is called.
type Recorder struct {
	response.Renderer
	head *response.Head
	out  *response.Output

	memory           *Memory // nil disables recording
	client, provider string
	chat             bool // the API is chat completions, which renders extra_content and tokens
	callID           func(dst, id []byte) []byte
	choices          []*recorded // by index; unused ones are kept for their memory
	json             []byte      // scratch: the entries in a token
	doc              jsondoc.Doc // scratch: an extra_content
	value            []byte      // scratch: the value of extra_content
}

// recorded is the recording of one choice.
type recorded struct {
	details   Details
	size      int  // bytes in details
	truncated bool // details is incomplete because it would exceed maxRecorded
	sent      int  // number of entries of details that were sent in tokens
	extra     bool // the message had extra_content with a signature
	calls     []call
}

// call is a tool call. id and name are the contents of JSON strings.
type call struct {
	begun    bool // ToolCall was called, not only Member
	key      int32
	id, name []byte
	extra    []byte // signed extra_content of the provider, in the form of a carried entry
}

// NewRecorder returns a recorder that calls r, the renderer of an API: chat reports whether that is chat completions, and
// callID is its AppendCallID or nil. The recorder serves one Writer.
func NewRecorder(r response.Renderer, chat bool, callID func(dst, id []byte) []byte) *Recorder {
	return &Recorder{Renderer: r, chat: chat, callID: callID}
}

// Unwrap returns the next renderer.
func (r *Recorder) Unwrap() response.Renderer { return r.Renderer }

// Record starts recording the response that begins, which is from provider and for client, and will be stored in m.
func (r *Recorder) Record(m *Memory, client, provider string) {
	r.memory, r.client, r.provider = m, client, provider
}

// Reset implements response.Renderer.
func (r *Recorder) Reset(head *response.Head) *response.Output {
	if r.memory != nil { // without a memory there is nothing to clear
		r.clear()
	}
	r.head, r.out = head, r.Renderer.Reset(head)
	return r.out
}

// clear removes the recording of a response.
func (r *Recorder) clear() {
	const keepChoices, keepCalls = 8, 16
	if len(r.choices) > keepChoices {
		r.choices = r.choices[:keepChoices:keepChoices]
	}
	for _, c := range r.choices {
		c.details.Reset()
		if cap(c.calls) > keepCalls {
			c.calls = nil
		}
		c.size, c.truncated, c.sent, c.extra, c.calls = 0, false, 0, false, c.calls[:0]
	}
	r.memory, r.client, r.provider = nil, "", ""
	r.json, r.value = response.Reuse(r.json), response.Reuse(r.value)
}

// at returns the recording of a choice. It is added if necessary.
func (r *Recorder) at(choice int32) *recorded {
	for int(choice) >= len(r.choices) {
		r.choices = append(r.choices, new(recorded))
	}
	return r.choices[choice]
}

// call returns the call with this index. It is added if necessary, and valid until another one is added.
func (c *recorded) call(index int32) *call {
	for int(index) >= len(c.calls) {
		n := len(c.calls)
		if n == cap(c.calls) {
			c.calls = append(c.calls, call{})
			continue
		}
		c.calls = c.calls[:n+1]
		old := &c.calls[n]
		*old = call{id: old.id[:0], name: old.name[:0], extra: response.Reuse(old.extra)}
	}
	return &c.calls[index]
}

// Reasoning implements response.Renderer.
func (r *Recorder) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	if r.memory != nil {
		c := r.at(choice)
		known := part == abi.ReasoningToolEncrypted && c.hasExtra(key)
		if !known {
			r.record(c, part, key, s)
		} else if !r.chat {
			return
		}
	}
	r.Renderer.Reasoning(choice, part, key, s)
}

// hasExtra reports whether the signature of the call with this key has arrived in extra_content.
func (c *recorded) hasExtra(key int32) bool {
	for i := range c.calls {
		if t := &c.calls[i]; t.begun && t.key == key {
			return len(t.extra) > 0
		}
	}
	return false
}

// record adds a piece of reasoning to a recording.
func (r *Recorder) record(c *recorded, part abi.ReasoningPart, key int32, s []byte) {
	if c.size+len(s) > maxRecorded {
		c.truncated = true
		return
	}
	c.details.Add(part, key, s)
	c.size += len(s)
	r.out.Held += len(s)
}

// addExtra adds signed extra_content, of a call or of the message, to the reasoning.
func (r *Recorder) addExtra(choice int32, part abi.ReasoningPart, key int32, carried []byte) {
	r.record(r.at(choice), part, key, carried)
	if !r.chat {
		r.Renderer.Reasoning(choice, part, key, carried)
	}
}

// Member implements response.Renderer.
func (r *Recorder) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	// The signatures of a provider whose reasoning has a format arrive as reasoning, too.
	if r.memory != nil && len(r.head.ReasoningFormat) == 0 && string(name) == extraContent && isSignedExtra(value, &r.doc) {
		switch c := r.at(choice); scope {
		case abi.ScopeMessage:
			if !c.extra {
				c.extra = true
				r.value = appendCarried(r.value[:0], r.provider, value)
				r.addExtra(choice, abi.ReasoningEncrypted, 0, r.value)
			}
		case abi.ScopeTool:
			if t := c.call(tool); len(t.extra) == 0 {
				if t.extra = appendCarried(t.extra, r.provider, value); t.begun {
					r.addExtra(choice, abi.ReasoningToolEncrypted, t.key, t.extra)
				}
			}
		}
	}
	return r.Renderer.Member(scope, choice, tool, name, value)
}

// ToolCall implements response.Renderer. It adds to the call a token with the reasoning since the previous call if that
// is signed. Signatures of calls are not included: they arrive after their calls, in members of their own.
func (r *Recorder) ToolCall(choice int32, c response.ToolCall) {
	if r.memory != nil {
		x := r.at(choice)
		t := x.call(c.Index)
		t.begun, t.key, t.name = true, c.Key, append(t.name[:0], c.Name...)
		if r.callID != nil {
			t.id = r.callID(t.id[:0], c.ID)
		} else {
			t.id = append(t.id[:0], c.ID...)
		}
		if r.chat && len(t.extra) == 0 && !x.truncated && x.details.signed(x.sent, false) {
			r.json = x.details.AppendTo(r.json[:0], x.sent, r.head.ReasoningFormat, nil)
			x.sent = x.details.Len()
			r.value = appendToken(append(r.value[:0], `{"google":{"thought_signature":"`...), r.json)
			r.value = append(r.value, `"}}`...)
			r.Renderer.Member(abi.ScopeTool, choice, c.Index, []byte(extraContent), r.value)
		}
	}
	r.Renderer.ToolCall(choice, c)
	if r.memory != nil {
		if t := r.at(choice).call(c.Index); len(t.extra) > 0 {
			r.addExtra(choice, abi.ReasoningToolEncrypted, c.Key, t.extra)
		}
	}
}

// callID returns the ID of the call with this key, nil if there is none.
func (c *recorded) callID(key int32) []byte {
	for i := range c.calls {
		if t := &c.calls[i]; t.begun && t.key == key {
			return t.id
		}
	}
	return nil
}

// Complete implements response.Renderer. It stores the reasoning first, because the client's next request may follow at
// once.
func (r *Recorder) Complete(usage response.Usage) {
	if r.memory != nil {
		for _, c := range r.choices {
			r.store(c)
		}
	}
	r.Renderer.Complete(usage)
}

// store stores the reasoning of a choice in the memory if the choice has tool calls and the provider has signed the
// reasoning.
func (r *Recorder) store(c *recorded) {
	var t thought
	for i := range c.calls {
		if call := &c.calls[i]; call.begun {
			t.calls = append(t.calls, callKey(r.client, call.id, call.name))
		}
	}
	if len(t.calls) > 0 && c.details.signed(0, true) && !c.truncated {
		t.provider = r.provider
		t.details = c.details.AppendTo(nil, 0, r.head.ReasoningFormat, c.callID)
		r.memory.put(r.client, &t)
	}
}
