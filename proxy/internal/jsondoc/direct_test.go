package jsondoc_test

import (
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

func TestDirectEdits(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		record           func(e *jsondoc.Edits, root jsondoc.Value)
	}{
		{"set a value", `{"a": 1, "b":2}`, `{"a": [1,2], "b":2}`, func(e *jsondoc.Edits, root jsondoc.Value) { e.SetValue(root.Get("a"), "[1", ",2]") }},
		{"rename a member and set its value", `{"a":1}`, `{"z":2}`, func(e *jsondoc.Edits, root jsondoc.Value) {
			e.RenameMember(root.Get("a"), "z")
			e.SetValue(root.Get("a"), "2")
		}},
		{"delete two adjacent members", `{"x":0, "a":1,"b":2}`, `{"x":0}`, func(e *jsondoc.Edits, root jsondoc.Value) {
			e.DeleteValue(root.Get("b"))
			e.DeleteValue(root.Get("a"))
		}},
		{"delete all members and add one", `{"a":1,"b":2}`, `{"c":3}`, func(e *jsondoc.Edits, root jsondoc.Value) {
			e.AddMember(root, "c", "3")
			e.DeleteValue(root.Get("a"))
			e.DeleteValue(root.Get("b"))
		}},
		{"add members to several objects", `[{"a":1},{"a":2},{}]`, `[{"a":1,"b":"x","c":true},{"a":2,"b":"y"},{"b":"z"},null]`,
			func(e *jsondoc.Edits, root jsondoc.Value) {
				first := root.First()
				e.AddElement(root, "null")
				e.AddMember(first.Next().Next(), "b", `"z"`)
				e.AddMember(first, "b", `"x"`)
				e.AddMember(first.Next(), "b", `"y"`)
				e.AddMember(first, "c", "true")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d jsondoc.Doc
			if err := d.Parse([]byte(c.body), jsondoc.Limits{}); err != nil {
				t.Fatal(err)
			}
			var e jsondoc.Edits
			e.Reset(&d)
			c.record(&e, d.Root())
			got, err := e.Apply(nil)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// TestDirectEditsHaveNoLimit records more edits than a plugin is allowed to.
func TestDirectEditsHaveNoLimit(t *testing.T) {
	const n = 70_000
	body := slices.Repeat([]byte(`{},`), n)
	body = append(append([]byte{'['}, body[:len(body)-1]...), ']')
	var d jsondoc.Doc
	if err := d.Parse(body, jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	var e jsondoc.Edits
	e.Reset(&d)
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		e.AddMember(v, "a", "1")
	}
	got, err := e.Apply(nil)
	if want := len(body) + n*len(`"a":1`); err != nil || len(got) != want {
		t.Errorf("%d bytes, error %v, want %d bytes", len(got), err, want)
	}
}

func TestLowerInt(t *testing.T) {
	body := []byte(`{"a":32000,"b":[1]}`)
	var d jsondoc.Doc
	if err := d.Parse(body, jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	v := d.Root().Get("a")
	v.LowerInt(512)
	if n, ok := v.Int(); !ok || n != 512 || string(body) != `{"a":512  ,"b":[1]}` {
		t.Errorf("%d %v in %s", n, ok, body)
	}
	if got := d.AppendCompact(nil); string(got) != `{"a":512,"b":[1]}` {
		t.Errorf("compact: %s", got)
	}
}

func TestSetNull(t *testing.T) {
	body := []byte(`{"a":"msg_1","b":["\u0061"]}`)
	var d jsondoc.Doc
	if err := d.Parse(body, jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	d.Root().Get("a").SetNull()
	d.Root().Get("b").First().SetNull()
	if v := d.Root().Get("a"); v.Kind() != jsondoc.Null || string(body) != `{"a":null   ,"b":[null    ]}` {
		t.Errorf("%v in %s", v.Kind(), body)
	}
	if got := d.AppendCompact(nil); string(got) != `{"a":null,"b":[null]}` {
		t.Errorf("compact: %s", got)
	}
}

func TestHasName(t *testing.T) {
	var d jsondoc.Doc
	if err := d.Parse([]byte(`{"a":["bb",{"ccc":{"d\u0064dd":1}}],"eeeee":"ffffff"}`), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "ccc": true, "dddd": true, "eeeee": true, "bb": false, "ffffff": false, "": false} {
		passed := 0
		got := d.HasName(1<<len(name), func(v jsondoc.Value) bool {
			passed++
			return v.Is(name)
		})
		if got != want || passed > 2 {
			t.Errorf("%q: %v after %d names, want %v", name, got, passed, want)
		}
	}
}

func TestRepairSurrogates(t *testing.T) {
	for body, want := range map[string]string{
		`["\ud83d"]`:               `["\ufffd"]`,
		`["\uDE00x\ud83d\ude00"]`:  `["\ufffdx\ud83d\ude00"]`,
		`["\ud83d\ud83d\ude00"]`:   `["\ufffd\ud83d\ude00"]`,
		`["\\ud83d","\\\ud83d\n"]`: `["\\ud83d","\\\ufffd\n"]`,
		`["\ud83d\x"]`:             `["\ufffd\x"]`,
		`["\ud83`:                  `["\ud83`,
		`["\`:                      `["\`,
	} {
		got := []byte(body)
		offsets := jsondoc.RepairSurrogates(got)
		if string(got) != want || (len(offsets) > 0) != (body != want) {
			t.Errorf("%s becomes %s at %d, want %s", body, got, offsets, want)
		}
	}
}

func TestAt(t *testing.T) {
	const body = ` {"a" : [1, {"bc":"x"}], "d":"yy"} `
	var d jsondoc.Doc
	if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	root := d.Root()
	inner := root.Get("a").First().Next()
	for offset, want := range map[int]jsondoc.Value{
		1: root, 2: root.Get("a"), 9: root.Get("a").First(), 10: root.Get("a"), 12: inner, 14: inner.Get("bc"), 19: inner.Get("bc"),
		21: inner, 22: root.Get("a"), 29: root.Get("d"), 33: root,
	} {
		if got := d.At(offset); got != want {
			t.Errorf("at %d (%c) is %s, want %s", offset, body[offset], got.Raw(), want.Raw())
		}
	}
}
