package thinking

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxRecorded is how much reasoning of a choice is recorded, in bytes. It is more than a Memory takes of one response.
const maxRecorded = 2 << 20

// Recorder is a response.Renderer that passes everything on to another one, and records what signed reasoning the response
// holds before its tool calls. It gives the calls their tokens, and when the response is complete, it stores what it has
// recorded.
//
// Until Record is called, after each Reset of the Writer, it only passes on.
type Recorder struct {
	response.Renderer
	head *response.Head
	out  *response.Output

	memory           *Memory // nil: nothing is recorded
	client, provider string
	choices          []*recorded // by index; those that are not used hold memory for later
	json             []byte      // scratch
	value            []byte      // scratch
}

// recorded is what is known of one choice.
type recorded struct {
	details Details
	size    int  // bytes in details
	long    bool // details is incomplete: there was more than maxRecorded
	sent    int  // entries of details that the client has in tokens
	calls   []call
}

// call is a tool call. ID and name are the inside of JSON strings.
type call struct {
	begun    bool
	key      int32
	id, name []byte
	extra    []byte // extra_content as the provider gave it
}

// NewRecorder returns a recorder before r, for the use of one Writer.
func NewRecorder(r response.Renderer) *Recorder { return &Recorder{Renderer: r} }

// Unwrap returns the renderer that the recorder passes on to.
func (r *Recorder) Unwrap() response.Renderer { return r.Renderer }

// Record makes the recorder record the response that begins, to a request of a client, from a provider, for a memory.
func (r *Recorder) Record(m *Memory, client, provider string) {
	r.memory, r.client, r.provider = m, client, provider
}

// Reset implements response.Renderer.
func (r *Recorder) Reset(head *response.Head) *response.Output {
	if r.memory != nil { // without one nothing is kept
		r.forget()
	}
	r.head, r.out = head, r.Renderer.Reset(head)
	return r.out
}

// forget drops what it has recorded of a response.
func (r *Recorder) forget() {
	const keepChoices, keepCalls = 8, 16
	if len(r.choices) > keepChoices {
		r.choices = r.choices[:keepChoices:keepChoices]
	}
	for _, c := range r.choices {
		c.details.Reset()
		if cap(c.calls) > keepCalls {
			c.calls = nil
		}
		c.size, c.long, c.sent, c.calls = 0, false, 0, c.calls[:0]
	}
	r.memory, r.client, r.provider = nil, "", ""
	r.json, r.value = response.Reuse(r.json), response.Reuse(r.value)
}

func (r *Recorder) at(choice int32) *recorded {
	for int(choice) >= len(r.choices) {
		r.choices = append(r.choices, new(recorded))
	}
	return r.choices[choice]
}

// call returns the call with an index, making room for it. It is valid until the next one.
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
		if c := r.at(choice); c.size+len(s) > maxRecorded {
			c.long = true
		} else {
			c.details.Add(part, key, s)
			c.size += len(s)
			r.out.Held += len(s)
		}
	}
	r.Renderer.Reasoning(choice, part, key, s)
}

// Member implements response.Renderer.
func (r *Recorder) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	if r.memory != nil && scope == abi.ScopeTool && string(name) == extraContent {
		t := r.at(choice).call(tool)
		t.extra = append(t.extra[:0], value...)
	}
	return r.Renderer.Member(scope, choice, tool, name, value)
}

// ToolCall implements response.Renderer. Reasoning that was signed since the call before leaves with the call, but for the
// signatures of calls: they come after their calls, which have them in members of their own.
func (r *Recorder) ToolCall(choice int32, c response.ToolCall) {
	if r.memory != nil {
		x := r.at(choice)
		t := x.call(c.Index)
		t.begun, t.key, t.id, t.name = true, c.Key, append(t.id[:0], c.ID...), append(t.name[:0], c.Name...)
		if len(t.extra) == 0 && !x.long && x.details.signed(x.sent, false) {
			r.json = x.details.AppendTo(r.json[:0], x.sent, r.head.ReasoningFormat, nil)
			x.sent = x.details.Len()
			r.value = appendToken(append(r.value[:0], `{"google":{"thought_signature":"`...), r.json)
			r.value = append(r.value, `"}}`...)
			r.Renderer.Member(abi.ScopeTool, choice, c.Index, []byte(extraContent), r.value)
		}
	}
	r.Renderer.ToolCall(choice, c)
}

// callID returns the id of the call with a key.
func (c *recorded) callID(key int32) []byte {
	for i := range c.calls {
		if t := &c.calls[i]; t.begun && t.key == key {
			return t.id
		}
	}
	return nil
}

// Complete implements response.Renderer. It stores the reasoning first: the client's next request may follow at once.
func (r *Recorder) Complete(usage response.Usage) {
	if r.memory != nil {
		for _, c := range r.choices {
			r.store(c)
		}
	}
	r.Renderer.Complete(usage)
}

// store puts the reasoning of a choice into the memory, if it called tools and there is something that its provider has signed.
func (r *Recorder) store(c *recorded) {
	var t thought
	some := false
	for i := range c.calls {
		if call := &c.calls[i]; call.begun {
			t.calls = append(t.calls, callKey(r.client, call.id, call.name))
			t.extras = append(t.extras, bytes.Clone(call.extra))
			some = some || len(call.extra) > 0
		}
	}
	if c.details.signed(0, true) && !c.long {
		some = true
		t.details = c.details.AppendTo(nil, 0, r.head.ReasoningFormat, c.callID)
	}
	if len(t.calls) > 0 && some {
		t.provider = r.provider
		r.memory.put(r.client, &t)
	}
}
