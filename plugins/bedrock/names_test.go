package bedrock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
)

// covers: B9
func TestToolNames(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []string{
		"plain", "with-dash_1", strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 66), "a.b", "a b", "a_b", "ä", "", "functions.f:0",
	} {
		got := nameRule.Append(nil, []byte(name), 0)
		if !validName(got) {
			t.Errorf("%q becomes %q", name, got)
		}
		if validName([]byte(name)) != (string(got) == name) {
			t.Errorf("%q becomes %q", name, got)
		}
		if before, ok := seen[string(got)]; ok {
			t.Errorf("%q and %q both become %q", before, name, got)
		}
		seen[string(got)] = name
		if again := nameRule.Append(nil, []byte(name), 0); !bytes.Equal(got, again) {
			t.Errorf("%q becomes %q, then %q", name, got, again)
		}
	}
}

// covers: B1
func TestPathSegment(t *testing.T) {
	for text, want := range map[string]string{
		"anthropic.claude-v2:1":     "anthropic.claude-v2%3A1",
		"arn:aws:bedrock:r:1:p/x_y": "arn%3Aaws%3Abedrock%3Ar%3A1%3Ap%2Fx_y",
		"a b%/~\x7f\xff":            "a%20b%25%2F~%7F%FF",
	} {
		if got := translate.AppendEscaped(nil, []byte(text)); string(got) != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestBlankText compares Blank and TrimSpaceEnd with the standard library, for strings with and without escapes.
//
// covers: B19
func TestBlankText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SliceOf(rapid.SampledFrom([]rune(" \t\n\v\f\r\u0085\u00a0\u1680\u2003\u2028\u202f\u3000aé\U0001F600\"\\\u200b"))).Draw(t, "text")
		text := string(runes)
		inside := func(s string) string {
			var buf bytes.Buffer
			e := json.NewEncoder(&buf)
			e.SetEscapeHTML(false)
			if err := e.Encode(s); err != nil {
				t.Fatal(err)
			}
			q := strings.TrimSpace(buf.String())
			if rapid.Bool().Draw(t, "escaped") {
				var b strings.Builder
				for _, r := range q {
					if r > '~' && r < 0x10000 {
						b.WriteString(`\u`)
						b.WriteString(strings.ToLower(string("0123456789ABCDEF"[r>>12&15])) + string("0123456789abcdef"[r>>8&15]) + string("0123456789abcdef"[r>>4&15]) + string("0123456789ABCDEF"[r&15]))
					} else {
						b.WriteRune(r)
					}
				}
				q = b.String()
			}
			return q[1 : len(q)-1]
		}(text)
		if got, want := translate.Blank([]byte(inside)), strings.TrimSpace(text) == ""; got != want {
			t.Fatalf("translate.Blank(%q) is %v", inside, got)
		}
		var got string
		if err := json.Unmarshal([]byte(`"`+string(translate.TrimSpaceEnd([]byte(inside)))+`"`), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimRightFunc(text, unicode.IsSpace); got != want {
			t.Fatalf("%q is trimmed to %q, want %q", text, got, want)
		}
	})
}

func FuzzBase64(f *testing.F) {
	for _, seed := range []string{"", "AAAA", "AA==", "AAA=", "A===", "AB=A", "iVBORw0KGgo=", "abcdefgh-_==", "////++++09azAZ==", "AAAA\n", "AAAAAAAA\x80AAA"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		// The standard library ignores line breaks in base64, which a JSON string could contain as escapes.
		want, err := base64.StdEncoding.DecodeString(string(s))
		valid := err == nil && len(s) > 0 && !bytes.ContainsAny(s, "\r\n")
		if translate.ValidBase64(s) != valid {
			t.Fatalf("translate.ValidBase64(%q) is %v", s, !valid)
		}
		if valid && !bytes.Equal(appendDecoded([]byte("x"), s), append([]byte("x"), want...)) {
			t.Fatalf("%q is decoded to %q, want %q", s, appendDecoded(nil, s), want)
		}
		if got, want := string(appendEncoded([]byte("x"), s)), "x"+base64.StdEncoding.EncodeToString(s); got != want {
			t.Fatalf("%q is encoded to %q, want %q", s, got, want)
		}
	})
}

// covers: B18
func TestDocumentNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr translation
		seen := make(map[string]bool)
		for range rapid.IntRange(1, 8).Draw(t, "documents") {
			name := string(tr.addDocument([]byte(rapid.StringOf(rapid.SampledFrom([]rune("ab1 _-.([)]/ä\t2"))).Draw(t, "name") + strings.Repeat("x", rapid.SampledFrom([]int{0, 300}).Draw(t, "more")))))
			if name == "" || len(name) > 200 || seen[name] || strings.Contains(name, "  ") || strings.TrimSpace(name) != name {
				t.Fatalf("invalid or repeated name %q, after %v", name, seen)
			}
			for _, c := range name {
				if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -()[]", c) {
					t.Fatalf("invalid character in name %q", name)
				}
			}
			seen[name] = true
		}
	})
}
