package response_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// recorder is a Renderer that records its calls and checks them against the contract of the interface. The output of a
// stream has one line per call.
type recorder struct {
	head     *response.Head
	out      response.Output
	calls    []string
	broken   []string           // violations of the contract
	tools    map[int32][]string // "begun" or "ended" for each tool call, by choice
	finished map[int32]bool
	complete bool
}

func (r *recorder) Reset(head *response.Head) *response.Output {
	*r = recorder{head: head, out: r.out, tools: map[int32][]string{}, finished: map[int32]bool{}}
	return &r.out
}

// record records a call that writes to a choice.
func (r *recorder) record(choice int32, format string, args ...any) {
	call := fmt.Sprintf("%d ", choice) + fmt.Sprintf(format, args...)
	r.check(!r.complete, "%s after Complete", call)
	r.check(!r.finished[choice], "%s after Finish", call)
	r.calls = append(r.calls, call)
	r.out.Held++
	if r.head.Stream {
		r.head.Fix()
		r.out.Buf = append(append(r.out.Buf, call...), '\n')
	}
}

func (r *recorder) check(ok bool, format string, args ...any) {
	if !ok {
		r.broken = append(r.broken, fmt.Sprintf(format, args...))
	}
}

// text checks that s is not empty and, in quotes, a valid JSON string.
func (r *recorder) text(s []byte) []byte {
	r.check(len(s) > 0 && json.Valid([]byte(`"`+string(s)+`"`)), "text %q", s)
	return s
}

func (r *recorder) Text(choice int32, s []byte)    { r.record(choice, "text %s", r.text(s)) }
func (r *recorder) Refusal(choice int32, s []byte) { r.record(choice, "refusal %s", r.text(s)) }

func (r *recorder) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	r.record(choice, "reasoning %d %d %s", part, key, r.text(s))
}

func (r *recorder) ToolCall(choice int32, call response.ToolCall) {
	r.check(int(call.Index) == len(r.tools[choice]), "tool call %d after %d others", call.Index, len(r.tools[choice]))
	r.text(call.ID)
	r.text(call.Name)
	r.tools[choice] = append(r.tools[choice], "begun")
	r.record(choice, "call %s %s", call.Name, call.Arguments)
}

// tool returns the state of a tool call.
func (r *recorder) tool(choice, tool int32) string {
	if int(tool) >= len(r.tools[choice]) {
		return "unknown"
	}
	return r.tools[choice][tool]
}

func (r *recorder) ToolArguments(choice, tool int32, s []byte) {
	r.check(r.tool(choice, tool) == "begun", "arguments of a call that is %s", r.tool(choice, tool))
	r.record(choice, "arguments %d %s", tool, r.text(s))
}

func (r *recorder) ToolEnd(choice, tool int32) {
	r.check(r.tool(choice, tool) == "begun", "end of a call that is %s", r.tool(choice, tool))
	r.tools[choice][tool] = "ended"
	r.record(choice, "end %d", tool)
}

func (r *recorder) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	r.check(json.Valid(value), "member %s is %s", name, value)
	if scope == abi.ScopeTool {
		r.check(int(tool) <= len(r.tools[choice]), "member of tool call %d of %d", tool, len(r.tools[choice]))
	}
	return true
}

func (r *recorder) Frame(name, data []byte) {}

func (r *recorder) Flush(choice int32, finished bool) {
	r.check(r.head.Stream && !r.finished[choice], "flush after the end, or without a stream")
}

func (r *recorder) Finish(choice int32, reason abi.FinishReason, native []byte) {
	r.record(choice, "finish %d %s", reason, native)
	r.finished[choice] = true
}

func (r *recorder) Complete(usage response.Usage) {
	r.check(usage.Complete && usage.Total == usage.Prompt+usage.Completion && len(r.finished) > 0, "usage %+v", usage)
	r.complete = true
}

func (r *recorder) AppendError(dst []byte, e *apierror.Error) []byte {
	return append(dst, "error\n"...)
}

func (r *recorder) AppendResponse(dst []byte, usage response.Usage) []byte { return dst }

// TestWriterKeepsRendererContract writes random responses, which complete or fail at a random event, to a renderer that
// checks its calls.
func TestWriterKeepsRendererContract(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recorder
		w := response.NewWriter(&r)
		w.Reset(propertyOptions(rapid.Bool().Draw(t, "stream")))
		events := drawEvents(t)
		cut := rapid.IntRange(0, len(events)).Draw(t, "cut")
		play(t, w, events[:cut], "batch")
		var b response.Batch
		if rapid.Bool().Draw(t, "fails") {
			b.Fail(apierror.Fail(abi.FailServer, "", "", ""))
		} else {
			b.Done(abi.DoneNow)
		}
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		play(t, w, events[cut:], "late batch")
		_ = w.End()
		if len(r.broken) > 0 {
			t.Fatalf("contract broken: %q\ncalls: %q", r.broken, r.calls)
		}
		if r.complete != w.Complete() {
			t.Fatalf("renderer complete: %v, writer: %v", r.complete, w.Complete())
		}
	})
}

// TestRendererReceivesBlocksInOrder checks that renderers receive blocks in the provider's order, also for
// non-streaming responses.
func TestRendererReceivesBlocksInOrder(t *testing.T) {
	for _, stream := range []bool{true, false} {
		var r recorder
		w := response.NewWriter(&r)
		w.Reset(response.Options{Stream: stream, ID: "id", Model: "m"})
		var b response.Batch
		b.Reasoning(0, abi.ReasoningText, 0, 0, []byte("one"))
		b.Text(0, 0, []byte("two"))
		b.ToolCall(0, 1, []byte("a"), []byte("f"))
		b.ToolArguments(0, 1, 0, []byte("{}"))
		b.ToolEnd(0, 1)
		b.Reasoning(0, abi.ReasoningText, 2, 0, []byte("three"))
		b.Text(0, 0, []byte("four"))
		b.Finish(0, abi.FinishStop, []byte("end_turn"))
		b.Done(abi.DoneNow)
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"0 reasoning 0 0 one", "0 text two", "0 call f {}", "0 end 0", "0 reasoning 0 2 three", "0 text four",
			fmt.Sprintf("0 finish %d end_turn", abi.FinishToolCalls),
		}
		if !reflect.DeepEqual(r.calls, want) || len(r.broken) > 0 {
			t.Errorf("stream %v: calls %q, want %q; broken %q", stream, r.calls, want, r.broken)
		}
	}
}
