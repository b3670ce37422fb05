package config

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

// TestTreeFindsSameDuplicatesAsDecoder compares the tree's rules about duplicate names with those of the TOML library's
// decoder. The decoder itself is not used, because it reports only the first duplicate.
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
			t.Fatalf("%s\nerrors of the tree: %v; of the library: %v", text, d.errs, err)
		}
	})
}

// TestScalarsAreThoseOfDecoder checks that the tree accepts the same numbers, booleans and dates as the TOML library's
// decoder.
func TestScalarsAreThoseOfDecoder(t *testing.T) {
	for _, value := range []string{
		"0", "+1", "-1", "1_000", "1__0", "_1", "1_", "01", "+0x1F", "0x1F", "0xG", "0o17", "0o8", "0b101", "0b2", "99999999999999999999",
		"1.5", "+1.5", "-0.0", ".5", "1.", "1.e3", "1e3", "1E+3", "1e", "1_0.5_0", "1._5", "inf", "+inf", "-inf", "nan", "infinity",
		"true", "false", "True", "yes", "2026-01-31", "2026-02-30", "2026-01-31T25:00:00Z", "2026-01-31T12:00:00+02:00", "12:30:00", "12:30",
		"1-1-1", "0x", "0x_1", "-0x1", "1e1_0", "1e_1", "00.5", "-01",
	} {
		d := &document{file: "x", data: []byte("a = " + value + "\n")}
		d.parse()
		var tree map[string]any
		err := toml.Unmarshal(d.data, &tree)
		if (err != nil) != (len(d.errs) > 0) {
			t.Errorf("a = %s: errors of the tree: %v; of the library: %v", value, d.errs, err)
		}
	}
}
