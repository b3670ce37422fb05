package thinking_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const signedEntry = `{"type":"reasoning.text","text":"hm","signature":"s1","format":"f1","index":0}`

// conversation returns a request with one tool call. message and call are additional members of the assistant message
// and of its call.
func conversation(message, call string) string {
	return `{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"f","arguments":"{}"}` +
		call + `}]` + message + `},{"role":"tool","tool_call_id":"t1","content":"r"}]}`
}

// carried returns an entry that carries the extra_content of a call or, if id is empty, of the message.
func carried(provider, id string) string {
	entry := `{"type":"reasoning.encrypted","data":"{\"provider\":\"` + provider + `\",\"extra_content\":{\"google\":{\"thought_signature\":\"CiQB\"}}}","index":0`
	if id != "" {
		entry += `,"id":"` + id + `"`
	}
	return entry + "}"
}

func restore(t *testing.T, m *thinking.Memory, body string, max int) string {
	t.Helper()
	var d jsondoc.Doc
	if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	out, changed := m.Restore(nil, &d, "key", func(p string) bool { return p == "up" }, max)
	if !changed {
		if len(out) > 0 {
			t.Errorf("Restore reports no change, but appended %q", out)
		}
		return body
	}
	var r openai.Request
	if e := r.Parse(out, clientapi.Limits{}); e != nil {
		t.Fatalf("%v in %s", e, out)
	}
	return string(out)
}

