package jsondoc_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// tape describes every value of a document, or why it was rejected.
func tape(body []byte, l jsondoc.Limits) string {
	var d jsondoc.Doc
	if err := d.Parse(body, l); err != nil {
		return err.Error()
	}
	var b strings.Builder
	var describe func(v jsondoc.Value)
	describe = func(v jsondoc.Value) {
		fmt.Fprintf(&b, "%s %d %q %v\n", v.Kind(), v.Offset(), v.Raw(), v.Escaped())
		for m := v.First(); m.Exists(); m = m.Next() {
			describe(m)
		}
	}
	describe(d.Root())
	return b.String()
}

// long returns a string that is compared with those of a source.
func long(s string) string { return `"` + s + strings.Repeat(" padding", 8) + `"` }

// TestParseCopied parses documents with strings of another one, in order and not, changed, cut, and invalid.
func TestParseCopied(t *testing.T) {
	a, b, c := long("a"), long(`b \"quoted\" \\`), long("ä")
	source := `{"first":` + a + `,"list":[1,{"second":` + b + `}],"third":` + c + `,"again":` + a + `}`
	var strict, loose jsondoc.Doc
	if err := strict.Parse([]byte(source), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	invalid := long("\xff")
	if err := loose.Parse([]byte("["+invalid+"]"), jsondoc.Limits{Loose: true}); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		source,
		`[` + a + `,` + b + `,` + c + `]`,
		`[` + c + `,` + b + `,` + a + `,` + a + `,` + a + `]`,
		`{"m":` + b + `,"m":` + b + `}`,
		`{` + a + `:1}`,
		`[` + a[:len(a)-1] + ` and more"]`,
		`[` + a + `x]`,
		`[` + a[:len(a)-1],
		`[` + a,
		`[` + b[:len(b)-3] + `\"]`,
		`[` + long("a\n") + `]`,
		`[` + invalid + `]`,
	} {
		want := tape([]byte(body), jsondoc.Limits{})
		for name, s := range map[string]*jsondoc.Doc{"strict": &strict, "loose": &loose, "empty": {}} {
			if got := tape([]byte(body), jsondoc.Limits{Source: s}); got != want {
				t.Errorf("%s\nwith a %s source: %s\nwithout: %s", body, name, got, want)
			}
		}
	}
	// A document may be its own source by mistake.
	if err := strict.Parse([]byte(`[`+a+`]`), jsondoc.Limits{Source: &strict}); err != nil {
		t.Error(err)
	}
}

// FuzzParseCopied checks that a source changes nothing of the result.
func FuzzParseCopied(f *testing.F) {
	a, b := long("a"), long(`\u00e9`)
	f.Add([]byte("["+a+","+b+"]"), []byte("["+b+","+a+"]"), false)
	f.Add([]byte("["+a+"]"), []byte("["+a), false)
	f.Add([]byte("["+a+"\xff]"), []byte("["+a+"\xff]"), true)
	f.Fuzz(func(t *testing.T, source, body []byte, loose bool) {
		var s jsondoc.Doc
		if s.Parse(source, jsondoc.Limits{Loose: loose}) != nil {
			return
		}
		if got, want := tape(body, jsondoc.Limits{Source: &s}), tape(body, jsondoc.Limits{}); got != want {
			t.Errorf("source %q, document %q: got %s, want %s", source, body, got, want)
		}
	})
}

// TestCopiedSearchIsBounded parses a document of which no string is found. If the time grew with the product of the sizes
// of the two documents, the test would take minutes.
func TestCopiedSearchIsBounded(t *testing.T) {
	const n = 100_000
	list := func(s string) []byte { return []byte("[" + strings.Repeat(s+",", n-1) + s + "]") }
	var source, d jsondoc.Doc
	if err := source.Parse(list(long("source")), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Parse(list(long("another")), jsondoc.Limits{Source: &source}); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkParseCopied parses a document whose strings are those of another one, in the same order, and after tools that
// the other one has at its end.
func BenchmarkParseCopied(b *testing.B) {
	for _, c := range conversations[:5] {
		tools := []byte(`"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"x","description":`+long("a tool")+`},`, 20), ",") + `]`)
		first := bytes.Replace(c.body, []byte(`"messages"`), append(tools, `,"messages"`...), 1)
		last := append(append(append(bytes.Clone(c.body[:len(c.body)-1]), ','), tools...), '}')
		for name, body := range map[string][]byte{"in_order": last, "tools_first": first} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				var source, d jsondoc.Doc
				if err := source.Parse(last, jsondoc.Limits{}); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := d.Parse(body, jsondoc.Limits{Source: &source}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
