package access_test

import (
	"bytes"
	"testing"
)

// FuzzCheck checks that a header is accepted only if it is the scheme and a valid key.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"Bearer sk-good", "bearer\t sk-good ", "Basic sk-good", "", " ", "Bearer", "Bearer sk-good,", "sk-good", "Bearer \xff"} {
		f.Add([]byte(s))
	}
	set := keys()
	f.Fuzz(func(t *testing.T, header []byte) {
		before := bytes.Clone(header)
		k, e := set.Authenticate([][]byte{header}, now)
		if !bytes.Equal(before, header) {
			t.Error("the header was changed")
		}
		if (k == nil) == (e == nil) {
			t.Fatalf("got key %v and error %v, want exactly one", k, e)
		}
		fields := bytes.FieldsFunc(header, func(r rune) bool { return r == ' ' || r == '\t' })
		good := len(fields) == 2 && bytes.EqualFold(fields[0], []byte("bearer")) && (string(fields[1]) == "sk-good" || string(fields[1]) == "sk-window")
		if (k != nil) != good {
			t.Errorf("%q: got key %v, want one: %t", header, k, good)
		}
	})
}
