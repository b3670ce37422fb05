package clientapi_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestTextsOfGemini checks that nothing that a model reads is left out, however the request is spelled.
func TestTextsOfGemini(t *testing.T) {
	for body, want := range map[string]string{
		`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"hm","thought":true},{"text":"b"},{"functionCall":{"name":"f","args":{"x":"c"}}}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"d"}}}]}]}`: "8 0 s, 9 0 a, 10 1 b, 12 1 c, 11 2 d, ",
		`{"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":{"text":"a"}}}`:                                                                "8 0 s, 9 0 a, ",
		`{"c\u006fntents":[{"parts":[{"te\u0078t":"a"},{"function_response":{"name":"f","response":{"output":"d"}}}]}]}`:                                 "9 0 a, 11 0 d, ",
		`{"contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"AAAA"}},{"text":"a","thought_signature":"c2ln"}]}]}`:                     "9 0 a, ",
		`{"tools":{"function_declarations":{"name":"f","description":"d"}},"generation_config":{"response_schema":{"type":"OBJECT","description":"e"}}}`: "13 0 d, 13 0 e, ",
	} {
		var d jsondoc.Doc
		if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		got := ""
		err := clientapi.Texts(&d, "gemini", func(v jsondoc.Value, what abi.What, message int32, json bool) error {
			got += fmt.Sprintf("%d %d %s, ", what, message, v.Text())
			return nil
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", body, err, diff)
		}
	}
}
