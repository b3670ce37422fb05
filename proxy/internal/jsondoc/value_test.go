package jsondoc_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

const sample = ` {"model": "gpt\u002d4o", "n": 3, "on": true, "off": false, "none": null,
  "messages": [ {"role":"user","content":"a \"quoted\" line\n"}, {"role":"assistant","content":null} , [] ],
  "": "empty name", "deep": {"er": {"est": [1, [2, [3]]]}}, "t\u00e4g": "ä" } `

// walk converts a Value to the Go value that encoding/json would decode.
func walk(v jsondoc.Value) any {
	switch v.Kind() {
	case jsondoc.Null:
		return nil
	case jsondoc.True, jsondoc.False:
		b, _ := v.Bool()
		return b
	case jsondoc.Number:
		return json.Number(v.Raw())
	case jsondoc.String:
		return v.Text()
	case jsondoc.Array:
		list := []any{}
		for c := v.First(); c.Exists(); c = c.Next() {
			list = append(list, walk(c))
		}
		return list
	case jsondoc.Object:
		members := map[string]any{}
		for c := v.First(); c.Exists(); c = c.Next() {
			members[c.Name().Text()] = walk(c)
		}
		return members
	}
	panic("walk: absent value")
}

// reference returns the Go value that encoding/json decodes.
func reference(tb failer, body []byte) (value any) {
	tb.Helper()
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		tb.Fatalf("encoding/json: %v", err)
	}
	return value
}

func TestValueIteration(t *testing.T) {
	d := parse(t, sample)
	if diff := cmp.Diff(reference(t, []byte(sample)), walk(d.Root())); diff != "" {
		t.Error(diff)
	}
}

func TestValueGet(t *testing.T) {
	root := parse(t, sample).Root()
	for name, want := range map[string]string{
		"model": `"gpt\u002d4o"`, "n": `3`, "": `"empty name"`, "täg": `"ä"`, "none": `null`, "absent": ``, "mode": ``,
	} {
		v := root.Get(name)
		if got := string(v.Raw()); got != want || v.Exists() != (want != "") {
			t.Errorf("Get(%q) returned %q, want %q", name, got, want)
		}
		if want != "" && !v.Name().Is(name) {
			t.Errorf("Get(%q) returned a member with the name %q", name, v.Name().Text())
		}
	}
	if root.Get("messages").Get("role").Exists() || root.Get("n").Get("x").Exists() {
		t.Error("Get finds a member of an array or a number")
	}
}

func TestValuePosition(t *testing.T) {
	d := parse(t, sample)
	for path, want := range map[string]struct {
		kind jsondoc.Kind
		len  int
		name string
	}{
		"":                    {jsondoc.Object, 8 + 1, ""},
		"/model":              {jsondoc.String, 0, "model"},
		"/n":                  {jsondoc.Number, 0, "n"},
		"/on":                 {jsondoc.True, 0, "on"},
		"/off":                {jsondoc.False, 0, "off"},
		"/none":               {jsondoc.Null, 0, "none"},
		"/messages":           {jsondoc.Array, 3, "messages"},
		"/messages/0":         {jsondoc.Object, 2, ""},
		"/messages/2":         {jsondoc.Array, 0, ""},
		"/deep/er/est/1/1/0":  {jsondoc.Number, 0, ""},
		"/messages/1/content": {jsondoc.Null, 0, "content"},
	} {
		v := d.Pointer([]byte(path))
		if v.Kind() != want.kind || v.Len() != want.len || v.Name().Text() != want.name {
			t.Errorf("%q: kind %v, length %d, name %q, want %+v", path, v.Kind(), v.Len(), v.Name().Text(), want)
		}
		if at := v.Offset(); sample[at:at+len(v.Raw())] != string(v.Raw()) {
			t.Errorf("%q: Offset does not match Raw", path)
		}
	}
	if d.Root().Next().Exists() || d.Pointer([]byte("/messages/2")).Next().Exists() {
		t.Error("the root or the last element has a next value")
	}
}

func TestAbsentValueIsHarmless(t *testing.T) {
	var v jsondoc.Value
	got := fmt.Sprint(v.Kind(), v.Exists(), len(v.Raw()), v.Offset(), v.Len(), v.Get("a").Exists(), v.First().Exists(), v.Next().Exists(),
		v.Name().Exists(), len(v.Inside()), v.Escaped(), v.Is(""), len(v.AppendText(nil)), v.Text() == "", v.SameText(v))
	if want := "nothing false 0 0 0 false false false false 0 false false 0 true false"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, isInt := v.Int()
	_, isFloat := v.Float()
	_, isBool := v.Bool()
	if isInt || isFloat || isBool {
		t.Error("an absent value is an integer, a float or a bool")
	}
}