func TestRestore(t *testing.T) {
	token := thinking.AppendToken("[" + signedEntry + "]")
	extra := func(s string) string { return `,"extra_content":{"google":{"thought_signature":"` + s + `"}}` }
	known, details := "["+signedEntry+"]", `,"reasoning_details":[`+signedEntry+`]`
	unsigned := `,"reasoning_details":[{"type":"reasoning.text","text":"hm"}]`
	other := `,"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]`
	for _, c := range []struct{ name, memory, message, call, wantMessage, wantCall string }{
		{"from memory", known, ``, ``, details, ``},
		{"reasoning_content is kept", known, `,"reasoning_content":"hm"`, ``, `,"reasoning_content":"hm"` + details, ``},
		{"from the call", ``, ``, extra(token), details, ``},
		{"the token has precedence", `[{"type":"reasoning.encrypted","data":"stale"}]`, ``, extra(token), details, ``},
		{"null", known, `,"reasoning_details":null`, ``, details, ``},
		{"unsigned", known, unsigned, ``, details, ``},
		{"the client returned signed details", known, other, ``, other, ``},
		{"the client returned signed details and the token", known, other, extra(token), other, ``},
		{"thinking_blocks", known, `,"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}]`, ``, `,"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}]`, ``},
		{"neither memory nor token", ``, ``, ``, ``, ``},
		{"a signature of Gemini is kept", ``, ``, extra("CiQB"), ``, extra("CiQB")},
		{"other members are kept", ``, ``, `,"extra_content":{"a":1,"google":{"thought_signature":"` + token + `","b":2},"c":3}`, details, `,"extra_content":{"a":1,"google":{"b":2},"c":3}`},
		{"a member before is kept", ``, ``, `,"extra_content":{"a":1,"google":{"thought_signature":"` + token + `"}}`, details, `,"extra_content":{"a":1}`},
		{"another member after", ``, ``, extra(token) + `,"index":0`, details, `,"index":0`},
		{"carried for a call", ``, `,"reasoning_details":[` + carried("up", "t1") + `]`, ``, ``, extra("CiQB")},
		{"carried for the message", ``, `,"reasoning_details":[` + signedEntry + `,` + carried("up", "") + `]`, ``, details + extra("CiQB"), ``},
		{"carried in a token", ``, ``, extra(thinking.AppendToken("[" + carried("up", "") + "]")), extra("CiQB"), ``},
		{"carried in memory", "[" + carried("up", "t1") + "," + signedEntry + "]", ``, ``, details, extra("CiQB")},
		{"carried from another provider", ``, `,"reasoning_details":[` + carried("down", "t1") + `]`, ``, ``, ``},
		{"carried for another call", ``, `,"reasoning_details":[` + carried("up", "t2") + `]`, ``, ``, ``},
		{"carried, but the client returned it", ``, `,"reasoning_details":[` + carried("up", "t1") + `]`, extra("AAAA"), ``, extra("AAAA")},
		{"not base64", known, ``, extra(token[:20] + "!"), details, ``},
		{"not JSON", ``, ``, extra(thinking.AppendToken("[{")), ``, ``},
		{"not entries", ``, ``, extra(thinking.AppendToken("[1]")), ``, ``},
		{"no entries", ``, ``, extra(thinking.AppendToken("[]")), ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := thinking.NewMemory(0, 0, nil)
			if c.memory != "" {
				m.Put("key", "up", c.memory, call("t1"))
			}
			got, want := restore(t, m, conversation(c.message, c.call), 1<<20), conversation(c.wantMessage, c.wantCall)
			if canonical(t, got) != canonical(t, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func canonical(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

func TestRestoreOnlyFromUsableProviders(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	m.Put("key", "elsewhere", "["+signedEntry+"]", call("t1"))
	if body := conversation("", ""); restore(t, m, body, 1<<20) != body {
		t.Error("reasoning of an unusable provider was restored")
	}
}

func TestRestoreWithinLimit(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	body := `{"model":"m","messages":[{"role":"user","content":"q"}`
	for _, id := range []string{"t1", "t2"} {
		m.Put("key", "up", `[{"type":"reasoning.text","text":"`+id+`","signature":"s"}]`, call(id))
		body += `,{"role":"assistant","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}],"content":""},{"role":"tool","tool_call_id":"` + id + `","content":"r"}`
	}
	body += "]}"
	one := len(`"reasoning_details":[{"type":"reasoning.text","text":"t1","signature":"s"}],`)
	for max, want := range map[int]string{len(body) + 2*one: "t1 t2", len(body) + 2*one - 1: "t2", len(body): "", 0: ""} {
		got := restore(t, m, body, max)
		var restored []string
		for _, id := range []string{"t1", "t2"} {
			if strings.Contains(got, `"text":"`+id) {
				restored = append(restored, id)
			}
		}
		if strings.Join(restored, " ") != want || len(got) > max && want != "" {
			t.Errorf("at most %d bytes: restored %q, want %q", max, restored, want)
		}
	}
}

// A client may send the parallel calls of one response in separate messages. The reasoning belongs to the first of
// them.
func TestRestoreOnce(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	m.Put("key", "up", "["+signedEntry+"]", call("t1"), call("t2"))
	body := `{"model":"m","messages":[{"role":"user","content":"q"}`
	for _, id := range []string{"t1", "t2"} {
		body += `,{"role":"assistant","content":"","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"r"}`
	}
	if got := restore(t, m, body+"]}", 1<<20); strings.Count(got, "reasoning_details") != 1 || strings.Index(got, "reasoning_details") > strings.Index(got, `"t1"`) {
		t.Errorf("got %s", got)
	}
	// But a provider may start numbering its calls again in each response.
	body = strings.ReplaceAll(body, `"t2"`, `"t1"`)
	if got := restore(t, m, body+"]}", 1<<20); strings.Count(got, "reasoning_details") != 2 {
		t.Errorf("the same id twice: got %s", got)
	}
	// Signatures of the calls go with their calls.
	m.Put("key", "up", "["+carried("up", "c1")+","+carried("up", "c2")+"]", call("c1"), call("c2"))
	body = strings.ReplaceAll(body, `"t1"`, `"c1"`)
	last := strings.LastIndex(body, `,{"role":"assistant"`)
	body = body[:last] + strings.ReplaceAll(body[last:], `"c1"`, `"c2"`)
	if got := restore(t, m, body+"]}", 1<<20); strings.Count(got, `{"extra_content":{"google":{"thought_signature":"CiQB"}},"id":"c`) != 2 {
		t.Errorf("signatures of two calls: got %s", got)
	}
}

// TestRecordAndRestore covers clients that return tool calls with and without their extra_content.
func TestRecordAndRestore(t *testing.T) {
	const utf8 = abi.EncodingUTF8
	cases := []struct {
		name string
		fill func(b *response.Batch)
		want string // the restored entries
		lost bool   // not restored without the memory
	}{
		{"signed", func(b *response.Batch) {
			b.Start([]byte("id"), nil, []byte("f1"))
			b.Reasoning(0, abi.ReasoningText, 0, utf8, []byte("h"))
			b.Reasoning(0, abi.ReasoningText, 0, utf8, []byte("m"))
			b.Reasoning(0, abi.ReasoningSignature, 0, utf8, []byte("s1"))
			b.ToolCall(0, 1, []byte("t1"), []byte("f"))
		}, `[` + signedEntry + `]`, false},
		{"redacted", func(b *response.Batch) {
			b.Reasoning(0, abi.ReasoningEncrypted, 0, utf8, []byte("x\"y"))
			b.ToolCall(0, 1, []byte("t1"), []byte("f"))
		}, `[{"type":"reasoning.encrypted","data":"x\"y","index":0}]`, false},
		{"unsigned", func(b *response.Batch) {
			b.Reasoning(0, abi.ReasoningText, 0, utf8, []byte("hm"))
			b.ToolCall(0, 1, []byte("t1"), []byte("f"))
		}, ``, false},
		{"signed after the call", func(b *response.Batch) {
			b.ToolCall(0, 1, []byte("t1"), []byte("f"))
			b.Reasoning(0, abi.ReasoningToolEncrypted, 1, utf8, []byte("sig"))
		}, `[{"type":"reasoning.encrypted","data":"sig","id":"t1","index":1}]`, true},
		{"an id with an escape", func(b *response.Batch) {
			b.Reasoning(0, abi.ReasoningEncrypted, 0, utf8, []byte("x"))
			b.ToolCall(0, 1, []byte("t\"1é"), []byte("f"))
		}, `[{"type":"reasoning.encrypted","data":"x","index":0}]`, false},
	}
	for _, c := range cases {
		for _, stream := range []bool{true, false} {
			for _, returnsExtra := range []bool{true, false} {
				m := thinking.NewMemory(0, 0, nil)
				rec := thinking.NewRecorder(new(openai.Renderer), true, nil)
				w := response.NewWriter(rec)
				w.Reset(response.Options{Stream: stream, ID: "own", Model: "m"})
				rec.Record(m, "key", "up")
				var b response.Batch
				c.fill(&b)
				b.ToolEnd(0, 1)
				b.Finish(0, abi.FinishToolCalls, nil)
				b.Done(abi.DoneNow)
				if err := w.Apply(&b); err != nil || !w.Complete() {
					t.Fatalf("%s: %v", c.name, err)
				}
				out := string(w.Output())
				if !stream {
					out = string(w.AppendResponse(nil))
				}
				calls := returnedCalls(t, out, stream, returnsExtra)
				if returnsExtra {
					m = thinking.NewMemory(0, 0, nil) // another gateway
				}
				got := restore(t, m, `{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":`+calls+`},{"role":"tool","tool_call_id":`+idOf(t, calls)+`,"content":"r"}]}`, 1<<20)
				var parsed struct {
					Messages []struct {
						Details json.RawMessage `json:"reasoning_details"`
					}
				}
				if err := json.Unmarshal([]byte(got), &parsed); err != nil {
					t.Fatal(err)
				}
				want := c.want
				if returnsExtra && c.lost {
					want = ""
				}
				if d := string(parsed.Messages[1].Details); d != want {
					t.Errorf("%s, streamed %v, returns extra_content %v: got %s, want %s", c.name, stream, returnsExtra, d, want)
				}
			}
		}
	}
}

// returnedCalls returns the tool call of a response as a client sends it back.
func returnedCalls(t *testing.T, out string, stream, returnsExtra bool) string {
	t.Helper()
	type toolCall map[string]json.RawMessage
	type body struct {
		ToolCalls []toolCall `json:"tool_calls"`
	}
	var docs []string
	if stream {
		for _, f := range strings.Split(strings.TrimSpace(out), "\n\n") {
			docs = append(docs, strings.TrimPrefix(f, "data: "))
		}
	} else {
		docs = []string{out}
	}
	for _, d := range docs {
		var v struct {
			Choices []struct{ Delta, Message body }
		}
		if json.Unmarshal([]byte(d), &v) != nil || len(v.Choices) == 0 {
			continue
		}
		for _, tc := range append(v.Choices[0].Delta.ToolCalls, v.Choices[0].Message.ToolCalls...) {
			if tc["id"] == nil {
				continue
			}
			delete(tc, "index")
			if !returnsExtra {
				delete(tc, "extra_content")
			}
			out, _ := json.Marshal([]toolCall{tc})
			return string(out)
		}
	}
	t.Fatalf("no tool call in %s", out)
	return ""
}

func idOf(t *testing.T, calls string) string {
	t.Helper()
	var v []struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(calls), &v); err != nil {
		t.Fatal(err)
	}
	return string(v[0].ID)
}

// The extra_content that a provider sends is passed on, stored and restored.
func TestProviderExtraContentIsRestored(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	rec := thinking.NewRecorder(new(openai.Renderer), true, nil)
	w := response.NewWriter(rec)
	w.Reset(response.Options{ID: "own", Model: "m"})
	rec.Record(m, "key", "up")
	var b response.Batch
	b.Reasoning(0, abi.ReasoningText, 0, 0, []byte("hm"))
	b.Reasoning(0, abi.ReasoningSignature, 0, 0, []byte("s"))
	b.ToolCall(0, 1, []byte("t1"), []byte("f"))
	b.Extra(abi.ScopeTool, 0, 1, []byte("extra_content"), []byte(`{"google":{"thought_signature":"CiQB"}}`))
	b.Finish(0, abi.FinishToolCalls, nil)
	b.Done(abi.DoneNow)
	if err := w.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if out := string(w.AppendResponse(nil)); !strings.Contains(out, `"extra_content":{"google":{"thought_signature":"CiQB"}}`) {
		t.Errorf("the response has %s", out)
	}
	got := restore(t, m, conversation("", ""), 1<<20)
	if !strings.Contains(got, `"extra_content":{"google":{"thought_signature":"CiQB"}}`) || !strings.Contains(got, `"signature":"s"`) {
		t.Errorf("got %s", got)
	}
}

// A failed response is not stored, and does not affect the next one of the same Writer.
func TestFailedResponseIsNotStored(t *testing.T) {
	m := thinking.NewMemory(0, 0, nil)
	rec := thinking.NewRecorder(new(openai.Renderer), true, nil)
	w := response.NewWriter(rec)
	for _, fails := range []bool{true, false} {
		w.Reset(response.Options{Stream: true, ID: "own", Model: "m"})
		rec.Record(m, "key", "up")
		var b response.Batch
		if fails {
			b.Reasoning(0, abi.ReasoningEncrypted, 0, 0, []byte("x"))
		}
		b.ToolCall(0, 1, []byte("t1"), []byte("f"))
		b.ToolEnd(0, 1)
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		if fails {
			w.Fail(response.Truncated())
		} else {
			b.Finish(0, abi.FinishToolCalls, nil)
			b.Done(abi.DoneNow)
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
		}
		if n := m.Size(); n != 0 {
			t.Errorf("failed %v: %d bytes are stored", fails, n)
		}
	}
}
