package jsondoc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// runScript runs edits, one per line: "set /path value", "delete /path", "rename /path name" or "replace /path old
// new". It returns the edited document and the status of each edit.
func runScript(tb testing.TB, body, lines string) (out string, statuses []abi.Status) {
	tb.Helper()
	var e jsondoc.Edits
	e.Reset(parse(tb, body))
	for line := range strings.SplitSeq(lines, "\n") {
		w := strings.Fields(line)
		var s abi.Status
		switch w[0] {
		case "set":
			s = e.Set([]byte(w[1]), []byte(w[2]))
		case "delete":
			s = e.Delete([]byte(w[1]))
		case "rename":
			s = e.Rename([]byte(w[1]), []byte(w[2]))
		case "replace":
			s = e.Replace([]byte(w[1]), []byte(w[2]), []byte(w[3]))
		default:
			tb.Fatalf("unknown edit: %s", line)
		}
		statuses = append(statuses, s)
	}
	got, err := e.Apply([]byte("<"))
	if err != nil || got[0] != '<' {
		tb.Fatalf("Apply: %q, %v", got, err)
	}
	parse(tb, string(got[1:]))
	return string(got[1:]), statuses
}

// covers: C48
func TestEdits(t *testing.T) {
	const (
		ok      = abi.StatusOK
		absent  = abi.StatusAbsent
		refused = abi.StatusRefused
	)
	type statuses = []abi.Status
	for _, test := range []struct {
		name, body, script, want string
		statuses                 statuses
	}{
		{"set a member", `{"model":"a","n":1}`, `set /model "b"`, `{"model":"b","n":1}`, statuses{ok}},
		{"set keeps the layout around it", "{ \"model\" :  \"a\" ,\n \"n\":1 }", `set /model "b"`, "{ \"model\" :  \"b\" ,\n \"n\":1 }", statuses{ok}},
		{"set adds the last member", `{"a":1}`, `set /b {"c":[]}`, `{"a":1,"b":{"c":[]}}`, statuses{ok}},
		{"set adds the only member", `{ }`, `set /b 2`, `{ "b":2}`, statuses{ok}},
		{"set adds a name that must be escaped", `{}`, `set /a"~1\ 2`, `{"a\"/\\":2}`, statuses{ok}},
		{"set finds an escaped name", `{"m\u006fdel":1}`, `set /model 2`, `{"m\u006fdel":2}`, statuses{ok}},
		{"set adds two members", `{"a":[]}`, "set /b 1\nset /c 2", `{"a":[],"b":1,"c":2}`, statuses{ok, ok}},
		{"set adds a member twice", `{}`, "set /b 1\nset /c 2\nset /b 3", `{"c":2,"b":3}`, statuses{ok, ok, ok}},
		{"set does not add parents", `{"a":{}}`, "set /b/c 1\nset /a/b/c 1", `{"a":{}}`, statuses{absent, absent}},
		{"set adds nothing to a scalar", `{"a":1,"b":"x","c":null}`, "set /a/b 1\nset /b/0 1\nset /c/d 1", `{"a":1,"b":"x","c":null}`, statuses{absent, absent, absent}},
		{"set an element", `[1,2,3]`, `set /1 {}`, `[1,{},3]`, statuses{ok}},
		{"set beyond the end", `[1,2,3]`, `set /3 4`, `[1,2,3]`, statuses{absent}},
		{"set adds elements", `{"a":[1],"b":[]}`, "set /a/- 2\nset /a/- 3\nset /b/- {}", `{"a":[1,2,3],"b":[{}]}`, statuses{ok, ok, ok}},
		{"set a member called minus", `{"a":{}}`, "set /a/- 1", `{"a":{"-":1}}`, statuses{ok}},
		{"set every element", `{"m":[1,"x",{}]}`, `set /m/* 0`, `{"m":[0,0,0]}`, statuses{ok}},
		{"set adds or sets in every element", `{"m":[{"a":1},{},{"b":2},3]}`, `set /m/*/a 9`, `{"m":[{"a":9},{"a":9},{"b":2,"a":9},3]}`, statuses{ok}},
		{"set in every element of every array", `[[{"a":1},{"a":2}],[],[{"a":3}]]`, `set /*/*/a 0`, `[[{"a":0},{"a":0}],[],[{"a":0}]]`, statuses{ok}},
		{"set in no element", `{"m":[]}`, `set /m/*/a 9`, `{"m":[]}`, statuses{absent}},
		{"set a member called star", `{"m":{"*":1,"x":2}}`, `set /m/* 9`, `{"m":{"*":9,"x":2}}`, statuses{ok}},
		{"set an invalid value", `{"a":1}`, "set /a {\nset /a 1e999\nset /a {\"x\":1,\"x\":2}", `{"a":1}`, statuses{refused, refused, refused}},

		{"delete the first member", `{"a":1,"b":2,"c":3}`, `delete /a`, `{"b":2,"c":3}`, statuses{ok}},
		{"delete a member in the middle", `{"a":1,"b":2,"c":3}`, `delete /b`, `{"a":1,"c":3}`, statuses{ok}},
		{"delete the last member", `{"a":1,"b":2,"c":3}`, `delete /c`, `{"a":1,"b":2}`, statuses{ok}},
		{"delete all members", `{"a":1,"b":2,"c":3}`, "delete /b\ndelete /a\ndelete /c", `{}`, statuses{ok, ok, ok}},
		{"delete the first two", `{"a":1, "b":2, "c":3}`, "delete /a\ndelete /b", `{"c":3}`, statuses{ok, ok}},
		{"delete the last two", `{"a":1 , "b":2 , "c":3 }`, "delete /c\ndelete /b", `{"a":1   }`, statuses{ok, ok}},
		{"delete the first and the last", `[1,2,3]`, "delete /0\ndelete /2", `[2]`, statuses{ok, ok}},
		{"delete every element", `{"a":[1,2, 3 ]}`, "delete /a/*", `{"a":[ ]}`, statuses{ok}},
		{"delete in every element", `{"m":[{"r":1,"x":2},{"x":2,"r":1},{"r":1},{}]}`, "delete /m/*/r", `{"m":[{"x":2},{"x":2},{},{}]}`, statuses{ok}},
		{"delete absent values", `{"a":1}`, "delete /b\ndelete /a/b\ndelete /0", `{"a":1}`, statuses{absent, absent, absent}},
		{"delete all, then add", `{"a":1,"b":2}`, "delete /a\nset /c 3\ndelete /b", `{"c":3}`, statuses{ok, ok, ok}},
		{"delete an element, then add", `[1]`, "delete /0\nset /- 3", `[3]`, statuses{ok, ok}},

		{"rename", `{"max_tokens":5,"n":1}`, "rename /max_tokens max_completion_tokens", `{"max_completion_tokens":5,"n":1}`, statuses{ok}},
		{"rename in every element", `[{"a":1},{"b":1},{"a":{"a":2}}]`, "rename /*/a z", `[{"z":1},{"b":1},{"z":{"a":2}}]`, statuses{ok}},
		{"rename to an existing name", `{"a":1,"b":2}`, "rename /a b", `{"a":1,"b":2}`, statuses{refused}},
		{"rename to an existing, escaped name", `{"a":1,"\u0062":2}`, "rename /a b", `{"a":1,"\u0062":2}`, statuses{refused}},
		{"rename to a deleted name", `{"a":1,"b":2}`, "delete /b\nrename /a b", `{"a":1}`, statuses{ok, refused}},
		{"rename to its own name", `{"a":1}`, "rename /a a", `{"a":1}`, statuses{ok}},
		{"rename in the elements that permit it", `[{"a":1,"z":2},{"a":3}]`, "rename /*/a z", `[{"a":1,"z":2},{"z":3}]`, statuses{ok}},
		{"rename an element", `[1]`, "rename /0 a", `[1]`, statuses{refused}},
		{"rename the root", `{}`, "rename / a", `{}`, statuses{absent}},
		{"rename an absent member", `{"a":1}`, "rename /b c", `{"a":1}`, statuses{absent}},
		{"rename two to one name", `{"a":1,"b":2}`, "rename /a c\nrename /b c", `{"c":1,"b":2}`, statuses{ok, refused}},
		{"rename to an added name", `{"a":1}`, "set /c 1\nrename /a c", `{"a":1,"c":1}`, statuses{ok, refused}},
		{"add a name that another member was renamed to", `{"a":1}`, "rename /a c\nset /c 1", `{"c":1}`, statuses{ok, refused}},
		{"rename twice", `{"a":1}`, "rename /a b\nrename /a c", `{"c":1}`, statuses{ok, ok}},
		{"rename and set", `{"a":1}`, "rename /a b\nset /a 2", `{"b":2}`, statuses{ok, ok}},
		{"rename and delete", `{"a":1,"x":2}`, "rename /a b\ndelete /a", `{"x":2}`, statuses{ok, ok}},

		{"replace equal values", `{"m":[{"role":"developer"},{"role":"user"},{"role":"develop\u0065r"}]}`, `replace /m/*/role "developer" "system"`,
			`{"m":[{"role":"system"},{"role":"user"},{"role":"system"}]}`, statuses{ok}},
		{"replace with an escaped old value", `["developer"]`, `replace /0 "d\u0065veloper" "system"`, `["system"]`, statuses{ok}},
		{"replace a different value", `{"a":"x"}`, `replace /a "y" "z"`, `{"a":"x"}`, statuses{absent}},
		{"replace an absent value", `{"a":"x"}`, `replace /b "y" "z"`, `{"a":"x"}`, statuses{absent}},
		{"replace numbers by value", `[1,1.0,10e-1,2,"1"]`, `replace /* 1 0`, `[0,0,0,2,"1"]`, statuses{ok}},
		{"replace large integers by digits", `[9007199254740993,9007199254740992]`, `replace /* 9007199254740993 0`, `[0,9007199254740992]`, statuses{ok}},
		{"replace literals", `[null,true,false]`, "replace /* null 0\nreplace /* true 1\nreplace /* false 2", `[0,1,2]`, statuses{ok, ok, ok}},
		{"replace with an object", `[null,1]`, `replace /* null {"a":1}`, `[{"a":1},1]`, statuses{ok}},
		{"replace containers", `[{},[]]`, "replace /0 {} 1\nreplace /1 [] 1", `[{},[]]`, statuses{refused, refused}},
		{"replace with invalid values", `[1]`, "replace /0 1 {\nreplace /0 x 1", `[1]`, statuses{refused, refused}},

		{"the later of two edits wins", `{"a":1}`, "set /a 2\nset /a 3", `{"a":3}`, statuses{ok, ok}},
		{"set, then delete", `{"a":1}`, "set /a 2\ndelete /a", `{}`, statuses{ok, ok}},
		{"delete, then set", `{"a":1}`, "delete /a\nset /a 2", `{"a":2}`, statuses{ok, ok}},
		{"edits do not see each other", `{}`, "set /a {}\nset /a/b 1\ndelete /a", `{"a":{}}`, statuses{ok, absent, absent}},
		{"outer set hides inner edits", `{"a":{"b":{"c":1}},"z":0}`, "set /a/b/c 2\nset /a 3\ndelete /a/b\nset /a/x 1\nrename /a/b y", `{"a":3,"z":0}`, statuses{ok, ok, ok, ok, ok}},
		{"outer delete hides inner edits", `{"a":{"b":[1,2]},"z":0}`, "delete /a\nset /a/b/- 3\nset /a/b/0 2", `{"z":0}`, statuses{ok, ok, ok}},
		{"a path that is not a JSON Pointer", `{"a":1}`, "set a 1\ndelete a\nset /a~ 1\nrename /a~2 b", `{"a":1}`, statuses{refused, refused, refused, refused}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, statuses := runScript(t, test.body, test.script)
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if fmt.Sprint(statuses) != fmt.Sprint(test.statuses) {
				t.Errorf("statuses %v, want %v", statuses, test.statuses)
			}
		})
	}
}

