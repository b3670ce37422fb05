package summary

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// document is a summary as the gateway writes it.
const document = `{"request_id":"req_0123456789abcdef0123456789abcdef","time":1789012345678,"attempt":2,"random":"0123456789abcdef",` +
	`"stream":true,"include_usage":false,"model":"fast","target":"provider/model-1","limits":{"max_tokens":64000,` +
	`"default_max_tokens":4096},"flags":["tools","images"],"form":"messages","client_form":"messages","betas":["b-1"],"tags":["pii"],"body":123456789,"options":{"a":{"b":[1,2]}}}`

var want = sdk.Summary{
	RequestID: []byte("req_0123456789abcdef0123456789abcdef"), Time: 1789012345678, Attempt: 2, Random: 0x0123456789abcdef,
	Stream: true, Model: []byte("fast"), Target: []byte("provider/model-1"), MaxTokens: 64000, DefaultMaxTokens: 4096,
	Form: abi.FormMessages, ClientForm: abi.FormMessages, Betas: json.Value(`["b-1"]`), Tags: json.Value(`["pii"]`),
	Flags: sdk.FlagTools | sdk.FlagImages, BodySize: 123456789, Options: json.Value(`{"a":{"b":[1,2]}}`),
}

func TestParse(t *testing.T) {
	var r Reader
	for range 2 { // the reader remembers the order of the members
		var got sdk.Summary
		if err := r.Parse(&got, []byte(document)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
}

func TestParseOtherForms(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string
		change   func(s *sdk.Summary)
	}{
		"no flags, no options": {`"flags":["tools","images"],"form":"messages","client_form":"messages","betas":["b-1"],"tags":["pii"],"body":123456789,"options":{"a":{"b":[1,2]}}`,
			`"flags":[],"form":"chat","client_form":"chat","betas":[],"tags":[],"body":0,"options":{}`, func(s *sdk.Summary) {
				s.Flags, s.BodySize, s.Options = 0, 0, json.Value(`{}`)
				s.Form, s.ClientForm, s.Betas, s.Tags = abi.FormChat, abi.FormChat, json.Value(`[]`), json.Value(`[]`)
			}},
		"converted request": {`"form":"messages"`, `"form":"chat"`, func(s *sdk.Summary) { s.Form = abi.FormChat }},
		"unknown form":      {`"client_form":"messages"`, `"client_form":"telepathy"`, func(s *sdk.Summary) { s.ClientForm = sdk.FormUnknown }},
		"version 1.2": {`"form":"messages","client_form":"messages","betas":["b-1"],"tags":["pii"],`, ``, func(s *sdk.Summary) {
			s.Form, s.ClientForm, s.Betas, s.Tags = abi.FormChat, abi.FormChat, nil, nil
		}},
		"escape":             {"fast", `f\u0061st`, func(s *sdk.Summary) {}},
		"escaped quote":      {"fast", `f\"st`, func(s *sdk.Summary) { s.Model = []byte(`f"st`) }},
		"not ASCII":          {"fast", "schnell-größer", func(s *sdk.Summary) { s.Model = []byte("schnell-größer") }},
		"white space":        {`,"time":`, "\n,\t\"time\" : ", func(s *sdk.Summary) {}},
		"unknown member":     {`"attempt"`, `"more":[1,"2"],"attempt"`, func(s *sdk.Summary) {}},
		"missing member":     {`"attempt":2,`, ``, func(s *sdk.Summary) { s.Attempt = 0 }},
		"unknown limit":      {`64000`, `64000,"other":[{}]`, func(s *sdk.Summary) {}},
		"unknown flag":       {`"tools"`, `"tools","new"`, func(s *sdk.Summary) {}},
		"other order":        {`"time":1789012345678,"attempt":2`, `"attempt":2,"time":1789012345678`, func(s *sdk.Summary) {}},
		"negative number":    {"1789012345678", "-62135596800000", func(s *sdk.Summary) { s.Time = -62135596800000 }},
		"17 digits":          {"1789012345678", "12345678901234567", func(s *sdk.Summary) { s.Time = 12345678901234567 }},
		"beyond 64 bits":     {"1789012345678", "123456789012345678901", func(s *sdk.Summary) { s.Time = 0 }},
		"fraction":           {"1789012345678", "1789012345678.5", func(s *sdk.Summary) { s.Time = 0 }},
		"text for a number":  {"1789012345678", `"now"`, func(s *sdk.Summary) { s.Time = 0 }},
		"long name":          {"provider/model-1", strings.Repeat("x", 1000), func(s *sdk.Summary) { s.Target = []byte(strings.Repeat("x", 1000)) }},
		"empty name":         {"provider/model-1", "", func(s *sdk.Summary) { s.Target = []byte{} }},
		"null":               {`true`, `null`, func(s *sdk.Summary) { s.Stream = false }},
		"random of 3 digits": {`"0123456789abcdef"`, `"abc"`, func(s *sdk.Summary) { s.Random = 0 }},
		"lists for objects":  {`{"max_tokens":64000,"default_max_tokens":4096}`, `[]`, func(s *sdk.Summary) { s.MaxTokens, s.DefaultMaxTokens = 0, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(document, test.old, test.new, 1)
			if changed == document {
				t.Fatal("the replacement changed nothing")
			}
			want := want
			test.change(&want)
			var r Reader
			var got sdk.Summary
			if err := r.Parse(&got, []byte(changed)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// TestParseCutDocument checks that a truncated document is an error, whatever bytes follow it in memory, since the
// reader loads them as well.
func TestParseCutDocument(t *testing.T) {
	var r Reader
	memory := []byte(document + strings.Repeat(`":1}`, 32))
	for n := range len(document) {
		var s sdk.Summary
		if err := r.Parse(&s, memory[:n]); err == nil {
			t.Errorf("%s: %+v", memory[:n], s)
		}
	}
}

func TestParseNumbers(t *testing.T) {
	var r Reader
	for _, n := range []int64{0, 7, 10, 99999999, 100000000, 123456789, 9999999999999999, 10000000000000000, 1<<63 - 1} {
		var s sdk.Summary
		if err := r.Parse(&s, fmt.Appendf(nil, `{"time":%d,"body":%[1]d}                `, n)); err != nil || s.Time != n || s.BodySize != n {
			t.Errorf("%d: %d, %d, %v", n, s.Time, s.BodySize, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte(`{"random":"9f86d081884c7d65","flags":["tools"],"limits":{"max_tokens":1}}`))
	f.Add([]byte(`{"options":{"a":`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		var r Reader
		var s sdk.Summary
		err := r.Parse(&s, doc)
		if valid := json.Value(doc).Valid(); (err == nil) && !valid {
			// Strings and literals of a document that the gateway wrote are not checked.
			return
		} else if valid && err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var r Reader
	var s sdk.Summary
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Parse(&s, []byte(document))
	}
}

func TestParseForms(t *testing.T) {
	for name, want := range map[string]abi.Forms{
		"chat": abi.FormChat, "messages": abi.FormMessages, "responses": abi.FormResponses, "gemini": abi.FormGemini,
		"completions": abi.FormCompletions, "embeddings": abi.FormEmbeddings, "moderations": abi.FormModerations, "rerank": abi.FormRerank,
	} {
		var r Reader
		var s sdk.Summary
		if err := r.Parse(&s, fmt.Appendf(nil, `{"form":%q,"client_form":"chat"}`, name)); err != nil || s.Form != want || s.ClientForm != abi.FormChat {
			t.Errorf("%s is %d, want %d (%v)", name, s.Form, want, err)
		}
	}
}

// compact returns the compact form of the document above, in the layout that the ABI's page specifies.
func compact(head uint32) []byte {
	texts := []string{"req_0123456789abcdef0123456789abcdef", "fast", "provider/model-1", `["b-1"]`, `["pii"]`, `{"a":{"b":[1,2]}}`}
	le := binary.LittleEndian
	p := make([]byte, head)
	for at, n := range map[int]uint32{0: head, 4: 1, 8: 1<<0 | 1<<5, 12: 1, 16: 1, 20: 2} {
		le.PutUint32(p[at:], n)
	}
	for at, n := range map[int]uint64{48: 1789012345678, 56: 0x0123456789abcdef, 64: 64000, 72: 4096, 80: 123456789} {
		le.PutUint64(p[at:], n)
	}
	for i, t := range texts {
		le.PutUint32(p[24+4*i:], uint32(len(t)))
		p = append(p, t...)
	}
	return p
}

func TestParseCompact(t *testing.T) {
	for _, head := range []uint32{abi.SummaryHeadSize, abi.SummaryHeadSize + 8} { // a later version appends fields
		var r Reader
		var got sdk.Summary
		if err := r.Parse(&got, compact(head)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
}

func TestParseCompactTruncated(t *testing.T) {
	p := compact(abi.SummaryHeadSize)
	for n := 4; n < len(p); n++ {
		if err := new(Reader).Parse(new(sdk.Summary), p[:n]); err == nil {
			t.Errorf("no error for the first %d bytes of %d", n, len(p))
		}
	}
	other := slices.Clone(p)
	binary.LittleEndian.PutUint32(other[12:], 1<<20)
	var s sdk.Summary
	if err := new(Reader).Parse(&s, other); err != nil || s.Form != sdk.FormUnknown {
		t.Errorf("a form of a later version is %v, %v", s.Form, err)
	}
}
