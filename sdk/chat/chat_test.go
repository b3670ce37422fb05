package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

const conversation = `[
	{"role":"system","content":"Be \"brief\"."},
	{"cache_control":{"type":"ephemeral"},"content":[{"type":"text","text":"Look:","cache_control":{}},{"image_url":{"url":"https://x\/y","detail":"low"},"type":"image_url"},
		{"type":"file","file":{"file_id":"f1"}},{"type":"input_audio","input_audio":{"data":"AA=="}}],"role":"user","name":"jane","x":1},
	{"role":"assistant","content":null,"refusal":"No.","reasoning_content":"Hm.","reasoning_details":[{}],"annotations":[],"audio":{"id":"a"},"tool_calls":[
		{"id":"c\"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{}},"cache_control":{}},
		{"custom":{"input":"ls","name":"sh"},"id":"c2","type":"custom"}]},
	{"role":"tool","tool_call_id":"c\"1","content":"42","is_error":true}
]`

// describe lists what is read.
func describe(document string) string {
	var (
		b        strings.Builder
		in       json.Reader
		messages chat.Messages
		parts    chat.Parts
		calls    chat.Calls
	)
	in.Reset([]byte(document))
	for messages.Open(&in); messages.Next(); {
		m := &messages.Message
		fmt.Fprintf(&b, "%s %s text=%s refusal=%s id=%s failed=%t reasoning=%s details=%s named=%t audio=%t unknown=%s\n", m.Param(""), m.Role, m.Text, m.Refusal,
			m.ToolCallID.Text(), m.Failed, m.Reasoning, m.ReasoningDetails, m.Named, m.Audio, m.Unknown)
		for parts.Open(m); parts.Next(); {
			p := &parts.Part
			fmt.Fprintf(&b, "  %s %s text=%s url=%s detail=%s file=%s audio=%s cache=%t\n", p.Param(m, ".x"), p.Type, p.Text, p.URL, p.Detail, p.File, p.Audio, p.CacheControl)
		}
		for calls.Open(m); calls.Next(); {
			c := &calls.Call
			fmt.Fprintf(&b, "  %s %s id=%s name=%s arguments=%s extra=%s cache=%t\n", c.Param(m, ".y"), c.Type, c.ID, c.Name, c.ArgumentsText(), c.ExtraContent, c.CacheControl)
		}
	}
	return b.String()
}

func TestMessages(t *testing.T) {
	const want = `messages[0] system text=Be \"brief\". refusal= id= failed=false reasoning= details= named=false audio=false unknown=[]
messages[1] user text= refusal= id= failed=false reasoning= details= named=true audio=false unknown=[cache_control x]
  messages[1].content[0].x text text=Look: url= detail= file= audio= cache=true
  messages[1].content[1].x image_url text= url=https://x\/y detail=low file= audio= cache=false
  messages[1].content[2].x file text= url= detail= file={"file_id":"f1"} audio= cache=false
  messages[1].content[3].x input_audio text= url= detail= file= audio={"data":"AA=="} cache=false
messages[2] assistant text= refusal=No. id= failed=false reasoning=Hm. details=[{}] named=false audio=true unknown=[]
  messages[2].tool_calls[0].y function id="c\"1" name=f arguments={"a":1} extra={"google":{}} cache=true
  messages[2].tool_calls[1].y custom id="c2" name=sh arguments=ls extra= cache=false
messages[3] tool text=42 refusal= id=c"1 failed=true reasoning= details= named=false audio=false unknown=[]
`
	if diff := cmp.Diff(want, describe(conversation)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// FuzzMessages reads what is no conversation.
func FuzzMessages(f *testing.F) {
	f.Add(conversation)
	f.Add(`[{"content":{"type":1},"tool_calls":[[]],"role":{}}]`)
	f.Fuzz(func(t *testing.T, document string) {
		if n := strings.Count(describe(document), "\nmessages["); n > len(document) {
			t.Errorf("%d messages in %q", n, document)
		}
	})
}
