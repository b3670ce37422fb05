package engine

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// FuzzCacheEntry checks that an entry of the cache is accepted only if it is exactly what was written.
func FuzzCacheEntry(f *testing.F) {
	dir := f.TempDir()
	written := &entry{info: fuel.Info{Start: true, Globals: []string{"g"}}, stub: []byte("stub module")}
	if err := writeEntry(dir, written); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, entryFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(entryMagic)
	f.Fuzz(func(t *testing.T, p []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, entryFile), p, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		e, err := readEntry(dir)
		switch {
		case err == nil && !bytes.Equal(p, whole) && bytes.HasPrefix(p, whole[:len(entryMagic)+32]):
			t.Errorf("accepted other bytes with the same digest")
		case err != nil && bytes.Equal(p, whole):
			t.Errorf("rejected what was written: %v", err)
		case err == nil && bytes.Equal(p, whole):
			if !bytes.Equal(e.stub, written.stub) || !e.info.Start {
				t.Errorf("read %+v, wrote %+v", e, written)
			}
		}
	})
}

// TestCacheEntryRejectedByWazero checks that an entry with valid checksums is rebuilt if wazero cannot use it. wazero
// would compile the stub module instead.
func TestCacheEntryRejectedByWazero(t *testing.T) {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("_initialize", nil, nil, nil, w.I32Const(0), w.I32Const(0), w.I32Load, w.I32Const(1), w.I32Add, w.I32Store)
	m.ExportFunc("run", nil, w.Types(w.I32), nil, w.I32Const(0), w.I32Load)
	for name, spoil := range map[string]func(code string, p []byte) error{
		"garbage":         func(code string, _ []byte) error { return os.WriteFile(code, []byte("not what wazero wrote"), 0o600) },
		"another version": func(code string, p []byte) error { p[len("WAZEVO")+1] ^= 1; return os.WriteFile(code, p, 0o600) },
		"another name": func(code string, _ []byte) error {
			return os.Rename(code, filepath.Join(filepath.Dir(code), strings.Repeat("0", 64)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			start := func() {
				t.Helper()
				e, err := New(Options{CacheDir: dir})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				module, err := e.Compile(t.Context(), "guest", m.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				i, err := module.Instantiate(t.Context(), nil, 1_000_000)
				if err != nil {
					t.Fatal(err)
				}
				defer i.Close()
				f, _ := i.Func("run")
				if got, err := i.Call(f, 1_000_000); err != nil || got != 1 {
					t.Errorf("_initialize has run %d times, %v", got, err)
				}
			}
			start()
			cached := filepath.Join(dir, programDir(m.Bytes()))
			before, err := files(cached)
			if err != nil || len(before) != 1 {
				t.Fatalf("machine code %v, %v", before, err)
			}
			whole, err := os.ReadFile(before[0])
			if err != nil {
				t.Fatal(err)
			}
			written, err := readEntry(cached)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(before[0], bytes.Clone(whole)); err != nil {
				t.Fatal(err)
			}
			if err := writeEntry(cached, written); err != nil {
				t.Fatal(err)
			}
			start()
			after, err := files(cached)
			if err != nil || !slices.Equal(before, after) {
				t.Fatalf("machine code %v, %v, want %v", after, err, before)
			}
			if p, err := os.ReadFile(after[0]); err != nil || !bytes.Equal(p, whole) {
				t.Errorf("the machine code was not rebuilt: %v", err)
			}
		})
	}
}

// programDir returns the name of a module's directory in the cache.
func programDir(wasm []byte) string {
	key := programKey(Bytes(wasm).Digest)
	return hex.EncodeToString(key[:])
}
