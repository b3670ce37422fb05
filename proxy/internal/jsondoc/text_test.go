package jsondoc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

func TestAppendEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"":                        ``,
		"plain":                   `plain`,
		"a \"quote\" and a \\":    `a \"quote\" and a \\`,
		"\b\f\n\r\t":              `\b\f\n\r\t`,
		"\x00\x01\x1f\x7f":        "\\u0000\\u0001\\u001f\x7f",
		"é€😀":                     `é€😀`,
		"line\u2028separator":     "line\u2028separator",
		"</script>&":              `</script>&`,
		"cut \xe2\x82":            "cut \uFFFD\uFFFD",
		"\xff in the middle of":   "\uFFFD in the middle of",
		"é\xc3(":                  "é\uFFFD(",
		"surrogate \xed\xa0\x80":  "surrogate \uFFFD\uFFFD\uFFFD",
		strings.Repeat("x\n", 20): strings.Repeat(`x\n`, 20),
	} {
		if got := string(jsondoc.AppendEscaped([]byte("<"), []byte(text))); got != "<"+want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestCheckEscaped(t *testing.T) {
	for inside, want := range map[string]bool{
		``: true, `plain text of some length`: true, `\n`: true, `\u00e9`: true, `é`: true, `\ud83d\ude00`: true,
		`\"`: true, `a long piece that ends in an escape\\`: true,
		`"`: false, `a long piece that has a " in it`: false, `\`: false, `\u12`: false, `\ud83d`: false, `\ude00`: false,
		`\x`: false, "\n": false, "\x00": false, "\x80": false, "é\xc3": false, `\ud83d\u0041`: false,
	} {
		if got := jsondoc.CheckEscaped([]byte(inside)); got != want {
			t.Errorf("CheckEscaped(%q) returned %v, want %v", inside, got, want)
		}
	}
}

func TestAppendCompact(t *testing.T) {
	for body, want := range map[string]string{
		`1`:                           `1`,
		" [ 1 , 2.50 ,\t\"a  b\" ]\n": `[1,2.50,"a  b"]`,
		`{ "b" : { "x y" : [ ] } , "a" : 12345678901234567890 , "\u0041" : "\/ \n" }`: `{"b":{"x y":[]},"a":12345678901234567890,"\u0041":"\/ \n"}`,
		`{"already":"compact"}`: `{"already":"compact"}`,
	} {
		got, err := jsondoc.AppendCompact([]byte("<"), []byte(body))
		if err != nil || string(got) != "<"+want {
			t.Errorf("%q becomes %q, %v; want %q", body, got, err, want)
		}
	}
	for _, body := range []string{``, `{`, `{"a":1,"a":2}`, `1e999`, `"` + "\n" + `"`, `[1] 2`} {
		got, err := jsondoc.AppendCompact([]byte("<"), []byte(body))
		var syntax *jsondoc.SyntaxError
		if !errors.As(err, &syntax) || string(got) != "<" {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
}

// FuzzText compares escaping and unescaping of text with encoding/json.
func FuzzText(f *testing.F) {
	for _, seed := range []string{``, `plain`, `\n`, `\ud83d\ude00`, "\x00\"\\", "\xff\xed\xa0\x80", `é€😀\u00e9`, `\ud83d`, "a longer text\twith one tab"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		quoted := append(jsondoc.AppendEscaped([]byte{'"'}, s), '"')
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		if want := string([]rune(string(s))); back != want {
			t.Fatalf("AppendEscaped wrote a string that reads %q, want %q", back, want)
		}
		if !jsondoc.CheckEscaped(quoted[1 : len(quoted)-1]) {
			t.Fatalf("CheckEscaped rejects %q, which AppendEscaped wrote", quoted)
		}

		inside := append(append([]byte{'"'}, s...), '"')
		var d jsondoc.Doc
		err := d.Parse(inside, jsondoc.Limits{})
		if d.Root().Kind() == jsondoc.String && len(d.Root().Raw()) == len(inside) != jsondoc.CheckEscaped(s) {
			t.Fatalf("CheckEscaped(%q) returned %v, and Parse %v", s, jsondoc.CheckEscaped(s), err)
		}
		if err != nil {
			return
		}
		if err := json.Unmarshal(inside, &back); err != nil {
			t.Fatalf("Parse accepts %q, but encoding/json: %v", inside, err)
		}
		if !utf8.ValidString(back) || d.Root().Text() != back || !d.Root().Is(back) {
			t.Fatalf("%q: text %q, want %q", inside, d.Root().Text(), back)
		}
	})
}
