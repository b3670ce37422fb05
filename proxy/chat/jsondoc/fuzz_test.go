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

	"github.com/sluice-gateway/sluice/proxy/chat/jsondoc"
)

var seeds = []string{
	sample, `{"a":[1,2.5,-3e7,{"b":null}],"c":"\ud83d\ude00"}`, `{"a":1,"\u0061":2}`, `{"a":1e999}`, `[1e308,1e309,0e99999]`,
	`"\ud800"`, "\"\xed\xa0\x80\"", "\xEF\xBB\xBF{}", ``, ` `, `{}{}`, `[[[[]]]]`, "\"\x00\"", `{"":{"":{"":0}}}`, "\"é€😀\"",
	`{"messages":[{"role":"developer","content":[{"type":"text","text":"hi"}]},{"role":"user","content":"x"}],"max_tokens":5,"*":1,"-":2,"a/b~c":3}`,
}

// numbersAgree is the rule about numbers that jsontext does not have, in other words than the package's.
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

// FuzzParse has jsontext judge what is accepted, and encoding/json what it means (faults/127).
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	const depth = 10_000 // that of jsontext
	f.Fuzz(func(t *testing.T, body []byte) {
		var d jsondoc.Doc
		err := d.Parse(body, jsondoc.Limits{Depth: depth, Nodes: 1 << 30})
		want := jsontext.Value(body).IsValid() && numbersAgree(body)
		if (err == nil) != want {
			t.Fatalf("Parse says %v, the judges accept: %v", err, want)
		}
		if err != nil {
			var syntax *jsondoc.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(body) {
				t.Fatalf("error is %#v", err)
			}
			return
		}
		if diff := cmp.Diff(reference(t, body), walk(d.Root())); diff != "" {
			t.Fatal(diff)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, body); err != nil {
			t.Fatal(err)
		}
		if got := d.AppendCompact(nil); !bytes.Equal(got, compact.Bytes()) {
			t.Fatalf("compact is %q, want %q", got, compact.Bytes())
		}
	})
}
