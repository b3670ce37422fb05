package responses_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// A complete response can be retrieved by the ID at the start of its stream. Requests that refer to the response or to
// its items mean the same as requests with the conversation.
//
// covers: P1.3 P2.21 P9.2 P9.5 P9.6 P9.10
func TestCompleteResponsesAreStored(t *testing.T) {
	o := testOptions
	o.Memory = responses.NewMemory(0, 0, nil)
	h := newHarness(t, o, `"tools":[{"type":"function","name":"look","parameters":{}}],"instructions":"Be brief."`)
	stream := h.play(true, []step{text("So."), call(0, "call_1", "look"), args(0, `{"a":1}`), finish(abi.FinishToolCalls)})
	id := readStream(t, stream).ID
	events := parseEvents(string(stream))
	if !strings.Contains(events[0].data, `"id":"`+id+`"`) || !strings.Contains(events[0].data, `"store":true`) {
		t.Errorf("the stream starts with %s", events[0].data)
	}
	body, ok := o.Memory.AppendResponse(nil, "client", id)
	if !ok {
		t.Fatal("not stored")
	}
	stored := readWhole(t, body)
	if stored.ID != id || len(stored.Output) != 2 || stored.Instructions.OfString != "Be brief." || len(stored.Tools) != 1 {
		t.Errorf("stored %s", body)
	}

	next := func(members string) string {
		t.Helper()
		q := h.api.NewRequest().(*responses.Request)
		if e := q.Parse([]byte(`{"model":"m",`+members+`}`), clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
		if e := q.Expand("client"); e != nil {
			t.Fatal(e)
		}
		chat, _, e := q.AppendChat(nil)
		if e != nil {
			t.Fatal(e)
		}
		return string(chat)
	}
	want := next(`"input":[{"role":"user","content":"Hello."},{"role":"assistant","content":"So."},{"type":"function_call","call_id":"call_1","name":"look","arguments":"{\"a\":1}"},` +
		`{"type":"function_call_output","call_id":"call_1","output":"7"}]`)
	if got := next(`"previous_response_id":"` + id + `","input":[{"type":"function_call_output","call_id":"call_1","output":"7"}]`); plainText(got) != plainText(want) {
		t.Errorf("with previous_response_id: %s\nwant %s", got, want)
	}
	got := next(`"input":[{"role":"user","content":"Hello."},{"type":"item_reference","id":"` + stored.Output[0].ID + `"},{"type":"item_reference","id":"` + stored.Output[1].ID + `"},` +
		`{"type":"function_call_output","call_id":"call_1","output":"7"}]`)
	if plainText(got) != plainText(want) {
		t.Errorf("with item references: %s\nwant %s", got, want)
	}

	deleted, ok := o.Memory.AppendDeleted(nil, "client", id)
	if !ok || string(deleted) != `{"id":"`+id+`","object":"response","deleted":true}` {
		t.Errorf("deleted: %s, %v", deleted, ok)
	}
	if _, ok := o.Memory.AppendResponse(nil, "client", id); ok || o.Memory.Size() != 0 {
		t.Error("still stored after deletion")
	}
	if _, ok := o.Memory.AppendDeleted(nil, "client", id); ok {
		t.Error("deleted twice")
	}
}

// plainText returns a chat completions request with the content of the assistant message as a string.
func plainText(s string) string {
	return strings.NewReplacer(`[{"type":"text","text":"So."}]`, `"So."`).Replace(s)
}

// covers: P9.1 P9.3 P9.4
func TestResponsesThatAreNotStored(t *testing.T) {
	o := testOptions
	o.Memory = responses.NewMemory(1<<20, 0, nil)
	for name, c := range map[string]struct {
		members string
		steps   []step
		stored  bool
	}{
		"complete":    {``, []step{text("a"), finish(abi.FinishStop)}, true},
		"incomplete":  {``, []step{text("a"), finish(abi.FinishLength)}, true},
		"store true":  {`"store":true`, []step{text("a"), finish(abi.FinishStop)}, true},
		"store false": {`"store":false`, []step{text("a"), finish(abi.FinishStop)}, false},
		"truncated":   {``, []step{text("a")}, false},
		"failed":      {``, nil, false},
		"too large":   {``, []step{text(strings.Repeat("a", 1<<20/10)), finish(abi.FinishStop)}, false},
	} {
		for _, stream := range []bool{false, true} {
			h := newHarness(t, o, c.members)
			steps := c.steps
			if name == "failed" {
				steps = []step{text("a"), nil}
				steps[1] = fail(apierror.Fail(abi.FailServer, "", "", ""))
			}
			h.play(stream, steps)
			const id = "resp_c7b5afed0cff09e921e32e97094d59e6bdadd9e7929a0000"
			if _, ok := o.Memory.AppendResponse(nil, "client", id); ok != c.stored {
				t.Errorf("%s: stored %v, want %v", name, ok, c.stored)
			}
			if _, ok := o.Memory.AppendResponse(nil, "another", id); ok {
				t.Errorf("%s: available to another client", name)
			}
			o.Memory.AppendDeleted(nil, "client", id)
		}
	}
	if n := o.Memory.Size(); n != 0 {
		t.Errorf("%d bytes are left after deletion", n)
	}
}

// covers: P1.3
func TestInputItems(t *testing.T) {
	o := testOptions
	o.Memory = responses.NewMemory(0, 0, nil)
	h := newHarness(t, o, "")
	var items []string
	for i := range 25 {
		items = append(items, fmt.Sprintf(`{"role":"user","content":"%d"}`, i))
	}
	items[3] = `{"type":"message","id":"mine","role":"user","content":"3"}`
	if e := h.request.Parse([]byte(`{"model":"m","input":[`+strings.Join(items, ",")+`]}`), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	_ = h.request.(*responses.Request).Expand("client")
	id := readWhole(t, h.play(false, []step{text("a"), finish(abi.FinishStop)})).ID
	type page struct {
		Object  string
		Data    []struct{ ID, Type, Content string }
		FirstID string `json:"first_id"`
		LastID  string `json:"last_id"`
		HasMore bool   `json:"has_more"`
	}
	get := func(p responses.Page) (out page) {
		t.Helper()
		body, ok := o.Memory.AppendInputItems(nil, "client", id, p)
		if !ok {
			t.Fatal("not found")
		}
		if err := json.Unmarshal(body, &out); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		return out
	}
	first := get(responses.Page{})
	if len(first.Data) != 20 || !first.HasMore || first.Data[0].Content != "24" || first.Data[0].ID != first.FirstID || first.Data[19].ID != first.LastID || first.Object != "list" {
		t.Errorf("first page: %+v", first)
	}
	second := get(responses.Page{After: first.LastID})
	if len(second.Data) != 5 || second.HasMore || second.Data[4].Content != "0" || second.Data[1].ID != "mine" || second.Data[0].Type != "message" {
		t.Errorf("second page: %+v", second)
	}
	if up := get(responses.Page{Ascending: true, Limit: 2}); len(up.Data) != 2 || up.Data[0].Content != "0" || !up.HasMore {
		t.Errorf("ascending: %+v", up)
	}
	if none := get(responses.Page{After: "unknown"}); len(none.Data) != 0 || none.HasMore || none.FirstID != "" {
		t.Errorf("after an unknown item: %+v", none)
	}
	if _, ok := o.Memory.AppendInputItems(nil, "another", id, responses.Page{}); ok {
		t.Error("available to another client")
	}
}

func TestMemoryIsSafeForConcurrentUse(t *testing.T) {
	o := testOptions
	o.Memory = responses.NewMemory(64<<10, 0, nil)
	var wg sync.WaitGroup
	for range 4 {
		h := newHarness(t, o, "")
		wg.Go(func() {
			for i := range 200 {
				r := h.play(i%2 == 0, []step{text(strings.Repeat("a", i)), finish(abi.FinishStop)})
				_ = r
				const id = "resp_c7b5afed0cff09e921e32e97094d59e6bdadd9e7929a0000"
				o.Memory.AppendConversation(nil, "client", id)
				o.Memory.AppendItem(nil, "client", "msg_"+id[5:len(id)-1]+"1")
				if n := o.Memory.Size(); n > 64<<10 {
					t.Errorf("%d bytes", n)
				}
			}
		})
	}
	wg.Wait()
}
