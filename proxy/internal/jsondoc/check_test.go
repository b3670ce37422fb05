package jsondoc_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

func TestCheckReportsOffset(t *testing.T) {
	for body, want := range map[string]struct {
		at      int
		reason  string
		outline string
	}{
		``:                             {0, "the document is empty", ""},
		"  ":                           {2, "the document is empty", ""},
		`{"secret":"text","n":-1.5e3,`: {28, "unexpected end of the document", `{"…":"…","…":0,`},
		`{"secret":"text`:              {15, "unexpected end of the document", `{"…":"…`},
		`{"a":[true,nul]}`:             {11, "expected a value", `{"…":[?,`},
		`{"a" 1}`:                      {5, "expected a colon", `{"…"`},
		`[1 2]`:                        {3, "expected a comma or the end of the array or object", `[0`},
		`[{"a":1]`:                     {7, "expected a comma or the end of the array or object", `[{"…":0`},
		`{"a":1,}`:                     {7, "expected a member name in quotes", `{"…":0,`},
		`{} {}`:                        {3, "there is data after the document", `{}`},
		"[\"a\nb\"]":                   {3, "an unescaped control character in a string", `["…`},
		strings.Repeat("[", 600):       {512, "the document is nested deeper than 512 levels", strings.Repeat("[", 40)},
		"[\"" + strings.Repeat("secret", 100) + "\"]]": {604, "there is data after the document", `["…"]`},
	} {
		var e *jsondoc.SyntaxError
		if err := jsondoc.Check([]byte(body)); !errors.As(err, &e) || e.Offset != want.at || e.Reason != want.reason {
			t.Errorf("%.40q: %v, want %q at byte %d", body, err, want.reason, want.at)
		}
		if got := jsondoc.Outline([]byte(body), want.at, 40); got != want.outline {
			t.Errorf("%.40q: outline %q, want %q", body, got, want.outline)
		}
	}
	var e *jsondoc.SyntaxError
	if err := jsondoc.CheckUTF8([]byte("[\"\u00e4\xff\"]")); !errors.As(err, &e) || e.Offset != 4 || e.Reason != "invalid UTF-8" {
		t.Errorf("invalid UTF-8: %v", err)
	}
}

// FuzzCheck checks that Check accepts what Parse accepts with loose limits, and that an outline never shows content.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,true,false,null,"b\u00e4\ud800"],"c":{}}`, `[[],{}]`, `"\xe4"`, "1", "{", `{"a":1,}`, "[1]x", "\xef\xbb\xbf{}"} {
		f.Add([]byte(s), 5)
	}
	f.Fuzz(func(t *testing.T, body []byte, at int) {
		var d jsondoc.Doc
		want := d.Parse(body, jsondoc.Limits{Loose: true, Depth: 512})
		if got := jsondoc.Check(body); (got == nil) != (want == nil) {
			t.Fatalf("%q: Check returned %v, Parse %v", body, got, want)
		}
		if got := jsondoc.CheckUTF8(body); (got == nil) != (want == nil && utf8.Valid(body)) {
			t.Fatalf("%q: CheckUTF8 returned %v", body, got)
		}
		outline := jsondoc.Outline(body, at, 40)
		if len(outline) > 40 || strings.Trim(outline, "{}[]:,\"…0?") != "" || !utf8.ValidString(outline) {
			t.Fatalf("outline %q of %q", outline, body)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	for name, body := range map[string][]byte{
		"conversation": conversation(100<<10, "some words of a message, "),
		"event":        []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words"}}`),
		"brackets":     []byte("[" + strings.Repeat(`{"a":[]},`, 10_000) + "0]"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if jsondoc.CheckUTF8(body) != nil {
					b.Fatal("not JSON")
				}
			}
		})
	}
}
