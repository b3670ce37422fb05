package jsondoc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

var seeds = []string{
	sample, `{"a":[1,2.5,-3e7,{"b":null}],"c":"\ud83d\ude00"}`, `{"a":1,"\u0061":2}`, `{"a":1e999}`, `[1e308,1e309,0e99999]`,
	`"\ud800"`, "\"\xed\xa0\x80\"", "\xEF\xBB\xBF{}", ``, ` `, `{}{}`, `[[[[]]]]`, "\"\x00\"", `{"":{"":{"":0}}}`, "\"é€😀\"",
	`{"messages":[{"role":"developer","content":[{"type":"text","text":"hi"}]},{"role":"user","content":"x"}],"max_tokens":5,"*":1,"-":2,"a/b~c":3}`,
}

// numbersAgree reports whether all numbers of a document have an exponent and a value that the package accepts.
// jsontext does not check that, and the package implements it differently.
func numbersAgree(body []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if token.Kind() != '0' {
			continue
		}
		number := token.String()
		if i := strings.IndexAny(number, "eE"); i >= 0 {
			exponent, err := strconv.ParseInt(number[i+1:], 10, 64)
			if err != nil || exponent < -9999 || exponent > 9999 {
				return false
			}
		}
		if _, err := strconv.ParseFloat(number, 64); err != nil {
			return false
		}
	}
}

// stricter has the reasons for rejecting documents that encoding/json accepts.
var stricter = map[string]bool{
	"a member name appears twice in one object": true, "invalid UTF-8": true, "an unpaired low surrogate": true,
	"an unpaired high surrogate": true, "a number is too large": true, "a number's exponent is too large": true,
}

// failer is the part of testing.TB that compare uses.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// compare parses one document with this package, jsontext and encoding/json. This package must accept what jsontext
// accepts, except for numbers that not all parsers can represent. encoding/json must accept these documents too and
// read the same values. Documents that only encoding/json accepts must be rejected for one of the reasons in stricter.
func compare(t failer, body []byte) {
	t.Helper()
	const depth = 10_000 // the limit of jsontext and encoding/json
	var d jsondoc.Doc
	err := d.Parse(body, jsondoc.Limits{Depth: depth, Nodes: 1 << 30})
	if want := jsontext.Value(body).IsValid() && numbersAgree(body); (err == nil) != want {
		t.Fatalf("%.200q: Parse returned %v, want success: %t", body, err, want)
	}
	if err != nil {
		var syntax *jsondoc.SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(body) {
			t.Fatalf("error %#v, want a SyntaxError with an offset in the document", err)
		}
		if json.Valid(body) && !stricter[syntax.Reason] {
			t.Fatalf("%.200q: encoding/json accepts it, and Parse returned %v", body, err)
		}
		return
	}
	if !json.Valid(body) {
		t.Fatalf("%.200q: Parse accepts it, and encoding/json does not", body)
	}
	if diff := cmp.Diff(reference(t, body), walk(d.Root())); diff != "" {
		t.Fatal(diff)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		t.Fatal(err)
	}
	if got := d.AppendCompact(nil); !bytes.Equal(got, compact.Bytes()) {
		t.Fatalf("compact form %q, want %q", got, compact.Bytes())
	}
}

// FuzzParse compares the parser with others on arbitrary bytes.
//
// covers: F127
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) { compare(t, body) })
}

// pieces are fragments for building almost valid documents.
var pieces = []string{
	"{", "}", "[", "]", ",", ":", `"`, `"a"`, `"\u0061"`, `"b":`, `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "null", "true", "false", "nul", "NaN",
	"0", "-0", "-", "1", "01", "1.5", "1.", ".5", "1e5", "1E+5", "1e", "1e999", "1e308", "1.8e308", "0e99999", "123456789012345678901234567890",
	" ", "\t", "\r\n", "\v", "\xa0", "\x00", "\ufeff", "/**/", `\`, `\u`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `\u0000`, `\n`, `\x`,
	"é", "😀", "\xc3", "\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x7f", "\x1f", "\n",
}

// drawDocument draws a valid document.
func drawDocument(t *rapid.T, depth int) string {
	name := rapid.SampledFrom([]string{`""`, `"a"`, `"b"`, `"\u0061"`, `"model"`, `"é"`, `"\ud83d\ude00"`, `"a longer name that fills a block of sixty-four bytes and more"`})
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case kind == 0 && depth > 0:
		return "[" + strings.Join(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawDocument(t, depth-1) }), 0, 4).Draw(t, "elements"), ", ") + "]"
	case kind == 1 && depth > 0:
		names := rapid.SliceOfN(name, 0, 4).Draw(t, "names")
		for i := range names {
			names[i] += ":" + drawDocument(t, depth-1)
		}
		return "{" + strings.Join(names, ",") + "}"
	case kind == 2:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case kind == 3:
		return rapid.SampledFrom([]string{"0", "-0", "1", "-1.5e-7", "1e308", "1.7976931348623158e308", "1.7976931348623159e308", "1e-9999", "9007199254740993"}).Draw(t, "number")
	}
	return name.Draw(t, "text")
}

// TestParsersAgree compares the parser with others on valid documents, which are truncated, or have pieces inserted,
// removed and repeated at random.
//
// covers: F127
func TestParsersAgree(t *testing.T) {
	for _, seed := range seeds {
		compare(t, []byte(seed))
		for end := range seed {
			compare(t, []byte(seed[:end]))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		body := drawDocument(t, 4)
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			from := rapid.IntRange(0, len(body)).Draw(t, "from")
			to := min(len(body), from+rapid.SampledFrom([]int{0, 0, 1, 2, 9}).Draw(t, "out"))
			body = body[:from] + rapid.SampledFrom(append(pieces, "", body[from:to]+body[from:to])).Draw(t, "in") + body[to:]
		}
		compare(t, []byte(body))
	})
}
