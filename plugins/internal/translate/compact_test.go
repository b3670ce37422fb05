package translate

import (
	"bytes"
	stdjson "encoding/json"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

func TestAppendCompact(t *testing.T) {
	for _, text := range []string{
		`{}`, " { } ", "{\n\t\"a b\" : [ 1 , \"c \\\" , d\" , \"\\\\\" ] }\r\n", `{"a":1, "a":2}`, `"\ud800 x"`, `"ends in \\"`, `[ "\\" , " " ]`,
		"{ \"a\" :\t[ 1 , \"b \\\" c\\\\\" ] }\r\n", `{"\\ud83d": "x"}`, "{\n}",
	} {
		var want bytes.Buffer
		if err := stdjson.Compact(&want, []byte(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := AppendCompact([]byte("x"), json.Value(text)); string(got) != "x"+want.String() {
			t.Errorf("%s became %s, want %s", text, got[1:], want.String())
		}
	}
}
