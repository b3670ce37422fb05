package json_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// Names with lengths around the size of a word, and members of members.
var names = []string{
	"a", "id", "abc", "role", "index", "type_x", "content", "contents", "reasoning", "tool_calls", "tool_call_id",
	"cache_control_x", "cache_control_xy", "reasoning_content", "reasoning_details", "function.name", "function.arguments",
	"deep.er.name", "deep.er.function", "",
}

var shape = json.NewShape(names...)

// slow finds with loops what Members should find: the values by their index in names, and the unknown names.
func slow(r *json.Reader, prefix string, found map[int]string, unknown *[]string) {
	for o := r.Object(); o.Next(); {
		name := prefix + string(r.Name())
		inner := false
		for k, known := range names {
			if known == name && !strings.Contains(string(r.Name()), ".") {
				if raw := r.Raw(); raw != nil && string(raw) != "null" {
					found[k] = string(raw)
				}
				name = ""
				inner = true
			} else if strings.HasPrefix(known, name+".") && !strings.Contains(string(r.Name()), ".") {
				inner = true
			}
		}
		switch {
		case name == "":
		case inner && r.Kind() == json.Object:
			slow(r, name+".", found, unknown)
		case !inner && r.Kind() != json.Null:
			*unknown = append(*unknown, string(r.Name()))
		}
	}
}

// check compares Members with loops over the same document, for different bytes after the document in memory.
func check(t *testing.T, doc string) {
	t.Helper()
	for _, behind := range []string{"", "\x00", `"`, `1`, `,"id":2}`, `":1}`} {
		memory := append([]byte(doc), strings.Repeat(behind, 64)...)
		checkMembers(t, doc, memory[:len(doc)])
	}
}

