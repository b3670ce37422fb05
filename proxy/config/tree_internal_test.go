package config

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

// TestTreeFindsSameDuplicatesAsDecoder compares the tree's rules about duplicate names with those of the TOML library's
// decoder, which cannot replace them because it reports only the first duplicate.
func TestTreeFindsSameDuplicatesAsDecoder(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "a.b", "b.a", "a.b.a", "b.b"})
	value := rapid.SampledFrom([]string{"1", "{}", "{ a = 1 }", "{ a = 1, a = 2 }", "{ a.b = 1, a.a = 2 }", "{ a.b = 1, a = 2 }", "[]", "[1]", "[{ b = 1 }, { b = 1 }]", "[{ b = 1, b = 2 }]"})
	line := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			return "[" + name.Draw(t, "table") + "]"
		case 1:
			return "[[" + name.Draw(t, "array") + "]]"
		}
		return name.Draw(t, "name") + " = " + value.Draw(t, "value")
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(line, 1, 7).Draw(t, "lines"), "\n")
		d := &document{file: "x", data: []byte(text)}
		if d.parse() == nil {
			t.Fatalf("%v", d.errs)
		}
		var tree map[string]any
		err := toml.Unmarshal(d.data, &tree)
		if (err != nil) != (len(d.errs) > 0) {
			t.Fatalf("%s\nthe tree says %v, the library %v", text, d.errs, err)
		}
	})
}
