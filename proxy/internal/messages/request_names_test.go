package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: M4.5
func TestLongToolNamesAreShortenedForOtherProviders(t *testing.T) {
	long := "mcp__server__" + strings.Repeat("find_", 20)
	other := long + "files"
	r := messages.NewRequest(nil)
	e := r.Parse([]byte(`{"model":"m","max_tokens":100,"tools":[{"name":"`+long+`","input_schema":{}},{"name":"`+other+`","input_schema":{}},{"name":"short","input_schema":{}}],
		"tool_choice":{"type":"tool","name":"`+other+`"},"messages":[{"role":"user","content":"Hi"},
		{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"`+other+`","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`), clientapi.Limits{})
	if e != nil {
		t.Fatal(e)
	}
	body, _, e := r.AppendChat(nil)
	if e != nil {
		t.Fatal(e)
	}
	type function struct{ Function struct{ Name string } }
	var chat struct {
		Tools      []function
		ToolChoice function `json:"tool_choice"`
		Messages   []struct {
			ToolCalls []function `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &chat); err != nil {
		t.Fatal(err)
	}
	first, second := chat.Tools[0].Function.Name, chat.Tools[1].Function.Name
	if len(first) != 64 || len(second) != 64 || first == second || first[:40] != long[:40] || chat.Tools[2].Function.Name != "short" {
		t.Errorf("tools %+v", chat.Tools)
	}
	if chat.ToolChoice.Function.Name != second || chat.Messages[1].ToolCalls[0].Function.Name != second {
		t.Errorf("choice %+v, calls %+v, want %s", chat.ToolChoice, chat.Messages[1].ToolCalls, second)
	}
	if _, own := r.Document(); !strings.Contains(string(own), long) {
		t.Error("a provider of the same API does not receive the original tool name")
	}

	for _, stream := range []bool{true, false} {
		renderer := messages.NewRenderer(nil)
		w := response.NewWriter(renderer)
		w.Reset(response.Options{Stream: stream, ID: "msg_1", Model: "m"})
		renderer.Respond(r)
		var b response.Batch
		for i, name := range []string{second, "short"} {
			b.ToolCall(0, int32(i), []byte{'a' + byte(i)}, []byte(name))
			b.ToolEnd(0, int32(i))
		}
		b.Finish(0, abi.FinishToolCalls, nil)
		b.Done(abi.DoneNow)
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		out := string(w.Output())
		if !stream {
			out = string(w.AppendResponse(nil))
		}
		if !strings.Contains(out, `"name":"`+other+`"`) || !strings.Contains(out, `"name":"short"`) || strings.Contains(out, second) {
			t.Errorf("the client receives %s", out)
		}
	}
}
