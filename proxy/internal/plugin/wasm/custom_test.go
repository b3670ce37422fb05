package wasm_test

import (
	"bytes"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

func TestCustomSectionsComeBack(t *testing.T) {
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
		t.Error("a section is found in a module that is cut off")
	}
}
