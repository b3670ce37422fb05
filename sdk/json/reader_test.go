package json_test

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

func TestReaderWalksDocument(t *testing.T) {
	const doc = ` { "type" : "delta" , "index":3,
		"delta":{"text":"a\"b","more":[1,{"x":[]},"s"],"n":null},
		"na\u006de":true,"f":-1.5e2,"tail":{"left":{"deep":[1,2,3]},"rest":1} } `
	var (
		r                json.Reader
		kind, text, name string
		index            int64
		f                float64
		elements         []string
		sawEscapedName   bool
	)
	r.Reset([]byte(doc))
	for o := r.Object(); o.Next(); {
		switch name = string(r.Name()); name {
		case "type":
			kind = string(r.Inside())
		case "index":
			index, _ = r.Int()
		case "delta":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "text":
					text = string(r.Text())
				case "more":
					for a := r.Array(); a.Next(); {
						elements = append(elements, string(r.Raw()))
					}
				}
			}
		case "name":
			sawEscapedName, _ = r.Bool()
		case "f":
			f, _ = r.Float()
		case "tail":
			for o := r.Object(); o.Next(); {
				for o := r.Object(); o.Next(); {
					for a := r.Array(); a.Next(); {
						break // the outer loop reads the rest of a loop that is left early
					}
				}
			}
		}
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(kind, index, text, elements, sawEscapedName, f)
	want := fmt.Sprint("delta", 3, `a"b`, []string{"1", `{"x":[]}`, `"s"`}, true, -150.0)
	if got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

func TestReaderSkipsValuesOfAnotherKind(t *testing.T) {
	var r json.Reader
	r.Reset([]byte(`{"a":1,"b":"x","c":[1],"d":{},"e":null,"f":true,"last":7}`))
	var last int64
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "a":
			for o := r.Object(); o.Next(); {
				t.Error("Object found members in a number")
			}
		case "b":
			if _, ok := r.Int(); ok {
				t.Error("Int accepted a string")
			}
		case "c":
			if r.Inside() != nil {
				t.Error("Inside accepted an array")
			}
		case "d":
			for a := r.Array(); a.Next(); {
				t.Error("Array found elements in an object")
			}
		case "e":
			if _, ok := r.Bool(); ok {
				t.Error("Bool accepted null")
			}
		case "f":
			if _, ok := r.Float(); ok {
				t.Error("Float accepted true")
			}
		case "last":
			last, _ = r.Int()
		}
	}
	if err := r.End(); err != nil || last != 7 {
		t.Errorf("last = %d, error %v", last, err)
	}
}

func TestReaderKindsAndOffsets(t *testing.T) {
	doc := []byte(`[null, true,"s" ,-1,[ ],{ }]`)
	want := []json.Kind{json.Null, json.Bool, json.String, json.Number, json.Array, json.Object}
	var r json.Reader
	r.Reset(doc)
	if r.Kind() != json.Array {
		t.Errorf("the document is of kind %d", r.Kind())
	}
	i := 0
	for a := r.Array(); a.Next(); i++ {
		if r.Kind() != want[i] {
			t.Errorf("element %d is of kind %d, want %d", i, r.Kind(), want[i])
		}
		before := r.Offset()
		raw := r.Raw()
		if r.Kind() != json.Absent {
			t.Errorf("element %d still has a kind after it was read", i)
		}
		if r.Offset() != before || !bytes.HasPrefix(doc[before:], raw) {
			t.Errorf("element %d: %q at %d and %d", i, raw, before, r.Offset())
		}
	}
	if err := r.End(); err != nil || i != len(want) {
		t.Errorf("%d elements, error %v", i, err)
	}
}

func TestReaderErrorOffset(t *testing.T) {
	tests := map[string]struct {
		doc    string
		offset int
	}{
		"nothing":             {"", 0},
		"white space only":    {"  ", 2},
		"open object":         {`{"a":1`, 6},
		"no colon":            {`{"a" 1}`, 5},
		"no comma":            {`{"a":1 "b":2}`, 7},
		"comma at the end":    {`[1,]`, 3},
		"wrong bracket":       {`[1}`, 2},
		"unquoted name":       {`{a:1}`, 1},
		"control in string":   {"[\"a\nb\"]", 1},
		"bad escape":          {`["\x"]`, 1},
		"short unicode":       {`["\u12"]`, 1},
		"leading zero":        {`[01]`, 2},
		"lonely minus":        {`[-]`, 1},
		"fraction without":    {`[1.]`, 1},
		"exponent without":    {`[1e+]`, 1},
		"plus":                {`[+1]`, 1},
		"cut literal":         {`[tru]`, 1},
		"second document":     {`{} {}`, 3},
		"comment":             {`{/**/}`, 1},
		"single quotes":       {`['a']`, 1},
		"not a number":        {`[NaN]`, 1},
		"too deep":            {strings.Repeat("[", json.MaxDepth+1), json.MaxDepth},
		"string without end":  {`["abc`, 1},
		"name without end":    {`{"abc`, 1},
		"member without name": {`{,}`, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var r json.Reader
			r.Reset([]byte(test.doc))
			err := r.End()
			e, ok := err.(*json.Error)
			if !ok || e.Offset != test.offset {
				t.Fatalf("error %v, want one at byte %d", err, test.offset)
			}
			if !r.Failed() {
				t.Error("Failed returned false")
			}
			if want := fmt.Sprint("invalid JSON at byte ", test.offset); e.Error() != want {
				t.Errorf("text %q, want %q", e, want)
			}
			walk(&r)
		})
	}
}

