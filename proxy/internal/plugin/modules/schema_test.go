package modules_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// noSchemas is a folder of bundled plugins without schemas.
type noSchemas struct{}

func (noSchemas) OptionsSchema(string) []byte { return nil }

// TestSchemaOfPluginFile adds schemas to a module, and reads them as the gateway does for a plugin from a file.
func TestSchemaOfPluginFile(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00")
	add := func(plugin, schema string) {
		t.Helper()
		var err error
		if module, err = modules.AddOptionsSchema(module, plugin, []byte(schema)); err != nil {
			t.Fatal(err)
		}
	}
	add("", `{"properties":{"a":{}}}`)
	add("b", `{"properties":{"b":{}}}`)
	file := filepath.Join(t.TempDir(), "mine.wasm")
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(module))
	for _, tt := range []struct{ name, file, sum, want string }{
		{"a", file, sum, `{"properties":{"a":{}}}`},
		{"b", file, sum, `{"properties":{"b":{}}}`},
		{"a", file, strings.Repeat("0", 64), ""},
		{"a", file + "x", sum, ""},
		{"a", "", "", ""},
	} {
		if got := modules.OptionsSchema(t.Context(), noSchemas{}, new(config.Config), &config.Plugin{Name: tt.name, File: tt.file, SHA256: tt.sum}, modules.Sources{}); string(got) != tt.want {
			t.Errorf("%+v: got schema %s", tt, got)
		}
	}
	if _, err := modules.AddOptionsSchema(module, "b", []byte("{}")); err == nil {
		t.Error("accepted a second schema of a plugin")
	}
	if _, err := modules.AddOptionsSchema(module, "c", []byte("[]")); err == nil {
		t.Error("accepted an invalid schema")
	}
}
