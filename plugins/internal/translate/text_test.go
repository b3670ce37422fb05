package translate

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestBlankAndTrimSpaceEnd(t *testing.T) {
	for inside, want := range map[string]string{
		``:                             ``,
		` `:                            ``,
		`\n\t\r\f `:                    ``,
		`\u0020\u00a0\u3000\u2028`:     ``,
		"\u00a0\u3000\u2028\u1680":     ``,
		`a`:                            `a`,
		`a \n`:                         `a`,
		` a b \u0020`:                  ` a b`,
		`a\\n`:                         `a\\n`,
		`a\\\n`:                        `a\\`,
		`a\"`:                          `a\"`,
		`\u0061 `:                      `\u0061`,
		`\b`:                           `\b`,
		`\u200b`:                       `\u200b`,
		"é\u00a0":                      "é",
		`\ud83d\ude00\u0020`:           `\ud83d\ude00`,
		"😀 " + strings.Repeat(" ", 50): "😀",
	} {
		if got := string(TrimSpaceEnd([]byte(inside))); got != want {
			t.Errorf("%q without trailing white space is %q, want %q", inside, got, want)
		}
		if got := Blank([]byte(inside)); got != (want == "") {
			t.Errorf("%q is blank: %v", inside, got)
		}
	}
}

// FuzzTrimSpaceEnd compares with the standard library, which does not treat the ASCII separators 1C to 1F as white
// space.
func FuzzTrimSpaceEnd(f *testing.F) {
	for _, seed := range []string{"", "a ", "\u00a0x\u3000", "a\\", "\x85", "\x1f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		inside := quoted[1 : len(quoted)-1]
		want := strings.TrimRightFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1C <= r && r <= 0x1F })
		var got string
		if err := json.Unmarshal([]byte(`"`+string(TrimSpaceEnd(inside))+`"`), &got); err != nil || got != want {
			t.Errorf("%q is trimmed to %q, want %q, %v", s, got, want, err)
		}
		if Blank(inside) != (want == "") {
			t.Errorf("%q is blank: %v", s, Blank(inside))
		}
	})
}

// FuzzBase64 compares with the standard library, which is stricter about the unused bits of the last digit and accepts
// line breaks.
func FuzzBase64(f *testing.F) {
	for _, seed := range []string{"", "AA==", "AAA=", "AAAA", "A===", "AAAAAAAAAAA=", "@[`{/:AB", "zZ+/aA09", "AAAA\n", "\xc1AAA", "AAAA=AAA", "Zm9vYmFyMTIz"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		_, err := base64.StdEncoding.DecodeString(string(s))
		want := err == nil && len(s) > 0 && !strings.ContainsAny(string(s), "\r\n")
		if got := ValidBase64(s); got != want {
			t.Errorf("%q is valid: %v, want %v", s, got, want)
		}
	})
}
