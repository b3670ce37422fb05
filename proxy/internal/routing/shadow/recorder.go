package shadow

import (
	"cmp"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxRecorded is the maximum size in bytes of the recorded tool calls of one response.
	maxRecorded = 256 << 10

	// callOverhead is the size in bytes of a tool call besides its name and arguments.
	callOverhead = 128
)

// Recorder is a response.Tap that records the finish reasons and tool calls of one response.
type Recorder struct {
	response.Renderer
	finishes  []finish
	calls     []Call
	size      int  // of calls, in bytes
	truncated bool // calls are incomplete because they would exceed maxRecorded
	began     bool // the response has content
}

type finish struct {
	choice int32
	reason abi.FinishReason
}

// SetNext implements response.Tap. It discards the recording of the previous response.
func (r *Recorder) SetNext(next response.Renderer) { *r = Recorder{Renderer: next} }

// Began reports whether the response has content.
func (r *Recorder) Began() bool { return r.began }

// Text implements response.Renderer.
func (r *Recorder) Text(choice int32, s []byte) {
	r.began = true
	r.Renderer.Text(choice, s)
}

// Refusal implements response.Renderer.
func (r *Recorder) Refusal(choice int32, s []byte) {
	r.began = true
	r.Renderer.Refusal(choice, s)
}

// Reasoning implements response.Renderer.
func (r *Recorder) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	r.began = true
	r.Renderer.Reasoning(choice, part, key, s)
}

// reserve reports whether n more bytes of tool calls may be recorded. After it has returned false, nothing more is
// recorded.
func (r *Recorder) reserve(n int) bool {
	if r.truncated = r.truncated || r.size+n > maxRecorded; !r.truncated {
		r.size += n
	}
	return !r.truncated
}

// ToolCall implements response.Renderer.
func (r *Recorder) ToolCall(choice int32, c response.ToolCall) {
	r.began = true
	if r.reserve(callOverhead + len(c.Name) + len(c.Arguments)) {
		r.calls = append(r.calls, Call{choice: choice, index: c.Index, Name: slices.Clone(c.Name), Arguments: slices.Clone(c.Arguments)})
	}
	r.Renderer.ToolCall(choice, c)
}

// ToolArguments implements response.Renderer.
func (r *Recorder) ToolArguments(choice, tool int32, s []byte) {
	if r.reserve(len(s)) {
		for i := len(r.calls) - 1; i >= 0; i-- {
			if c := &r.calls[i]; c.choice == choice && c.index == tool {
				c.Arguments = append(c.Arguments, s...)
				break
			}
		}
	}
	r.Renderer.ToolArguments(choice, tool, s)
}

// Finish implements response.Renderer.
func (r *Recorder) Finish(choice int32, reason abi.FinishReason, native []byte) {
	r.finishes = append(r.finishes, finish{choice, reason})
	r.Renderer.Finish(choice, reason, native)
}

// Describe adds the recorded finish reasons and tool calls to a Response. It is called once, after the response has
// ended.
func (r *Recorder) Describe(to *Response) {
	slices.SortStableFunc(r.finishes, func(a, b finish) int { return cmp.Compare(a.choice, b.choice) })
	for _, f := range r.finishes {
		to.Finishes = append(to.Finishes, f.reason)
	}
	slices.SortStableFunc(r.calls, func(a, b Call) int { return cmp.Or(cmp.Compare(a.choice, b.choice), cmp.Compare(a.index, b.index)) })
	to.Calls, to.Truncated = r.calls, r.truncated
}

// maxText is the maximum size of the text in a response to a copy, in bytes. It equals the limit for non-streaming
// responses, because without a limit a stream could continue forever.
const maxText = response.DefaultMaxHeld

// DiscardRenderer renders the response to a copy, which has no client, by discarding everything.
type DiscardRenderer struct {
	out  response.Output
	text int // size of the text so far, in bytes
}

var (
	_ clientapi.Renderer    = (*DiscardRenderer)(nil)
	_ response.ItemRenderer = (*DiscardRenderer)(nil)
)

// Reset implements response.Renderer.
func (n *DiscardRenderer) Reset(*response.Head) *response.Output {
	n.text = 0
	return &n.out
}

// count adds text to the size of the response, and fails the response if it is too large.
func (n *DiscardRenderer) count(s []byte) {
	if n.text += len(s); n.text > maxText && n.out.Failed == nil {
		n.out.Failed = apierror.Fail(abi.FailBadAnswer, "upstream_answer_too_large", "", "The provider's response is larger than the gateway accepts.")
	}
}

// Text implements response.Renderer.
func (n *DiscardRenderer) Text(_ int32, s []byte) { n.count(s) }

// Refusal implements response.Renderer.
func (n *DiscardRenderer) Refusal(_ int32, s []byte) { n.count(s) }

// Reasoning implements response.Renderer.
func (n *DiscardRenderer) Reasoning(_ int32, _ abi.ReasoningPart, _ int32, s []byte) { n.count(s) }

// ToolCall implements response.Renderer.
func (n *DiscardRenderer) ToolCall(_ int32, c response.ToolCall) { n.count(c.Arguments) }

// ToolArguments implements response.Renderer.
func (n *DiscardRenderer) ToolArguments(_, _ int32, s []byte) { n.count(s) }

// ToolEnd implements response.Renderer.
func (n *DiscardRenderer) ToolEnd(int32, int32) {}

// Member implements response.Renderer.
func (n *DiscardRenderer) Member(_ abi.Scope, _, _ int32, _, value []byte) bool {
	n.count(value)
	return true
}

// Flush implements response.Renderer.
func (n *DiscardRenderer) Flush(int32, bool) {}

// Frame implements response.Renderer. The text in a frame has been counted already.
func (n *DiscardRenderer) Frame([]byte, []byte) {}

// Finish implements response.Renderer.
func (n *DiscardRenderer) Finish(int32, abi.FinishReason, []byte) {}

// Complete implements response.Renderer.
func (n *DiscardRenderer) Complete(response.Usage) {}

// AppendError implements response.Renderer.
func (n *DiscardRenderer) AppendError(dst []byte, _ *apierror.Error) []byte { return dst }

// AppendResponse implements response.Renderer.
func (n *DiscardRenderer) AppendResponse(dst []byte, _ response.Usage) []byte { return dst }

// Embedding implements response.ItemRenderer.
func (n *DiscardRenderer) Embedding(_ int32, numbers []byte) { n.count(numbers) }

// Rank implements response.ItemRenderer.
func (n *DiscardRenderer) Rank(int32, []byte) {}

// EndItems implements response.ItemRenderer.
func (n *DiscardRenderer) EndItems() {}

// Respond implements clientapi.Renderer.
func (n *DiscardRenderer) Respond(clientapi.Request) {}

// Pass implements clientapi.Renderer.
func (n *DiscardRenderer) Pass() {}