// walk reads a document in loops, as a plugin does, and returns it in compact form.
func walk(r *json.Reader) []byte {
	var w json.Writer
	walkValue(r, &w)
	return w.Buf
}

func walkValue(r *json.Reader, w *json.Writer) {
	switch r.Kind() {
	case json.Object:
		w.Object()
		for o := r.Object(); o.Next(); {
			w.NameText(r.Name())
			walkValue(r, w)
		}
		w.EndObject()
	case json.Array:
		w.Array()
		for a := r.Array(); a.Next(); {
			walkValue(r, w)
		}
		w.EndArray()
	case json.String:
		w.Text(r.Text())
	default:
		w.Raw(r.Raw())
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `"x"`, `0`, `-0.1e+10`, `{"a":[1,2,{"b":"c"}],"d":{"e":null}}`, `{"a":"\ud83d\ude00\u0000"}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`, "\"\xff\xfe\"",
		`[[[[[[[[[[]]]]]]]]]]`, `{"a":1,"a":2}`, "{\"a\":\"12345678\x1f\"}", `"1234567\"890"`, `{"\u0061":1}`, `"\udc00"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var r json.Reader
		r.Reset(doc)
		err := r.End()
		valid := stdjson.Valid(doc)
		if depth(doc) <= json.MaxDepth && (err == nil) != valid {
			t.Fatalf("error %v, but the document is valid: %v", err, valid)
		}
		if err == nil && !valid {
			t.Fatal("an invalid document was accepted")
		}
		if json.Value(doc).Valid() != (err == nil) {
			t.Fatal("Value disagrees with Reader")
		}
		r.Reset(doc)
		compact := walk(&r)
		if walkErr := r.End(); (walkErr == nil) != (err == nil) {
			t.Fatalf("walked: %v; skipped: %v", walkErr, err)
		}
		if err != nil {
			return
		}
		var want, got any
		if stdjson.Unmarshal(doc, &want) != nil {
			return // a number is out of range
		}
		if e := stdjson.Unmarshal(compact, &got); e != nil {
			t.Fatalf("what was read cannot be written: %v: %s", e, compact)
		}
		a, _ := stdjson.Marshal(want)
		b, _ := stdjson.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Fatalf("read\n%s\nwant\n%s", b, a)
		}
	})
}

// depth returns the maximum nesting depth of a document's brackets.
func depth(doc []byte) (deepest int) {
	d, inString := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			d++
			deepest = max(deepest, d)
		case !inString && (c == '}' || c == ']'):
			d--
		}
	}
	return deepest
}

func TestNumbers(t *testing.T) {
	ints := map[string]struct {
		n  int64
		ok bool
	}{
		"0": {0, true}, "-1": {-1, true}, "9223372036854775807": {math.MaxInt64, true},
		"-9223372036854775808": {math.MinInt64, true}, "9223372036854775808": {0, false},
		"-9223372036854775809": {0, false}, "1.0": {0, false}, "1e3": {0, false}, `"1"`: {0, false},
		"99999999999999999999999": {0, false}, "-": {0, false}, "": {0, false}, "01": {0, false}, " 7 ": {7, true},
	}
	for doc, want := range ints {
		if n, ok := json.Value(doc).Int(); n != want.n || ok != want.ok {
			t.Errorf("Int of %s is %d, %v, want %d, %v", doc, n, ok, want.n, want.ok)
		}
	}
	var r json.Reader
	r.Reset([]byte("18446744073709551615"))
	if n, ok := r.Uint(); n != math.MaxUint64 || !ok {
		t.Errorf("Uint is %d, %v", n, ok)
	}
	r.Reset([]byte("18446744073709551616"))
	if _, ok := r.Uint(); ok {
		t.Error("Uint accepted a 65-bit number")
	}
	for n := range map[int64]bool{0: true, -1: true, 10: true, math.MaxInt64: true, math.MinInt64: true} {
		if got := string(json.AppendInt(nil, n)); got != fmt.Sprint(n) {
			t.Errorf("AppendInt of %d is %s", n, got)
		}
	}
}

func FuzzParseFloat(f *testing.F) {
	for _, seed := range []string{"0", "-0", "0.7", "3.14159", "1e22", "1e-22", "123456789012345678901234567890", "1e308",
		"1e309", "1e-400", "0.000000000000000000000001", "2.5e+3", "15.0", "1e999999999999", "5e-324"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := json.ParseFloat([]byte(s))
		var want float64
		err := stdjson.Unmarshal([]byte(s), &want)
		if strings.TrimSpace(s) != s || s == "null" {
			return // encoding/json accepts white space and null
		}
		if !ok {
			if err == nil {
				t.Fatalf("%q is refused", s)
			}
			return
		}
		if err != nil {
			if !stdjson.Valid([]byte(s)) {
				t.Fatalf("%q passed: %v", s, err)
			}
			if math.Abs(got) != math.MaxFloat64 {
				t.Fatalf("%q, which is out of range, is %g", s, got)
			}
			return
		}
		if math.Abs(got-want) > math.Abs(want)*1e-14+1e-300 {
			t.Fatalf("%q is %g, want %g", s, got, want)
		}
	})
}
