package blocklist

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var suite = plugintest.Suite{Package: "plugins/all", Plugin: "blocklist", Use: plugintest.Use{Settings: `{"phrases":["x"]}`}}

// masked returns a text that arrives in pieces, with a star for each match. It also checks what the host requires of
// the finder.
func masked(t interface{ Fatalf(string, ...any) }, f *finder, pieces ...string) string {
	var out, held []byte
	for i := 0; i <= len(pieces); i++ {
		text, complete := append([]byte(nil), held...), i == len(pieces)
		if !complete {
			text = append(text, pieces[i]...)
		}
		f.scan(text, complete)
		at := 0
		for _, m := range f.found {
			if m.from < at || m.to <= m.from || m.to > f.hold {
				t.Fatalf("found %v, which overlap or are held from byte %d of %d on", f.found, f.hold, len(text))
			}
			out = append(append(out, text[at:m.from]...), '*')
			at = m.to
		}
		if f.hold < at || complete && f.hold != len(text) || utf8.RuneCount(text[f.hold:]) > f.longest+1 {
			t.Fatalf("%q of %q is held, complete %t; the longest phrase has %d characters", text[f.hold:], text, complete, f.longest)
		}
		out = append(out, text[at:f.hold]...)
		held = append(held[:0], text[f.hold:]...)
	}
	return string(out)
}

func newFinder(words bool, phrases ...string) *finder {
	f := &finder{words: words}
	var list [][]byte
	for _, p := range phrases {
		list = append(list, []byte(p))
		f.longest = max(f.longest, utf8.RuneCountInString(p))
	}
	f.phrases = newAutomaton(list)
	return f
}

// reference returns the expected result of masked, by the simplest algorithm.
func reference(f *finder, phrases []string, text string) string {
	equal := func(a, b string) bool {
		space := func(r rune) rune {
			if unicode.IsSpace(r) {
				return ' '
			}
			return r
		}
		return strings.EqualFold(strings.Map(space, a), strings.Map(space, b))
	}
	f.text = []byte(text)
	var out strings.Builder
	for i := 0; i < len(text); {
		longest := 0
		for to := i + 1; to <= len(text); to++ {
			for _, p := range phrases {
				if equal(text[i:to], p) && (!f.words || f.isBoundary(i) && f.isBoundary(to)) {
					longest = to - i
				}
			}
		}
		if longest > 0 {
			out.WriteByte('*')
			i += longest
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		out.WriteString(text[i : i+size])
		i += size
	}
	return out.String()
}

func TestFinds(t *testing.T) {
	for _, c := range []struct {
		words      bool
		phrases    string // separated by |
		text, want string
	}{
		{true, "secret", "A Secret, and no secrets: SECRET", "A *, and no secrets: *"},
		{false, "secret", "A Secret, and no secrets: SECRET", "A *, and no *s: *"},
		{true, "project x|x", "Project X is project\nx, not project xy", "* is *, not project xy"},
		{true, "new york|new york city|york", "New York City, new york cityscape, York", "*, * cityscape, *"},
		{false, "ab|bcd|abce", "abcd abce abc", "*cd * *c"},
		{false, "abcd|bc", "abcx abcd", "a*x *"},
		{true, "abc d|c", "abc c", "abc *"},
		{true, "kelvin|straße|ΣΊΣΥΦΟΣ|ſet", "\u212aelvin STRAẞE STRASSE Σίσυφος Set", "* * STRASSE * *"},
		{true, "机密", "这是机密文件", "这是*文件"},
		{true, "비밀", "비밀을 말해", "*을 말해"},
		{true, "ab_c", "ab_c xab_c ab_c1 ab_c-", "* xab_c ab_c1 *-"},
		{true, "c++", "C++ and c++x and xc++", "* and *x and xc++"},
		{true, "a b", "a\u00a0b a\u3000b a  b", "* * a  b"},
		{false, "aa", "aaaaa", "**a"},
		{false, "a", "", ""},
		{true, strings.Repeat("long ", 40) + "phrase", strings.Repeat("LONG ", 41) + "Phrase", "LONG *"},
		{true, "word", strings.Repeat("x", 300) + "word word", strings.Repeat("x", 300) + "word *"},
	} {
		phrases := strings.Split(c.phrases, "|")
		f := newFinder(c.words, phrases...)
		if got := masked(t, f, c.text); got != c.want {
			t.Errorf("%s in %q: got %q, want %q", c.phrases, c.text, got, c.want)
		}
		if ref := reference(f, phrases, c.text); ref != c.want {
			t.Errorf("%s in %q: reference returns %q, want %q", c.phrases, c.text, ref, c.want)
		}
		for at := range c.text {
			if got := masked(t, f, c.text[:at], c.text[at:]); got != c.want {
				t.Errorf("%s in %q split at %d: got %q, want %q", c.phrases, c.text, at, got, c.want)
			}
		}
		if got := masked(t, f, strings.Split(c.text, "")...); got != c.want {
			t.Errorf("%s in %q by character: got %q, want %q", c.phrases, c.text, got, c.want)
		}
	}
}

// TestRandomSplitGivesSameResult compares finder with reference, for phrases and texts of only a few different
// characters, so that phrases overlap and share prefixes.
func TestRandomSplitGivesSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		phrase := rapid.StringOfN(rapid.SampledFrom([]rune("aaabB_ é密K\u212a.")), 1, 6, -1)
		phrases := rapid.SliceOfN(phrase, 1, 6).Draw(t, "phrases")
		f := newFinder(rapid.Bool().Draw(t, "words"), phrases...)
		pieces := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("aaaabbBA_ éÉ密kK\u212a.")), 0, 12, -1), 1, 8).Draw(t, "pieces")
		text := strings.Join(pieces, "")
		want := reference(f, phrases, text)
		if got := masked(t, f, text); got != want {
			t.Fatalf("%q in %q: got %q, want %q", phrases, text, got, want)
		}
		if got := masked(t, f, pieces...); got != want {
			t.Fatalf("%q in %q: got %q, want %q", phrases, pieces, got, want)
		}
	})
}