func TestEditsOfRoot(t *testing.T) {
	var e jsondoc.Edits
	e.Reset(parse(t, ` {"a":1} `))
	got := fmt.Sprint(e.Set([]byte("/a"), []byte("2")), e.Set(nil, []byte(" [ 1 ] ")), e.Delete(nil), e.Rename(nil, []byte("a")))
	if want := fmt.Sprint(abi.StatusOK, abi.StatusOK, abi.StatusRefused, abi.StatusRefused); got != want {
		t.Errorf("statuses %s, want %s", got, want)
	}
	if got, err := e.Apply(nil); string(got) != ` [1] ` || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestEditsEnforceLimits(t *testing.T) {
	d := parse(t, `{"m":[`+strings.Repeat(`{"a":1},`, 999)+`{"a":1}]}`)
	path, one := []byte("/m/*/a"), []byte("1")
	want := func(t *testing.T, got, want abi.Status) {
		t.Helper()
		if got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	t.Run("edits", func(t *testing.T) {
		var e jsondoc.Edits
		e.Reset(d)
		for range jsondoc.MaxEdits {
			want(t, e.Set([]byte("/m/0/a"), one), abi.StatusOK)
		}
		want(t, e.Set([]byte("/m/0/a"), one), abi.StatusTooLarge)
		if e.Len() != jsondoc.MaxEdits {
			t.Errorf("Len returned %d", e.Len())
		}
	})
	t.Run("targets", func(t *testing.T) {
		if testing.Short() {
			t.Skip("parses a document of several hundred thousand values")
		}
		many := parse(t, "["+strings.Repeat("0,", jsondoc.MaxTargets)+"0]")
		var e jsondoc.Edits
		e.Reset(many)
		want(t, e.Delete([]byte("/*")), abi.StatusTooLarge)
		want(t, e.Delete([]byte("/0")), abi.StatusOK)
		if out, err := e.Apply(nil); err != nil || len(out) != len("[0")+2*jsondoc.MaxTargets-1 {
			t.Errorf("the rejected edit had an effect: %d bytes, error %v", len(out), err)
		}
	})
	t.Run("bytes of one edit", func(t *testing.T) {
		if testing.Short() {
			t.Skip("records edits of several megabytes")
		}
		var e jsondoc.Edits
		e.Reset(d)
		large := []byte(`"` + strings.Repeat("x", jsondoc.MaxEditBytes) + `"`)
		want(t, e.Set(path, large), abi.StatusTooLarge)
		want(t, e.Replace(path, large, one), abi.StatusTooLarge)
	})
	t.Run("bytes of one edit at all targets", func(t *testing.T) {
		var e jsondoc.Edits
		e.Reset(d)
		piece := []byte(`"` + strings.Repeat("x", jsondoc.MaxEditBytes/999) + `"`)
		want(t, e.Set(path, piece), abi.StatusTooLarge)
		want(t, e.Set([]byte("/m/0/a"), piece), abi.StatusOK)
	})
	t.Run("path", func(t *testing.T) {
		var e jsondoc.Edits
		e.Reset(d)
		want(t, e.Delete([]byte(strings.Repeat("/a", jsondoc.MaxEditPath))), abi.StatusTooLarge)
	})
	t.Run("names", func(t *testing.T) {
		var e jsondoc.Edits
		e.Reset(d)
		long := []byte(strings.Repeat("n", abi.MaxName+1))
		want(t, e.Rename(path, long), abi.StatusTooLarge)
		want(t, e.Rename(path, long[1:]), abi.StatusOK)
		want(t, e.Set(append([]byte("/"), long...), one), abi.StatusTooLarge)
		want(t, e.Rename(path, []byte("\xff")), abi.StatusRefused)
		want(t, e.Set([]byte("/\xff"), one), abi.StatusRefused)
	})
}

func TestEditsBelongToOneDocument(t *testing.T) {
	d := parse(t, `{"a":1}`)
	var e jsondoc.Edits
	if e.Set([]byte("/a"), []byte("2")) != abi.StatusRefused {
		t.Error("Set without a document was recorded")
	}
	if _, err := e.Apply(nil); err == nil {
		t.Error("Apply without a document returned no error")
	}
	e.Reset(d)
	if e.Set([]byte("/a"), []byte("2")) != abi.StatusOK {
		t.Error("Set was not recorded")
	}
	first, err := e.Apply(nil)
	second, again := e.Apply(nil)
	if string(first) != `{"a":2}` || string(second) != string(first) || err != nil || again != nil {
		t.Errorf("Apply returned %s, %v, and again %s, %v", first, err, second, again)
	}
	if e.Set([]byte("/a"), []byte("3")) != abi.StatusRefused {
		t.Error("Set after Apply was recorded")
	}
	e.Reset(d)
	if err := d.Parse([]byte(`[]`), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	if e.Delete([]byte("/a")) != abi.StatusRefused {
		t.Error("Delete after the document changed was recorded")
	}
	if out, err := e.Apply(nil); err == nil {
		t.Errorf("edits of another document were applied: %s", out)
	}
	e.Reset(d)
	if out, err := e.Apply(nil); string(out) != `[]` || err != nil {
		t.Errorf("Apply without edits returned %s, %v", out, err)
	}
}
