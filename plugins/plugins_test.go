package plugins

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// The folder is there whether or not the modules have been built, and holds nothing else.
func TestBundleHoldsModulesOnly(t *testing.T) {
	entries, err := bundle.ReadDir("bundle")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".gz"), ".wasm")
		if e.Name() != ".gitkeep" && (!ok || !slices.Contains(Names(), name)) {
			t.Errorf("%s is no plugin that ships", e.Name())
		}
	}
}

func TestModulesAreWhole(t *testing.T) {
	built := 0
	seen := make(map[[32]byte]string)
	for _, name := range Names() {
		file := name + ".wasm"
		p, err := fs.ReadFile(FS(), file)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := FS().Digest(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is not there, and has a digest: %v", file, err)
			}
			continue
		}
		if err != nil || !bytes.HasPrefix(p, []byte("\x00asm\x01\x00\x00\x00")) {
			t.Errorf("%s is no WebAssembly module, %v", file, err)
		}
		built++
		digest, err := FS().Digest(file)
		if err != nil || seen[digest] != "" {
			t.Errorf("the digest of %s is that of %q, %v", file, seen[digest], err)
		}
		seen[digest] = file
		f, err := FS().Open(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil || info.Name() != file || info.Size() != int64(len(p)) || info.IsDir() || !info.Mode().IsRegular() {
			t.Errorf("%s is described as %v, %v", file, info, err)
		}
		if again, err := io.ReadAll(f); err != nil || !bytes.Equal(again, p) {
			t.Errorf("%s reads otherwise when it is opened, %v", file, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of %d modules are built", built, len(Names()))
}

func TestWhatIsNotThere(t *testing.T) {
	for _, file := range []string{"none.wasm", ".gitkeep", ".", "../plugins.go", "/demo.wasm", "demo.wasm.gz", "demo", ""} {
		if _, err := fs.ReadFile(FS(), file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", file, err)
		}
		if _, err := FS().Open(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is opened: %v", file, err)
		}
	}
}
