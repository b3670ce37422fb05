package jsondoc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// conversation returns a request of about size bytes with messages of the given text.
func conversation(size int, text string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"claude-sonnet","temperature":0.7,"max_tokens":1024,"stream":true,"messages":[` +
		`{"role":"system","content":"You are a helpful assistant."}`)
	for i := 0; b.Len() < size-100; i++ {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&b, `,{"role":"%s","content":"`, role)
		for n := 0; n < 8 && b.Len() < size-100; n++ {
			b.WriteString(text)
		}
		b.WriteString(`"}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

const (
	english = `The quick brown fox jumps over the lazy dog, and then it says \"nothing at all\" for a while.\n`
	german  = `Der größere Fuchs läuft über die Brücke und sagt dem müden Hund: „schöne Grüße“ aus Köln.\n`
	chinese = `敏捷的棕色狐狸跳过了懒狗，然后它什么也没说。敏捷的棕色狐狸跳过了懒狗，然后它什么也没说。\n`
)

var conversations = []struct {
	name string
	body []byte
}{
	{"1KB", conversation(1<<10, english)},
	{"100KB", conversation(100<<10, english)},
	{"1MB", conversation(1<<20, english)},
	{"100KB-german", conversation(100<<10, german)},
	{"100KB-chinese", conversation(100<<10, chinese)},
	{"1MB-one-string", []byte(`"` + string(bytes.Repeat([]byte("abcdefg "), 1<<17)) + `"`)},
}

func BenchmarkParse(b *testing.B) {
	for _, c := range conversations {
		b.Run(c.name, func(b *testing.B) {
			var d jsondoc.Doc
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Parse(c.body, jsondoc.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOtherParsers measures other parsers, for comparison with BenchmarkParse.
func BenchmarkOtherParsers(b *testing.B) {
	for _, parser := range []struct {
		name  string
		valid func([]byte) bool
	}{
		{"encoding-json", json.Valid},
		{"jsontext", func(p []byte) bool { return jsontext.Value(p).IsValid() }},
	} {
		for _, c := range conversations {
			b.Run(parser.name+"/"+c.name, func(b *testing.B) {
				b.SetBytes(int64(len(c.body)))
				for b.Loop() {
					if !parser.valid(c.body) {
						b.Fatal("the document is rejected")
					}
				}
			})
		}
	}
}

func BenchmarkEdits(b *testing.B) {
	body := conversation(100<<10, english)
	var d jsondoc.Doc
	if err := d.Parse(body, jsondoc.Limits{}); err != nil {
		b.Fatal(err)
	}
	var e jsondoc.Edits
	var out []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		e.Reset(&d)
		e.Set([]byte("/model"), []byte(`"claude-sonnet-4-5"`))
		e.Rename([]byte("/max_tokens"), []byte("max_completion_tokens"))
		e.Replace([]byte("/messages/*/role"), []byte(`"developer"`), []byte(`"system"`))
		e.Set([]byte("/stream_options"), []byte(`{"include_usage":true}`))
		out, _ = e.Apply(out[:0])
	}
}

func BenchmarkAppendEscaped(b *testing.B) {
	text := bytes.Repeat([]byte("a line of plain text, \"quoted\"\n"), 32)
	var out []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		out = jsondoc.AppendEscaped(out[:0], text)
	}
}
