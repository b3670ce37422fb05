package jsondoc_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// flat has the limits for documents with vectors.
var flat = jsondoc.Limits{FlatNumbers: true}

func TestFlatNumbers(t *testing.T) {
	var d jsondoc.Doc
	const doc = "{\"a\": [ 1, -2.5e-3 ,0\n], \"b\":[[1],[2,3]], \"c\":[], \"d\":[1,\"x\"], \"e\": 4}"
	if err := d.Parse([]byte(doc), flat); err != nil {
		t.Fatal(err)
	}
	root := d.Root()
	for name, want := range map[string]struct {
		raw string
		n   int
	}{
		"a": {"[ 1, -2.5e-3 ,0\n]", 0},
		"b": {"[[1],[2,3]]", 2},
		"c": {"[]", 0},
		"d": {`[1,"x"]`, 2}, // not only numbers
	} {
		if v := root.Get(name); string(v.Raw()) != want.raw || v.Len() != want.n {
			t.Errorf("%s: %q with %d elements, want %q with %d", name, v.Raw(), v.Len(), want.raw, want.n)
		}
	}
	if n, ok := root.Get("e").Int(); !ok || n != 4 {
		t.Errorf("e: %d, %v", n, ok)
	}
	if got := d.AppendCompact(nil); string(got) != `{"a":[1,-2.5e-3,0],"b":[[1],[2,3]],"c":[],"d":[1,"x"],"e":4}` {
		t.Errorf("compact: %s", got)
	}
}

// TestFlatNumbersAreStrict checks that FlatNumbers does not accept documents that are rejected without it.
func TestFlatNumbersAreStrict(t *testing.T) {
	for _, doc := range []string{
		"[1,]", "[1", "[1 2]", "[01]", "[-]", "[1e]", "[1e999]", "[.5]", "[1,,2]", "[1}", "[+1]", "[1]]", "[0x1]", "[1e99999]", "[NaN]", "[1]1",
	} {
		var d jsondoc.Doc
		if d.Parse([]byte(doc), jsondoc.Limits{}) == nil {
			t.Errorf("%s was accepted", doc)
		}
		if d.Parse([]byte(doc), flat) == nil {
			t.Errorf("%s was accepted with FlatNumbers", doc)
		}
		if jsondoc.ValidNumbers([]byte(doc)) {
			t.Errorf("ValidNumbers accepts %s", doc)
		}
	}
}

func TestFlatNumbersNeedNoNodes(t *testing.T) {
	var d jsondoc.Doc
	l := flat
	l.Nodes = 4
	if err := d.Parse([]byte("["+strings.Repeat("1,", 10_000)+"1]"), l); err != nil {
		t.Error(err)
	}
}

func FuzzFlatNumbers(f *testing.F) {
	for _, s := range []string{"[1,2]", "[ 1 , 2 ]", "[[1],[ ]]", `{"a":[1,{"b":[2.5e3]}]}`, "[]", "[1,", "1", `[1,"]"]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var plain, flattened jsondoc.Doc
		err, flatErr := plain.Parse(p, jsondoc.Limits{}), flattened.Parse(p, flat)
		if (err == nil) != (flatErr == nil) {
			t.Fatalf("%q: error %v, with FlatNumbers %v", p, err, flatErr)
		}
		if err == nil && string(plain.AppendCompact(nil)) != string(flattened.AppendCompact(nil)) {
			t.Fatalf("%q: compact forms differ", p)
		}
		numbers := err == nil && plain.Root().Kind() == jsondoc.Array && len(p) > 0 && p[0] == '[' && p[len(p)-1] == ']'
		for v := plain.Root().First(); v.Exists() && numbers; v = v.Next() {
			numbers = v.Kind() == jsondoc.Number
		}
		if got := jsondoc.ValidNumbers(p); got != numbers {
			t.Fatalf("ValidNumbers(%q) returned %v, want %v", p, got, numbers)
		}
	})
}

// TestFlatNumbersKeepTheTape checks that the values around arrays of numbers are the same with and without FlatNumbers.
func TestFlatNumbersKeepTheTape(t *testing.T) {
	values := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return "[" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"1", "-2.5", "3e-7"}), 0, 4).Draw(t, "numbers"), ", ") + "]"
		case 1:
			return `"text"`
		case 2:
			return "7"
		case 3:
			return `{"m":` + rapid.SampledFrom([]string{"[1]", "[]", `["a",1]`, "null"}).Draw(t, "member") + `,"n":2}`
		}
		return "[[1,2],[3],null]"
	})
	rapid.Check(t, func(t *rapid.T) {
		doc := "[" + strings.Join(rapid.SliceOfN(values, 0, 6).Draw(t, "values"), ",") + `,"end"]`
		doc = strings.Replace(doc, "[,", "[", 1)
		var plain, flattened jsondoc.Doc
		if err := plain.Parse([]byte(doc), jsondoc.Limits{}); err != nil {
			t.Fatal(doc, err)
		}
		if err := flattened.Parse([]byte(doc), flat); err != nil {
			t.Fatal(doc, err)
		}
		a, b := plain.Root().First(), flattened.Root().First()
		for ; a.Exists() && b.Exists(); a, b = a.Next(), b.Next() {
			if string(a.Raw()) != string(b.Raw()) {
				t.Fatalf("%s: element %s, with FlatNumbers %s", doc, a.Raw(), b.Raw())
			}
		}
		if a.Exists() || b.Exists() {
			t.Fatalf("%s: number of elements differs", doc)
		}
	})
}

func BenchmarkParseVectors(b *testing.B) {
	body := []byte("[" + strings.Repeat("["+strings.Repeat("-0.012345678,", 1535)+"0.1],", 9) + "[1]]")
	for _, l := range []jsondoc.Limits{{}, flat} {
		name := "tape"
		if l.FlatNumbers {
			name = "flat"
		}
		b.Run(name, func(b *testing.B) {
			var d jsondoc.Doc
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Parse(body, l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