func FuzzFinds(f *testing.F) {
	f.Add("secret|a secret|Secrets", "a Secret, secrets", uint8(3), true)
	f.Add("ab|bcd|abce", "abcd abce abc", uint8(1), false)
	f.Add("aa|aaa| ", "aa ", uint8(9), true) // aa is complete, but the space may begin another phrase
	f.Fuzz(func(t *testing.T, list, text string, size uint8, words bool) {
		if len(list) > 100 || len(text) > 300 || !utf8.ValidString(list) || !utf8.ValidString(text) {
			return
		}
		var phrases []string
		for _, p := range strings.Split(list, "|") {
			if p != "" {
				phrases = append(phrases, p)
			}
		}
		finder := newFinder(words, phrases...)
		want := reference(finder, phrases, text)
		var pieces []string
		piece := ""
		for _, r := range text {
			if piece += string(r); len(piece) > int(size) {
				pieces, piece = append(pieces, piece), ""
			}
		}
		if got := masked(t, finder, append(pieces, piece)...); got != want {
			t.Fatalf("%q in %q, in pieces of %d: got %q, want %q", phrases, text, size, got, want)
		}
	})
}

func settings(t testing.TB, options map[string]any) string {
	t.Helper()
	p, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestMasks(t *testing.T) {
	suite.TestFilter(t, `{"phrases":["Project X","internal use only"]}`, map[string]string{
		"For internal\nuse ONLY: project x, not project xy": "For [blocked]: [blocked], not project xy",
		"Nothing here, über alles":                          "Nothing here, über alles",
	})
}

func TestActions(t *testing.T) {
	const text = "About Project X."
	for _, c := range []struct {
		options map[string]any
		want    string
	}{
		{map[string]any{"mask": ""}, "About ."},
		{map[string]any{"action": "refuse"}, "refused: The text contains a blocked phrase."},
		{map[string]any{"action": "tag"}, text + " #blocklist"},
		{map[string]any{"action": "tag", "tag": "legal"}, text + " #legal"},
		{map[string]any{"action": "tag", "tag": "other"}, "failed: " + errTagNotListed.Error()},
		{map[string]any{"phrases": []string{"ject"}}, text},
		{map[string]any{"phrases": []string{"ject"}, "whole_words": false}, "About Pro[blocked] X."},
	} {
		if c.options["phrases"] == nil {
			c.options["phrases"] = []string{"project x"}
		}
		suite.EachForm(t, settings(t, c.options), func(t *testing.T, b *plugintest.Binding) {
			got, err := b.FilterText(plugintest.FilterText{Flags: abi.TextOfRequest | abi.TextComplete, Tags: []string{"blocklist", "legal"}, Pieces: []string{text}})
			out := got.Text
			for _, tag := range got.Tags {
				out += " #" + tag
			}
			if err != nil {
				kind, message, _ := strings.Cut(c.want, ": ")
				if !strings.Contains(err.Error(), message) || (kind == "refused") == strings.Contains(err.Error(), "filter_text") {
					t.Errorf("%v: got error %v, want %s", c.options, err, c.want)
				}
			} else if out != c.want {
				t.Errorf("%v: got %q, want %q", c.options, out, c.want)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	invalid := func(option string) string { return "option " + option + " has an invalid value" }
	suite.TestSettings(t, map[string]string{
		`{"phrases":["a"]}`: "", `{"phrases":["a"],"whole_words":false,"action":"tag","tag":"x","mask":""}`: "",
		`{}`: errNoPhrases.Error(), `{"phrases":[]}`: errNoPhrases.Error(), `{"phrases":[""]}`: invalid("phrases"), `{"phrases":"a"}`: invalid("phrases"),
		`{"phrases":["` + strings.Repeat("ä", 200) + `"]}`: "", `{"phrases":["` + strings.Repeat("ä", 201) + `"]}`: invalid("phrases"),
		`{"phrases":["a"],"action":"drop"}`: invalid("action"), `{"phrases":["a"],"mask":1}`: invalid("mask"), `{"phrases":["a"],"mask":"` + strings.Repeat("x", 65) + `"}`: invalid("mask"),
		`{"phrases":["a"],"tag":""}`: invalid("tag"), `{"phrases":["a"],"whole_words":1}`: invalid("whole_words"), `{"phrase":["a"]}`: "unknown option phrase",
	})
}

// TestCost checks that the largest list fits into the fuel budget of sluice_configure and the memory of an instance,
// and that no text costs more fuel than the budget of its bytes.
func TestCost(t *testing.T) {
	var phrases []string
	for n, size := uint32(1), 0; size < maxPhrases-20; n++ {
		p := ""
		for x := n * 2654435761; x > 0; x /= 26 {
			p += string(rune('a' + x%26))
		}
		phrases = append(phrases, p)
		size += len(p)
	}
	for name, c := range map[string]struct {
		phrases []string
		text    string
	}{
		"prose":       {phrases, "The quick brown fox jumps over the lazy dog, again and again. "},
		"near misses": {phrases, strings.Join(phrases[:500], "")},
		"chinese":     {phrases, "这是机密文件，"},
		"greek":       {phrases, "Σίσυφος "},
		"repetition":  {[]string{strings.Repeat("a", 20) + "b"}, "a"},
	} {
		for _, words := range []bool{true, false} {
			s := suite
			s.Use.Settings = settings(t, map[string]any{"phrases": c.phrases, "whole_words": words})
			text := strings.Repeat(c.text, 1+(32<<10)/len(c.text))
			got, err := s.Bind(t, plugintest.Module).FilterText(plugintest.FilterText{Flags: abi.TextOfRequest | abi.TextComplete, Pieces: []string{text}})
			perByte := got.Fuel / int64(len(text))
			t.Logf("%s, words %t: %d units per byte", name, words, perByte)
			if err != nil || perByte > 56 {
				t.Errorf("%s, words %t: got %d units of fuel per byte, error %v, want at most 56", name, words, perByte, err)
			}
		}
	}
}

func BenchmarkText(b *testing.B) {
	suite.BenchmarkFilter(b, `{"phrases":["project x","internal use only","do not distribute"]}`, strings.Repeat("Of course! The order of 12 May went to Mrs. Example at 12 Some Street, do tell. ", 4)+"Project X. ")
}