func TestValueNumbers(t *testing.T) {
	for _, test := range []struct {
		raw   string
		n     int64
		isInt bool
		f     float64
	}{
		{"0", 0, true, 0},
		{"-0", 0, true, math.Copysign(0, -1)},
		{"5", 5, true, 5},
		{"5.0", 0, false, 5},
		{"5e0", 0, false, 5},
		{"-17", -17, true, -17},
		{"9223372036854775807", math.MaxInt64, true, math.MaxInt64},
		{"9223372036854775808", 0, false, 1 << 63},
		{"-9223372036854775808", math.MinInt64, true, math.MinInt64},
		{"-9223372036854775809", 0, false, -1 << 63},
		{"99999999999999999999", 0, false, 1e20},
		{"0.1", 0, false, 0.1},
		{"1e-400", 0, false, 0},
	} {
		v := parse(t, test.raw).Root()
		if n, ok := v.Int(); n != test.n || ok != test.isInt {
			t.Errorf("%s: Int returned %d, %v", test.raw, n, ok)
		}
		if f, ok := v.Float(); f != test.f || !ok || math.Signbit(f) != math.Signbit(test.f) {
			t.Errorf("%s: Float returned %v, %v", test.raw, f, ok)
		}
	}
	s := parse(t, `"5"`).Root()
	_, isInt := s.Int()
	_, isFloat := s.Float()
	if isInt || isFloat {
		t.Error("Int or Float accepts a string")
	}
}

func TestValueText(t *testing.T) {
	for _, inside := range []string{
		``, `plain`, `\n`, `a\tb`, `\"\\\/\b\f\n\r\t`, `\u0041`, `\u00e9é\u20AC€`, `\ud83d\ude00😀`, `\u0000`, `\udbff\udfff`,
		`seven b\\`, `exactly8\n`, `a longer text with an escape late in it \u002D and more after it`,
	} {
		body := `"` + inside + `"`
		var want string
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		v := parse(t, body).Root()
		if v.Text() != want || string(v.AppendText([]byte("x"))) != "x"+want || string(v.Inside()) != inside {
			t.Errorf("%s: text %q, want %q", body, v.Text(), want)
		}
		if v.Escaped() != strings.Contains(inside, `\`) {
			t.Errorf("%s: Escaped returned %v", body, v.Escaped())
		}
		if !v.Is(want) || v.Is(want+"x") || want != "" && (v.Is(want[1:]) || v.Is("\x01"+want[1:])) {
			t.Errorf("%s: Is does not match exactly the text", body)
		}
		same, other := `"`+want+`"`, `"`+want+`!"`
		if marshalled, _ := json.Marshal(want); len(marshalled) > 0 {
			same = string(marshalled)
		}
		if !v.SameText(parse(t, same).Root()) || !parse(t, same).Root().SameText(v) {
			t.Errorf("SameText(%s, %s) returned false", body, same)
		}
		if !strings.ContainsAny(want, "\"\\\b\f\n\r\t\x00") && v.SameText(parse(t, other).Root()) {
			t.Errorf("SameText(%s, %s) returned true", body, other)
		}
	}
}

func TestPointer(t *testing.T) {
	d := parse(t, `{"foo":["bar","baz",[10]],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"~1":9,"*":11,"-":12,"\u0061rr":[]}`)
	for path, want := range map[string]string{
		"/foo":                        `["bar","baz",[10]]`,
		"/foo/0":                      `"bar"`,
		"/foo/2/0":                    `10`,
		"/":                           `0`,
		"/a~1b":                       `1`,
		"/c%d":                        `2`,
		"/e^f":                        `3`,
		"/g|h":                        `4`,
		`/i\j`:                        `5`,
		`/k"l`:                        `6`,
		"/ ":                          `7`,
		"/m~0n":                       `8`,
		"/~01":                        `9`,
		"/*":                          `11`,
		"/-":                          `12`,
		"/arr":                        `[]`,
		"foo":                         ``,
		"/foo/":                       ``,
		"/foo/3":                      ``,
		"/foo/00":                     ``,
		"/foo/-":                      ``,
		"/foo/-1":                     ``,
		"/foo/1e0":                    ``,
		"/foo/*":                      ``,
		"/foo/0/0":                    ``,
		"/m~n":                        ``,
		"/m~2n":                       ``,
		"/m~":                         ``,
		"/arr/0":                      ``,
		"/absent/x":                   ``,
		"/foo/9999999999999999999999": ``,
	} {
		if got := string(d.Pointer([]byte(path)).Raw()); got != want {
			t.Errorf("Pointer(%q) returned %q, want %q", path, got, want)
		}
	}
	if got := d.Pointer(nil).Offset(); got != 0 || !d.Pointer(nil).Exists() {
		t.Error("the empty pointer does not return the root")
	}
}

// TestPointerWalksArrayOnce reads the messages of an array one after the other. Pointer must not start at the first
// message each time.
func TestPointerWalksArrayOnce(t *testing.T) {
	const n = 2000
	d := parse(t, `{"messages":[`+strings.Repeat(`{"content":[{"text":1},{"text":2}]},`, n)+`0]}`)
	for i := range n {
		for j := range 2 {
			path := fmt.Sprintf("/messages/%d/content/%d/text", i, j)
			if got := string(d.Pointer([]byte(path)).Raw()); got != fmt.Sprint(j+1) {
				t.Fatalf("%s: got %q, want %d", path, got, j+1)
			}
		}
	}
	if d.Visited() > 12*n {
		t.Errorf("%d values visited", d.Visited())
	}
	// Going back to an earlier element also works.
	if got := string(d.Pointer([]byte("/messages/7/content/1/text")).Raw()); got != "2" {
		t.Errorf("earlier element: got %q, want 2", got)
	}
}
