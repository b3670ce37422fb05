package plugins

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"
)

// TestBundleHoldsOnlyTheModule checks that the folder exists whether or not the module has been built, and contains no
// other files.
func TestBundleHoldsOnlyTheModule(t *testing.T) {
	entries, err := bundle.ReadDir("bundle")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{".gitkeep", file, file + ".gz"}, e.Name()) {
			t.Errorf("%s does not belong in the bundle: make plugins removes it", e.Name())
		}
	}
}

// TestNamesMatchFolders compares the list of names with the folders of plugins. Package all tests that the module
// contains them.
func TestNamesMatchFolders(t *testing.T) {
	folders, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range folders {
		if f.IsDir() && !slices.Contains([]string{"all", "bundle", "internal"}, f.Name()) {
			names = append(names, f.Name())
		}
	}
	if !slices.Equal(names, Names()) {
		t.Errorf("Names() = %q, folders are %q", Names(), names)
	}
}

func TestModuleIsValid(t *testing.T) {
	p, err := fs.ReadFile(FS(), file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := FS().Digest(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s does not exist, but has a digest: %v", file, err)
		}
		t.Logf("%s is not built", file)
		return
	}
	if err != nil || !bytes.HasPrefix(p, []byte("\x00asm\x01\x00\x00\x00")) {
		t.Errorf("%s is not a WebAssembly module, %v", file, err)
	}
	if digest, err := FS().Digest(file); err != nil || digest == [32]byte{} {
		t.Errorf("got digest %x, error %v", digest, err)
	}
	f, err := FS().Open(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil || info.Name() != file || info.Size() != int64(len(p)) || info.IsDir() || !info.Mode().IsRegular() {
		t.Errorf("Stat returned %v, %v", info, err)
	}
	if again, err := io.ReadAll(f); err != nil || !bytes.Equal(again, p) {
		t.Errorf("Open and ReadFile return different content, %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestMissingFiles(t *testing.T) {
	for _, name := range []string{"none.wasm", "openai.wasm", ".gitkeep", ".", "../plugins.go", "/all.wasm", "all.wasm.gz", "all", ""} {
		if _, err := fs.ReadFile(FS(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("ReadFile %q: got error %v, want %v", name, err, fs.ErrNotExist)
		}
		if _, err := FS().Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open %q: got error %v, want %v", name, err, fs.ErrNotExist)
		}
	}
}
