package jsondoc_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

func TestLooseAcceptsSplitCharacters(t *testing.T) {
	cases := []struct {
		name, body, inside, text string // inside and text of member "a"
	}{
		{"high surrogate", `{"a":"x\ud83d"}`, `x\ud83d`, "x\uFFFD"},
		{"low surrogate", `{"a":"\uDE00y"}`, `\uDE00y`, "\uFFFDy"},
		{"two high surrogates", `{"a":"\ud83d\ud83d"}`, `\ud83d\ud83d`, "\uFFFD\uFFFD"},
		{"high surrogate before an escape", `{"a":"\ud83d\n"}`, `\ud83d\n`, "\uFFFD\n"},
		{"high surrogate before another character", `{"a":"\ud83d\u0041"}`, `\ud83d\u0041`, "\uFFFDA"},
		{"pair", `{"a":"\ud83d\ude00"}`, `\ud83d\ude00`, "😀"},
		{"start of a UTF-8 sequence", "{\"a\":\"x\xe2\x82\"}", "x\xe2\x82", "x\xe2\x82"},
		{"end of a UTF-8 sequence", "{\"a\":\"\xac y\"}", "\xac y", "\xac y"},
		{"duplicate name", `{"a":"1","a":"2"}`, `1`, "1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var d jsondoc.Doc
			if c.name != "pair" {
				if err := d.Parse([]byte(c.body), jsondoc.Limits{}); err == nil {
					t.Error("accepted without Loose")
				}
			}
			if err := d.Parse([]byte(c.body), jsondoc.Limits{Loose: true}); err != nil {
				t.Fatal(err)
			}
			v := d.Root().Get("a")
			if got := string(v.Inside()); got != c.inside {
				t.Errorf("Inside returned %q, want %q", got, c.inside)
			}
			if got := v.Text(); got != c.text {
				t.Errorf("Text returned %q, want %q", got, c.text)
			}
		})
	}
}

func TestLooseRejectsNonStrings(t *testing.T) {
	for _, body := range []string{`{"a":"\ud83`, `{"a":"\ud83"}`, `{"a":"\x"}`, "{\"a\":\"\n\"}", `{"a":"\uZZZZ"}`, `{"a":"\`} {
		var d jsondoc.Doc
		if err := d.Parse([]byte(body), jsondoc.Limits{Loose: true}); err == nil {
			t.Errorf("%q was accepted", body)
		}
	}
}