func checkMembers(t *testing.T, doc string, document []byte) {
	t.Helper()
	var r json.Reader
	r.Reset([]byte(doc))
	var (
		found   = map[int]string{}
		unknown []string
	)
	slow(&r, "", found, &unknown)
	want := r.End()

	var m json.Members
	r.Reset(document)
	object := r.Kind() == json.Object
	ok := r.Members(&m, shape)
	got := r.End()
	if (got == nil) != (want == nil) || want != nil && got.Error() != want.Error() {
		t.Fatalf("%q: Members says %v, loops say %v", doc, got, want)
	}
	if want != nil {
		// ResetChecked must not panic on an invalid document either.
		r.ResetChecked(document)
		r.Members(&m, shape)
		return
	}
	checkChecked(t, doc, &m)
	if ok != object {
		t.Errorf("%q: Members returns %v", doc, ok)
	}
	if m.Unknown() != len(unknown) {
		t.Fatalf("%q: %d unknown members, want %q", doc, m.Unknown(), unknown)
	}
	for i, name := range unknown {
		if string(m.UnknownName(i)) != name {
			t.Errorf("%q: unknown member %q, want %q", doc, m.UnknownName(i), name)
		}
	}
	for k, name := range names {
		raw, has := found[k]
		if m.Has(k) != has || m.Seen()>>k&1 == 1 != has || string(m.Raw(k)) != raw {
			t.Errorf("%q: %s is %q, want %q", doc, name, m.Raw(k), raw)
		}
		v := json.Value(raw)
		if !has {
			v = nil
		}
		if m.Kind(k) != v.Kind() || !bytes.Equal(m.Inside(k), v.Inside()) || !bytes.Equal(m.Text(k), v.Text()) || (m.Inside(k) == nil) != (v.Inside() == nil) {
			t.Errorf("%q: %s is %q of kind %d", doc, name, m.Text(k), m.Kind(k))
		}
		if v.Kind() == json.String && m.Escaped(k) != strings.Contains(raw, `\`) {
			t.Errorf("%q: %s: escaped is %v", doc, name, m.Escaped(k))
		}
		n, isInt := m.Int(k)
		wantN, wantInt := v.Int()
		b, isBool := m.Bool(k)
		wantB, wantBool := v.Bool()
		if n != wantN || isInt != wantInt || b != wantB || isBool != wantBool {
			t.Errorf("%q: %s is the number %d, %v", doc, name, n, b)
		}
	}
}

// checkChecked checks that a valid document is read the same with ResetChecked.
func checkChecked(t *testing.T, doc string, m *json.Members) {
	t.Helper()
	var (
		r json.Reader
		c json.Members
	)
	r.ResetChecked([]byte(doc))
	r.Members(&c, shape)
	if err := r.End(); err != nil || c.Seen() != m.Seen() || c.Unknown() != m.Unknown() {
		t.Fatalf("%q: checked, it has the members %b and not %b: %v", doc, c.Seen(), m.Seen(), err)
	}
	for k, name := range names {
		if c.Kind(k) != m.Kind(k) || !bytes.Equal(c.Raw(k), m.Raw(k)) || !bytes.Equal(c.Text(k), m.Text(k)) {
			t.Errorf("%q: checked, %s is %q and not %q", doc, name, c.Raw(k), m.Raw(k))
		}
	}
}

var memberDocs = []string{
	`{}`, ` { } `, `[]`, `7`, `"text"`, `null`, ``, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a":1]`, `{a:1}`, `{"a":1}x`,
	`{"a":1}`, `{"a":0}`, `{"a":01}`, `{"a":-0.5e3}`, `{"a":12}`, `{"a":1.5}`, `{"a":1e2}`, `{"a":-}`, `{"a":+1}`, `{"a":1a}`, `{"a":1"b":2}`,
	`{"a":true,"id":false,"abc":null}`, `{"a":tru}`, `{"a":nul}`, `{"a":nullx}`,
	`{"role":"user","content":"The quick brown fox jumps over the lazy dog and further"}`,
	`{"role":"us\"er","content":"a\\","index":"\u00e9","type_x":"\ud83d\ude00"}`, `{"role":"\x"}`, `{"role":"a` + "\n" + `b"}`, `{"role":"a`,
	`{"content":[{"role":"inner","deep":{"a":[]}},[[]],{}],"a":{"role":"inner"},"role":1}`,
	`{"function":{"name":"n","arguments":"{\"a\":1}","more":1},"tool_calls":[],"tool_call_id":"x"}`,
	`{"function":null,"deep":5}`, `{"function":[{"name":"no"}]}`, `{"deep":{"er":{"name":1,"function":{"x":{}}},"name":2}}`, `{"deep":{"er":[]}}`, `{"deep":{}}`,
	`{"function.name":1,"deep.er.name":2}`, `{"cache_control_x":1,"cache_control_xy":2,"cache_control_xyz":3,"reasoning_content":4,"reasoning_details":5}`,
	`{"reasoning_detailz":1,"contentx":1,"conten":2,"contents":3,"ROLE":1}`, `{"r\u006fle":1,"unkn\u006fwn":2,"r\ole":3}`, `{"":1}`,
	`{"index":12,"a":007,"role":null,"id":nulx,"abc":5}`, `{"index":12,"a":7,"role":null,"unknown":null,"content":0,"id":4 ,"abc":5}`,
	`{"unknown":1,"other":null,"third":"x"}`, `{"a":1,"a":2}`, `{"a":1,"a":null}`, `{"a":null,"a":1}`,
	"{ \"a\" : 1 ,\n\t\"role\" : \"user\" ,\r\n \"function\" : { \"name\" : [ ] , \"x\" : { } } , \"y\" : [ 1 , 2 ] } ",
	strings.Repeat(`{"a":`, json.MaxDepth) + `1` + strings.Repeat(`}`, json.MaxDepth), strings.Repeat(`{"a":`, json.MaxDepth+1),
	`{"a":` + strings.Repeat(`[`, json.MaxDepth-1) + strings.Repeat(`]`, json.MaxDepth-1) + `}`, `{"a":` + strings.Repeat(`[`, json.MaxDepth),
}

func TestMembers(t *testing.T) {
	for _, doc := range memberDocs {
		check(t, doc)
		// The same in the middle of a document, where more than 32 bytes follow and every fast path is taken.
		check(t, `{"x":"`+strings.Repeat("y", 40)+`","index":`+doc+`,"z":"`+strings.Repeat("\u00e9", 40)+`"}`)
	}
}

// TestUnknownMembersInSeveralObjects checks that the member after an unknown member of one object is not mistaken for a
// member of the next object, which has an unknown member as well.
func TestUnknownMembersInSeveralObjects(t *testing.T) {
	padding := `,"z":"` + strings.Repeat("y", 80) + `"}`
	for _, outer := range names {
		for _, inner := range names {
			outer, inner := outer[strings.LastIndex(outer, ".")+1:], inner[strings.LastIndex(inner, ".")+1:]
			check(t, `{"new":1,"`+outer+`":"1","function":{"newer":2,"`+inner+`":"2","newest":3},"deep":{"x":1,"er":{"x":2,"`+inner+`":"3"},"`+outer+`":"x"}`+padding)
		}
	}
}

func TestMembersOfStringsOfEveryLength(t *testing.T) {
	for n := range 100 {
		s := strings.Repeat("x", n)
		check(t, `{"content":"`+s+`","`+s+`":1,"role":"`+s+`\n`+s+`"}`)
	}
}

func TestMembersWithinALoop(t *testing.T) {
	var (
		r    json.Reader
		m    json.Members
		said []string
	)
	r.Reset([]byte(`[{"role":"a","id":[1,{}]},null,{"role":"b","deep":{"er":{"name":3}}},{}]`))
	for a := r.Array(); a.Next(); {
		ok := r.Members(&m, shape)
		said = append(said, fmt.Sprintf("%v %s %s %s", ok, m.Text(3), m.Raw(1), m.Raw(17)))
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(said, "; "), "true a [1,{}] ; false   ; true b  3; true   "; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	if r.Members(&m, shape) || m.Seen() != 0 {
		t.Error("Members found members after the end")
	}
}

func TestRereadMember(t *testing.T) {
	var (
		r, again json.Reader
		m        json.Members
		said     string
	)
	r.Reset([]byte(`{"role":"a","tool_calls":[1,{"x":[2]},"3"],"content":"Hi"}`))
	r.Members(&m, shape)
	m.Read(9, &again)
	for a := again.Array(); a.Next(); {
		said += string(again.Raw()) + ";"
	}
	if said != `1;{"x":[2]};"3";` || again.Failed() || again.Kind() != json.Absent {
		t.Errorf("read %q", said)
	}
	m.Read(1, &again)
	if again.Kind() != json.Absent || again.Raw() != nil {
		t.Error("Read read an absent member")
	}
}

func TestShapeFindsOnlyItsNames(t *testing.T) {
	words := []string{"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "abcdefgh", "abcdefghi", "abcdefghijklmnop", "abcdefghijklmnopq", "user", "assistant"}
	s := json.NewShape(words...)
	for k, word := range words {
		if got := s.Find([]byte(word)); got != k {
			t.Errorf("Find(%q) is %d, want %d", word, got, k)
		}
	}
	for _, word := range []string{"", "b", "ab\x00", "abcd\x00", "abcdefgx", "abcdefgh\x00", "abcdefghijklmnoq", "abcdefghijklmnopr", "USER", "assistent", strings.Repeat("a", 40)} {
		if got := s.Find([]byte(word)); got != -1 {
			t.Errorf("Find(%q) is %d", word, got)
		}
	}
}

// checkBehind checks that the bytes after a document in memory, which the reader loads, do not change the result.
func checkBehind(t *testing.T, doc string) {
	t.Helper()
	var r json.Reader
	read := func(data []byte) (said string) {
		r.Reset(data)
		for a := r.Array(); a.Next(); {
			said += string(r.Raw()) + ";"
		}
		if err := r.End(); err != nil {
			said += err.Error()
		}
		return said
	}
	want := read([]byte(doc)[:len(doc):len(doc)])
	for _, behind := range []string{`"`, `}`, `]`, `0`, `e`, `,`, ` `, `":1}`, `\`, `e1`} {
		data := append([]byte(doc), strings.Repeat(behind, 64)...)
		if got := read(data[:len(doc)]); got != want {
			t.Errorf("%q before %q: read %q, want %q", doc, behind, got, want)
		}
	}
}

func TestTrailingBytesAreIgnored(t *testing.T) {
	for _, doc := range memberDocs {
		for n := range min(len(doc), 100) + 1 {
			checkBehind(t, "["+doc[:n])
			checkBehind(t, "[1,"+doc[n:]+"]")
		}
	}
}

func FuzzTrailingBytes(f *testing.F) {
	for _, doc := range memberDocs {
		f.Add("[" + doc + "]")
	}
	f.Fuzz(checkBehind)
}

// TestEndsOfCheckedStrings puts quotes and backslashes at every offset of the words that are searched.
func TestEndsOfCheckedStrings(t *testing.T) {
	for before := range 80 {
		for _, escapes := range []string{``, `\"`, `\\`, `\\\"`, `\n`, `\"\"`, `\"x\\`, `\\\\\"`, "é\\", `\u00e9\"`} {
			for _, after := range []int{0, 1, 7, 70} {
				check(t, `{"content":"`+strings.Repeat("x", before)+escapes+strings.Repeat("y", after)+escapes+`","role":"user","a":[]}`)
			}
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add(`{"content":"` + strings.Repeat(`He said \"no\" and left C:\\. `, 9) + `","a":1}`)
	for _, doc := range memberDocs {
		f.Add(doc)
	}
	f.Fuzz(check)
}
