package responses

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// unwrapPieces returns the input in arguments that arrive in pieces.
func unwrapPieces(t testing.TB, pieces ...string) (input string) {
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
			t.Fatalf("%q: the output %q is not the contents of a JSON string", pieces, out[from:])
		}
	}
	if err := json.Unmarshal([]byte(`"`+string(out)+`"`), &input); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return input
}

// FuzzCustomInput unwraps arbitrary arguments, cut at any place. The result is valid text and does not depend on the
// cut. For arguments in the expected format, it equals the result of encoding/json.
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
		args = strings.ToValidUTF8(args, "?") // as from a Writer
		if cut = min(max(cut, 0), len(args)); !utf8.ValidString(args[:cut]) {
			return
		}
		whole, inTwo := unwrapPieces(t, args), unwrapPieces(t, args[:cut], args[cut:])
		if whole != inTwo {
			t.Fatalf("%q: whole %q, cut at %d %q", args, whole, cut, inTwo)
		}
		if inCharacters := unwrapPieces(t, append(strings.Split(args, ""), "")...); inCharacters != whole {
			t.Fatalf("%q: whole %q, in characters %q", args, whole, inCharacters)
		}
		var doc map[string]string
		if json.Unmarshal([]byte(args), &doc) == nil && len(doc) == 1 && strings.HasPrefix(args, `{"input":"`) && strings.Count(args, `"input"`) == 1 && whole != doc["input"] {
			t.Fatalf("%q: got %q, want %q", args, whole, doc["input"])
		}
	})
}
