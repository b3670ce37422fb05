package clientapi_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// document parses a request.
func document(tb testing.TB, body string) *jsondoc.Doc {
	tb.Helper()
	var d jsondoc.Doc
	if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		tb.Fatalf("%v: %s", err, body)
	}
	return &d
}

// hashConversation returns the hash of a request's conversation, which must have one.
func hashConversation(tb testing.TB, body string) uint64 {
	tb.Helper()
	h, ok := clientapi.HashConversation(document(tb, body), 7)
	if !ok {
		tb.Fatalf("HashConversation finds nothing in %s", body)
	}
	return h
}

// Each conversation has one or more turns. The turns of a conversation have the same hash, and no two conversations
// share a hash.
func TestTurnsOfConversationShareHash(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"get","parameters":{"type":"object"}}}`
	conversations := map[string][]string{
		"chat": {
			`{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}],"tools":[` + tool + `]}`,
			`{"stream":true,"tools":[` + tool + `],"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"model":"m"}`,
		},
		"chat, another first message":            {`{"messages":[{"role":"system","content":"S"},{"role":"user","content":"other"}],"tools":[` + tool + `]}`},
		"chat, another system prompt":            {`{"messages":[{"role":"system","content":"T"},{"role":"user","content":"a"}],"tools":[` + tool + `]}`},
		"chat, no tools":                         {`{"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}]}`},
		"chat, same texts with another boundary": {`{"messages":[{"role":"system","content":"Sa"},{"role":"user","content":""}],"tools":[` + tool + `]}`},
		"Messages with moving cache_control": {
			`{"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"get","input_schema":{}}],
			  "messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}`,
			`{"system":[{"type":"text","text":"S"}],"tools":[{"name":"get","input_schema":{},"cache_control":{"type":"ephemeral"}}],
			  "messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":"b"},
			  {"role":"user","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]}]}`,
		},
		"Responses": {
			`{"instructions":"S","input":[{"role":"user","content":"r"}],"tools":[{"type":"function","name":"get"}]}`,
			`{"instructions":"S","input":[{"type":"message","role":"user","content":"r"},{"type":"function_call","name":"get","arguments":"{}","call_id":"1"},
			  {"type":"function_call_output","call_id":"1","output":"x"}],"tools":[{"type":"function","name":"get"}]}`,
		},
		"Responses with a string": {`{"instructions":"S","input":"hello"}`},
		"Gemini": {
			`{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"parts":[{"text":"a"}]}]}`,
			`{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"parts":[{"text":"c"}]}]}`,
		},
		"Gemini with tools":        {`{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"get"}]}]}`},
		"Gemini with another tool": {`{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"put"}]}]}`},
		"an image": {
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
		},
		"another image": {`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,BBBB"}}]}]}`},
		"a prompt":      {`{"prompt":"once"}`},
	}
	seen := map[uint64]string{}
	for name, turns := range conversations {
		first := hashConversation(t, turns[0])
		for n, turn := range turns {
			if hashConversation(t, turn) != first {
				t.Errorf("%s: turn %d has a different hash", name, n+1)
			}
		}
		if other, twice := seen[first]; twice {
			t.Errorf("%s and %s share a hash", name, other)
		}
		seen[first] = name
	}
}

func TestLongTextsDifferAtBothEnds(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	body := func(text string) string { return `{"messages":[{"role":"user","content":"` + text + `"}]}` }
	all := map[uint64]bool{}
	for _, text := range []string{long, "a" + long, long + "a", long[1:] + "a", "a" + long[1:]} {
		all[hashConversation(t, body(text))] = true
	}
	if len(all) != 5 {
		t.Errorf("%d hashes of 5 texts", len(all))
	}
}

func TestNothingToHash(t *testing.T) {
	for _, body := range []string{`{}`, `{"model":"m"}`, `[]`, `{"messages":[]}`, `{"messages":[{"role":"user"}],"tools":[]}`, `{"tools":{"name":"x"}}`} {
		if h, ok := clientapi.HashConversation(document(t, body), 7); ok {
			t.Errorf("%s: hash %x", body, h)
		}
	}
}

func TestReadsConversationAndUserID(t *testing.T) {
	for _, c := range []struct{ body, conversation, member, user string }{
		{`{}`, "", "", ""},
		{`{"prompt_cache_key":"k","conversation":"c","user":"u"}`, "k", "prompt_cache_key", "u"},
		{`{"prompt_cache_key":"","conversation":{"id":"c"},"user":null,"metadata":{"user_id":"v"}}`, "c", "conversation", "v"},
		{`{"conversation":"c","safety_identifier":"s"}`, "c", "conversation", "s"},
		{`{"prompt_cache_key":7,"conversation":[],"user":{},"metadata":"m"}`, "", "", ""},
	} {
		d := document(t, c.body)
		id, member := clientapi.ConversationID(d)
		if user, _ := clientapi.UserID(d); id.Text() != c.conversation || member != c.member || user.Text() != c.user {
			t.Errorf("%s: conversation %q of %q, user %q", c.body, id.Text(), member, user.Text())
		}
	}
}

func FuzzHashConversation(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"a"}]}`))
	f.Add([]byte(`{"contents":{"parts":[{"text":"a"}]},"tools":[{"functionDeclarations":[]}],"system":["x",{"text":"y"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var d jsondoc.Doc
		if d.Parse(body, jsondoc.Limits{}) != nil {
			return
		}
		a, ok := clientapi.HashConversation(&d, 1)
		if b, again := clientapi.HashConversation(&d, 1); a != b || ok != again {
			t.Errorf("%x, then %x", a, b)
		}
		clientapi.ConversationID(&d)
		clientapi.UserID(&d)
	})
}

func BenchmarkHashConversation(b *testing.B) {
	tool := `{"type":"function","function":{"name":"get_weather","description":"` + strings.Repeat("d", 400) + `","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	turn := `{"role":"user","content":"` + strings.Repeat("u", 500) + `"},{"role":"assistant","content":"` + strings.Repeat("a", 500) + `"}`
	for name, body := range map[string]string{
		"short": `{"model":"m","messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":"Hello, who are you?"}]}`,
		"agent": `{"model":"m","messages":[{"role":"system","content":"` + strings.Repeat("s", 20_000) + `"},` + strings.Repeat(turn+",", 20) + turn + `],"tools":[` + strings.Repeat(tool+",", 15) + tool + `]}`,
	} {
		b.Run(name, func(b *testing.B) {
			d := document(b, body)
			b.ReportAllocs()
			for b.Loop() {
				clientapi.HashConversation(d, 7)
			}
		})
	}
}
