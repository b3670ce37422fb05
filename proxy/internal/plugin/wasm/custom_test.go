package wasm_test

import (
	"bytes"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

func TestCustomSectionRoundTrip(t *testing.T) {
	empty := []byte("\x00asm\x01\x00\x00\x00")
	module := wasm.AppendCustom(wasm.AppendCustom(empty, "a", []byte("first")), "a.b", nil)
	for _, tt := range []struct {
		name, want string
		ok         bool
	}{{"a", "first", true}, {"a.b", "", true}, {"b", "", false}, {"", "", false}} {
		if got, ok := wasm.Custom(module, tt.name); string(got) != tt.want || ok != tt.ok {
			t.Errorf("section %q: %q, %t", tt.name, got, ok)
		}
	}
	for cut := range len(module) {
		wasm.Custom(module[:cut], "a.b") // must not panic
	}
	if _, ok := wasm.Custom(append(bytes.Clone(module), 0, 200), "a"); ok {
		t.Error("found a section in a truncated module")
	}
}

// FuzzFunctionNames parses arbitrary bytes as a name section. The seeds are prefixes of a section with the names of the
// module and of functions.
func FuzzFunctionNames(f *testing.F) {
	whole := []byte("\x00\x02\x01m\x01\x0c\x02\x00\x03run\x02\x04main")
	for _, cut := range []int{0, 4, 6, 9, 13, len(whole)} {
		f.Add(whole[:cut])
	}
	f.Add([]byte("\x01\x06\xff\xff\xff\xff\x0f\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		found := map[uint32]string{0: "", 2: "", 9: ""}
		wasm.FunctionNames(content, found)
		if len(found) != 3 {
			t.Errorf("got names for other functions: %v", found)
		}
		if bytes.Equal(content, whole) && (found[0] != "run" || found[2] != "main" || found[9] != "") {
			t.Errorf("got %v", found)
		}
	})
}
