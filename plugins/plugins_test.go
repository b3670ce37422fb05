package plugins_test

import (
	"bytes"
	"io/fs"
	"path"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
)

// The folder is there whether or not the modules have been built, and holds nothing else.
func TestBundleHoldsModulesOnly(t *testing.T) {
	entries, err := fs.ReadDir(plugins.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == ".gitkeep" {
			continue
		}
		p, err := fs.ReadFile(plugins.FS(), e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if path.Ext(e.Name()) != ".wasm" || !bytes.HasPrefix(p, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s is no WebAssembly module", e.Name())
		}
	}
}
