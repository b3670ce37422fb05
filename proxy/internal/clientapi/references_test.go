package clientapi_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// TestFindsContinuations covers where requests name what they continue, and whether their response may be continued.
// The tests of whole gateways cover other references.
func TestFindsContinuations(t *testing.T) {
	for _, c := range []struct {
		api                clientapi.ID
		body               string
		previous, compared string
		stores, background bool
	}{
		{clientapi.Responses, `{}`, "", "", true, false},
		{clientapi.Responses, `{"store":null,"background":false}`, "", "", true, false},
		{clientapi.Responses, `{"store":false}`, "", "", false, false},
		{clientapi.Responses, `{"previous_response_id":"resp_1","background":true}`, "resp_1", "", true, true},
		{clientapi.Responses, `{"previous_r\u0065sponse_id":"resp_1"}`, "resp_1", "", true, false},
		{clientapi.Messages, `{"thread":null,"diagnostics":null}`, "", "", false, false},
		{clientapi.Messages, `{"thread":{"type":"create"}}`, "", "", true, false},
		{clientapi.Messages, `{"thread":{"previous_message_id":"msg_1"}}`, "msg_1", "", true, false},
		{clientapi.Messages, `{"diagnostics":{"previous_message_id":"msg_1"}}`, "", "msg_1", true, false},
		{clientapi.Chat, `{"store":true,"thread":{"previous_message_id":"msg_1"}}`, "", "", false, false},
		{clientapi.Gemini, `{"contents":[{"parts":[{"fileData":{"fileUri":"x"}}]}],"file_id":"x"}`, "", "", false, false},
	} {
		f := clientapi.FindReferences(document(t, c.body), c.api)
		if f.Previous.Text() != c.previous || f.Compared.Text() != c.compared || f.Stores != c.stores || f.Background != c.background || f.Object.Exists() {
			t.Errorf("%s: %+v", c.body, f)
		}
	}
	if f := clientapi.FindReferences(document(t, `{"previous_response_id":"resp_1"}`), clientapi.Chat); !f.Object.Is("resp_1") {
		t.Error("a response that a provider of chat completions stores is no object of the account")
	}
}

// FuzzFindReferences checks that a reference is found wherever it stands among other members, and that what is found is
// a part of the document.
func FuzzFindReferences(f *testing.F) {
	f.Add(`{"a":[{"b":{}}],"c":null}`)
	f.Add(`{"input":[{"content":[{"type":"input_file","file_id":"x"}]}],"tools":[{"container":"y"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		var d jsondoc.Doc
		if d.Parse([]byte(body), jsondoc.Limits{}) != nil || d.Root().Kind() != jsondoc.Object {
			return
		}
		for _, api := range []clientapi.ID{clientapi.Chat, clientapi.Messages, clientapi.Responses} {
			if v := clientapi.FindReferences(&d, api).Object; v.Exists() && (v.Root() != d.Root() || clientapi.Path(v) == "") {
				t.Errorf("found %q at %q", v.Raw(), clientapi.Path(v))
			}
			var with jsondoc.Doc
			if with.Parse([]byte(`{"fresh":[`+body+`,{"file_id":"x"}],"previous_response_id":"y"}`), jsondoc.Limits{}) != nil {
				continue
			}
			if !clientapi.FindReferences(&with, api).Object.Exists() {
				t.Errorf("no reference found in %s", with.Root().Raw())
			}
		}
	})
}

func BenchmarkFindReferences(b *testing.B) {
	turn := `{"role":"user","content":"` + strings.Repeat("u", 500) + `"},{"role":"assistant","content":[{"type":"output_text","text":"` + strings.Repeat("a", 500) + `","annotations":[]}]}`
	tool := `{"type":"function","name":"f","description":"` + strings.Repeat("d", 400) + `","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}`
	body := `{"model":"m","input":[` + strings.Repeat(turn+",", 80) + turn + `],"tools":[` + strings.Repeat(tool+",", 20) + tool + `]}`
	b.Run("parse", func(b *testing.B) {
		var d jsondoc.Doc
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			_ = d.Parse([]byte(body), jsondoc.Limits{})
		}
	})
	b.Run("find", func(b *testing.B) {
		d := document(b, body)
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			clientapi.FindReferences(d, clientapi.Responses)
		}
	})
}
