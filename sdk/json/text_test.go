package json_test

import (
	"bytes"
	stdjson "encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/json"
)

func TestTextUnescapes(t *testing.T) {
	tests := map[string]string{
		``:                           "",
		`plain text that is long`:    "plain text that is long",
		`a\"b\\c\/d\be\ff\ng\rh\ti`:  "a\"b\\c/d\be\ff\ng\rh\ti",
		`\u0041\u00e9\u20AC`:         "Aé€",
		`\ud83d\ude00!`:              "😀!",
		`\ud83d`:                     "\uFFFD",
		`\ude00x`:                    "\uFFFDx",
		`\ud83d\u0041`:               "\uFFFDA",
		`\ud83d\ud83d\ude00`:         "\uFFFD😀",
		`12345678\n12345678\n123456`: "12345678\n12345678\n123456",
		`\u0000`:                     "\x00",
	}
	for inside, want := range tests {
		if got := string(json.AppendText(nil, []byte(inside))); got != want {
			t.Errorf("text of %q is %q, want %q", inside, got, want)
		}
		if got := json.Value(`"` + inside + `"`).Text(); string(got) != want {
			t.Errorf("Text of %q is %q, want %q", inside, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "plain", "quote\" back\\slash", "\x00\x1f\n\r\t", "é€😀", "\xff\xc0 12345678", strings.Repeat("x", 70) + `\ud83d\ude00`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc := json.AppendString(nil, text)
		var want string
		if err := stdjson.Unmarshal(doc, &want); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if fixed := bytes.ToValidUTF8(text, []byte("\uFFFD")); utf8.Valid(text) && !bytes.Equal(fixed, []byte(want)) {
			t.Fatalf("written %q, want %q", want, fixed)
		}
		if got := json.AppendText(nil, doc[1:len(doc)-1]); string(got) != want {
			t.Fatalf("read %q, want %q", got, want)
		}
		json.AppendText(nil, text) // must terminate for any bytes
		quoted := append(append([]byte{'"'}, text...), '"')
		if !stdjson.Valid(quoted) || !utf8.Valid(text) {
			return
		}
		if err := stdjson.Unmarshal(quoted, &want); err != nil {
			t.Fatal(err)
		}
		if got := json.AppendText(nil, text); string(got) != want {
			t.Fatalf("text of %q is %q, want %q", text, got, want)
		}
	})
}

func TestValueOfSmallDocuments(t *testing.T) {
	v := json.Value(` {"a":"x","b":{"c":[1]},"n":12,"f":0.5,"t":true,"a":"last"}`)
	if !v.Get("a").Is("last") || v.Get("a").Is("x") {
		t.Error("the last of several members does not win")
	}
	if n, ok := v.Get("n").Int(); n != 12 || !ok {
		t.Error("n")
	}
	if f, ok := v.Get("f").Float(); f != 0.5 || !ok {
		t.Error("f")
	}
	if b, ok := v.Get("t").Bool(); !b || !ok {
		t.Error("t")
	}
	if string(v.Get("b").Get("c")) != "[1]" {
		t.Errorf("b.c is %s", v.Get("b").Get("c"))
	}
	if string(v.Get("a").Inside()) != "last" {
		t.Error("inside")
	}
	if v.Get("missing").Exists() || v.Get("n").Get("x").Exists() || json.Value(nil).Exists() {
		t.Error("Exists returned true for an absent value")
	}
	if json.Value(`{"a":`).Get("a").Exists() {
		t.Error("Exists returned true for a member of an invalid document")
	}
	if !v.Valid() || json.Value(`{"a":`).Valid() {
		t.Error("Valid")
	}
}

// pieces records what a Writer passes to its Output.
type pieces []string

func (p *pieces) Write(b []byte) { *p = append(*p, string(b)) }

func TestWriterCommas(t *testing.T) {
	large := `"` + strings.Repeat("x,{[:", 1000) + `"`
	write := func(w *json.Writer) {
		w.Object()
		w.Name("a")
		w.Array()
		w.Int(1)
		w.Int(-2)
		w.Array()
		w.EndArray()
		w.Object()
		w.EndObject()
		w.EndArray()
		w.Name("large")
		w.Raw([]byte(large))
		w.NameText([]byte("b\""))
		w.Text([]byte("{\n["))
		w.Name("c")
		w.Inside([]byte(strings.Repeat(`\n,`, 2000)))
		w.Name("d")
		w.String("[")
		w.Name("e")
		w.Bool(true)
		w.Name("f")
		w.Bool(false)
		w.Name("g")
		w.Null()
		w.EndObject()
	}
	want := `{"a":[1,-2,[],{}],"large":` + large + `,"b\"":"{\n[","c":"` + strings.Repeat(`\n,`, 2000) +
		`","d":"[","e":true,"f":false,"g":null}`
	var w json.Writer
	write(&w)
	if string(w.Buf) != want {
		t.Errorf("wrote\n%s\nwant\n%s", w.Buf, want)
	}
	var p pieces
	w = json.Writer{Out: &p}
	write(&w)
	w.Flush()
	if got := strings.Join(p, ""); got != want {
		t.Errorf("handed on\n%s\nwant\n%s", got, want)
	}
	if len(p) < 4 || p[1] != large {
		t.Errorf("the large value was not passed to Out on its own: %d pieces", len(p))
	}
	w.Reset()
	w.Int(1)
	if string(w.Buf) != "1" {
		t.Errorf("after Reset a writer begins with %s", w.Buf)
	}
}
