package clientapi_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestTexts checks which strings of a request filters receive, and with which kind.
func TestTexts(t *testing.T) {
	tests := []struct {
		api, body string
		want      []string // kind, index of the message, "json" for arguments, text
	}{
		{"chat", `{"model":"m","user":"u","stop":["x"],"messages":[
			{"role":"system","content":"sys"},{"role":"developer","content":[{"type":"text","text":"dev","cache_control":{"type":"ephemeral"}}]},
			{"role":"user","name":"n","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"https://x"}},{"type":"file","file":{"file_data":"AAAA","filename":"f"}},{"type":"input_audio","input_audio":{"data":"AAAA"}}]},
			{"role":"assistant","content":"said","reasoning_content":"plain thought","refusal":"no","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"}}]},
			{"role":"assistant","content":null,"reasoning_content":"signed","reasoning_details":[{"text":"x","signature":"s"}]},
			{"role":"tool","tool_call_id":"c","content":"result"}],
			"tools":[{"type":"function","function":{"name":"f","description":"does","parameters":{"type":"object","properties":{"a":{"type":"string","description":"an a","enum":["b"]}}}}}],
			"prediction":{"type":"content","content":"guess"},"response_format":{"type":"json_schema","json_schema":{"name":"s","description":"form"}}}`,
			[]string{"8 0 sys", "8 1 dev", "9 2 look", "10 3 said", "10 3 plain thought", "10 3 no", "12 3 json {\"a\":\"b\"}", "11 5 result", "13 0 does", "13 0 an a", "13 0 guess", "13 0 form"}},
		{"messages", `{"model":"m","system":[{"type":"text","text":"sys"}],"messages":[
			{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"said"},{"type":"tool_use","id":"t1","name":"f","input":{"type":"a","id":"b","deep":["c",1]}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"result"},{"type":"image","source":{"type":"base64","data":"AAAA","media_type":"image/png"}}]},{"type":"document","title":"title","context":"about","source":{"type":"text","media_type":"text/plain","data":"document"}}]}],
			"tools":[{"name":"f","description":"does","input_schema":{"type":"object","description":"in"}}],"metadata":{"user_id":"u"}}`,
			[]string{"8 0 sys", "9 0 hi", "10 1 said", "12 1 a", "12 1 b", "12 1 c", "11 2 result", "9 2 title", "9 2 about", "9 2 document", "13 0 does", "13 0 in"}},
		{"responses", `{"model":"m","instructions":"sys","input":[
			{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"https://x"},{"type":"input_file","file_data":"AAAA"}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"result"},
			{"type":"custom_tool_call","call_id":"d","name":"g","input":"free"},{"type":"message","role":"assistant","content":"said"}],
			"tools":[{"type":"function","name":"f","description":"does"}],"previous_response_id":"resp"}`,
			[]string{"8 0 sys", "9 0 hi", "12 2 json {}", "11 3 result", "12 4 free", "10 5 said", "13 0 does"}},
		{"responses", `{"model":"m","input":"hi","prompt":{"id":"p","variables":{"id":"v"}}}`, []string{"9 0 hi", "9 0 v"}},
		{"embeddings", `{"model":"m","input":["a","b"],"dimensions":3}`, []string{"13 0 a", "13 0 b"}},
		{"moderations", `{"model":"m","input":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x"}}]}`, []string{"13 0 a"}},
		{"rerank", `{"model":"m","query":"q","documents":["a",{"text":"b"}]}`, []string{"13 0 q", "13 0 a", "13 0 b"}},
		{"completions", `{"model":"m","prompt":["a","b"],"suffix":"c","stop":"d"}`, []string{"9 0 a", "9 0 b", "9 0 c"}},
	}
	for _, tt := range tests {
		var d jsondoc.Doc
		if err := d.Parse([]byte(tt.body), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := clientapi.Texts(&d, tt.api, func(v jsondoc.Value, what abi.What, message int32, json bool) error {
			text := v.Text()
			if json {
				text = "json " + text
			}
			got = append(got, fmt.Sprint(what, " ", message, " ", text))
			return nil
		})
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.api, err, diff)
		}
	}
}
