package clientapi_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
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
			[]string{"13 0 u", "13 0 fixed x", "8 0 sys", "8 1 dev", "13 2 fixed n", "9 2 look", "9 2 f", "10 3 said", "10 3 plain thought", "10 3 no", "13 3 fixed f",
				"12 3 json {\"a\":\"b\"}", "10 4 signed", "10 4 sealed x", "11 5 result", "13 0 fixed f", "13 0 does", "13 0 an a", "13 0 fixed b", "13 0 guess", "13 0 fixed s", "13 0 form"}},
		{"messages", `{"model":"m","system":[{"type":"text","text":"sys"}],"messages":[
			{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"said"},{"type":"tool_use","id":"t1","name":"f","input":{"type":"a","id":"b","deep":["c",1]}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"result"},{"type":"image","source":{"type":"base64","data":"AAAA","media_type":"image/png"}}]},{"type":"document","title":"title","context":"about","source":{"type":"text","media_type":"text/plain","data":"document"}}]},
			{"role":"user","content":[{"type":"search_result","source":"web","title":"found","content":[{"type":"text","text":"hit"}]}]}],
			"tools":[{"name":"f","description":"does","input_schema":{"type":"object","description":"in"}}],"metadata":{"user_id":"u"}}`,
			[]string{"8 0 sys", "9 0 hi", "10 1 sealed t", "10 1 said", "13 1 fixed f", "12 1 a", "12 1 b", "12 1 c", "11 2 result", "11 2 image/png", "9 2 title", "9 2 about", "9 2 text/plain", "9 2 document",
				"9 3 web", "9 3 found", "9 3 hit", "13 0 fixed f", "13 0 does", "13 0 in", "13 0 u"}},
		{"responses", `{"model":"m","instructions":"sys","input":[
			{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"https://x"},{"type":"input_file","file_data":"AAAA"}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"result"},
			{"type":"custom_tool_call","call_id":"d","name":"g","input":"free"},{"type":"message","role":"assistant","content":"said"}],
			"tools":[{"type":"function","name":"f","description":"does"}],"previous_response_id":"resp"}`,
			[]string{"8 0 sys", "9 0 hi", "10 1 sealed s", "13 2 fixed f", "12 2 json {}", "11 3 result", "13 4 fixed g", "12 4 free", "10 5 said", "13 0 fixed f", "13 0 does"}},
		{"responses", `{"model":"m","input":"hi","prompt":{"id":"p","variables":{"id":"v"}}}`, []string{"9 0 hi", "9 0 v"}},
		{"embeddings", `{"model":"m","input":["a","b"],"dimensions":3}`, []string{"13 0 a", "13 0 b"}},
		{"moderations", `{"model":"m","input":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x"}}]}`, []string{"13 0 a"}},
		{"rerank", `{"model":"m","query":"q","documents":["a",{"text":"b"}]}`, []string{"13 0 q", "13 0 a", "13 0 b"}},
		{"completions", `{"model":"m","prompt":["a","b"],"suffix":"c","stop":"d"}`, []string{"9 0 a", "9 0 b", "9 0 c", "13 0 fixed d"}},
		{"gemini", `{"system_instruction":{"parts":[{"text":"sys"}]},"contents":[{"parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"s"},{"functionCall":{"name":"f","args":{"type":"a"}},"thoughtSignature":"s"}]},
			{"parts":[{"functionResponse":{"name":"f","response":{"id":"b"}}},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],
			"tools":[{"functionDeclarations":[{"name":"f","description":"does","parameters":{"type":"OBJECT","properties":{"enum":{"type":"STRING","description":"an enum","enum":["x"],"default":"y","pattern":"z","$comment":"note","examples":[{"type":"e"}]}},"required":["enum"]}}]}],
			"generationConfig":{"stopSequences":["stop"]},"labels":{"name":"l"}}`,
			[]string{"8 0 sys", "9 0 hi", "10 1 sealed t", "13 1 fixed f", "12 1 a", "13 2 fixed f", "11 2 b", "9 2 image/png", "13 0 fixed f", "13 0 does", "13 0 an enum", "13 0 fixed x", "13 0 fixed y", "13 0 fixed z", "13 0 note", "13 0 fixed e", "13 0 fixed stop", "13 0 l"}},
		{"gemini", `{"generateContentRequest":{"model":"m","contents":{"parts":{"text":"hi"}}}}`, []string{"9 0 hi"}},
		{"chat", `{"model":"m","messages":[],"web_search_options":{"user_location":{"type":"approximate","approximate":{"city":"Oslo"}}},"vendor":{"deep":[{"note":"n","id":"i"}]},"metadata":{"id":"x"}}`,
			[]string{"13 0 Oslo", "13 0 n", "13 0 x"}},
	}
	for _, tt := range tests {
		var d jsondoc.Doc
		if err := d.Parse([]byte(tt.body), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := clientapi.Texts(&d, tt.api, func(x clientapi.Text) error {
			text := x.Value.Text()
			if x.JSON {
				text = "json " + text
			}
			if x.Fixed {
				text = "fixed " + text
			}
			if x.Seal.Exists() {
				text = "sealed " + text
			}
			got = append(got, fmt.Sprint(x.What, " ", x.Message, " ", text))
			return nil
		})
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.api, err, diff)
		}
	}
}
