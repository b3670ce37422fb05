package responses

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// unwrapped is the input in arguments that come in pieces.
func unwrapped(t testing.TB, pieces ...string) (input string) {
	t.Helper()
	var u unwrapper
	var out []byte
	for i, p := range pieces {
		from := len(out)
		out = u.add(out, jsondoc.AppendEscaped(nil, []byte(p)))
		if i == len(pieces)-1 {
			out = u.end(out)
		}
		if !jsondoc.CheckEscaped(out[from:]) {
			t.Fatalf("%q: the piece %q is not the inside of a JSON string", pieces, out[from:])
		}
	}
	if err := json.Unmarshal([]byte(`"`+string(out)+`"`), &input); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return input
}

// FuzzCustomInput gives arguments of any form, cut at any place. What comes out is text, and the same wherever it is cut; for
// arguments of the right form, it is what encoding/json makes of them.
func FuzzCustomInput(f *testing.F) {
	for _, args := range []string{
		`{"input":"a\u00e9\ud83d\ude00\n"}`, `{"input":"\ud83d\u0041\ud83d\`, `{"input":"\ud83d\ud83d\ude00\q\u12"}`, `{"code":1}`,
		"{ \"input\" :\"\xf0\x9f\x98\x80\x00", `{}`, `"a"`, ``,
	} {
		for cut := range len(args) + 1 {
			f.Add(args, cut)
		}
	}
	f.Fuzz(func(t *testing.T, args string, cut int) {
		args = strings.ToValidUTF8(args, "?") // as a Writer gives them
		if cut = min(max(cut, 0), len(args)); !utf8.ValidString(args[:cut]) {
			return
		}
		whole, inTwo := unwrapped(t, args), unwrapped(t, args[:cut], args[cut:])
		if whole != inTwo {
			t.Fatalf("%q: whole %q, cut at %d %q", args, whole, cut, inTwo)
		}
		if inCharacters := unwrapped(t, append(strings.Split(args, ""), "")...); inCharacters != whole {
			t.Fatalf("%q: whole %q, in characters %q", args, whole, inCharacters)
		}
		var doc map[string]string
		if json.Unmarshal([]byte(args), &doc) == nil && len(doc) == 1 && strings.HasPrefix(args, `{"input":"`) && strings.Count(args, `"input"`) == 1 && whole != doc["input"] {
			t.Fatalf("%q became %q", args, whole)
		}
	})
}
