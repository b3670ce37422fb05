package jsondoc_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// TestCased checks that the names and containers are found in which a name may differ in case from another.
func TestCased(t *testing.T) {
	for body, want := range map[string]bool{
		`{"a":1,"a_long_name_in_lower_case":{"b":"UPPER"}}`: false,
		`["A",{"max_tokens":[{}]}]`:                         false,
		`{"A":1}`:                                           true,
		`{"Z":1}`:                                           true,
		`{"max_Tokens":1}`:                                  true,
		`{"max_tokenS":1}`:                                  true,
		`{"a_name_of_16_byTes":1}`:                          true,
		`{"a_name_of_many_Bytes_and_more":1}`:               true,
		`{"meſsages":1}`:                                    true,
		`{"toKen":1}`:                                       true,
		`{"\u0061":1}`:                                      true,
		`{"a":{"b":[1,[{"cD":1}]]}}`:                        true,
		`{"@[{~_":1}`:                                       false,
	} {
		var d jsondoc.Doc
		if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		if got := d.Root().Cased(); got != want {
			t.Errorf("%s: %v", body, got)
		}
		name := d.Root().First().Name()
		if got, want := name.Cased(), name.Escaped() || strings.ContainsFunc(name.Text(), func(r rune) bool { return r >= 'A' && r <= 'Z' || r > 127 }); got != want {
			t.Errorf("the name of %s: %v", body, got)
		}
	}
}

// TestAppendFolded checks that names have the same fold if and only if they differ only in case, as strings.EqualFold
// defines it, like encoding/json.
func TestAppendFolded(t *testing.T) {
	names := []string{"", "model", "Model", "MODEL", "mödel", "MÖDEL", "messages", "meſſages", "token", "to\u212aen", "ß", "ẞ", "ss", "ς", "σ", "Σ", "İ", "i", "a-b", "a_b"}
	for _, a := range names {
		for _, b := range names {
			same := string(jsondoc.AppendFolded(nil, []byte(a))) == string(jsondoc.AppendFolded(nil, []byte(b)))
			if same != strings.EqualFold(a, b) {
				t.Errorf("%q and %q: %v", a, b, same)
			}
		}
	}
}
