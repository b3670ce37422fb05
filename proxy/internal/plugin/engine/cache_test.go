package engine_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// returning returns a guest whose function "run" returns n.
func returning(n int32) []byte {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("run", nil, w.Types(w.I32), nil, w.I32Const(n))
	return m.Bytes()
}

// files returns the paths of the regular files below dir.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out = append(out, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// compileOnce compiles in a new engine, as another start of the gateway would, runs the result, and returns the log.
func compileOnce(t *testing.T, dir string, n int32) (log string) {
	t.Helper()
	var b strings.Builder
	e := newEngine(t, engine.Options{CacheDir: dir, Log: slog.New(slog.NewTextHandler(&b, nil))})
	m, err := e.Compile(context.Background(), "guest", returning(n))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := run(t, instantiate(t, m), "run"); got != uint64(n) {
		t.Errorf("run returned %d, want %d", got, n)
	}
	return b.String()
}

func TestCacheIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	compileOnce(t, dir, 7)
	before := files(t, dir)
	if len(before) != 2 {
		t.Fatalf("files %v, want the module and its machine code", before)
	}
	modified := func() (times []time.Time) {
		for _, path := range before {
			if filepath.Base(path) == "module" {
				continue // its modification time is the time of the last use
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			times = append(times, info.ModTime())
		}
		return times
	}
	times := modified()
	compileOnce(t, dir, 7)
	if after := files(t, dir); !slices.Equal(before, after) {
		t.Errorf("files %v after a start with the cache, %v before", after, before)
	}
	if !slices.Equal(times, modified()) {
		t.Error("machine code was written again")
	}
	compileOnce(t, dir, 8)
	if after := files(t, dir); len(after) != 4 {
		t.Errorf("files %v after a second module", after)
	}
}

func TestCorruptCacheIsRebuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest for each kind of damage")
	}
	flip := func(at int) func(p []byte) []byte {
		return func(p []byte) []byte {
			p[(at+len(p))%len(p)] ^= 1
			return p
		}
	}
	// The machine code's file begins with a magic number, a version, and tables that its own checksum does not cover.
	tests := map[string]func(p []byte) []byte{
		"truncated":       func(p []byte) []byte { return p[:len(p)/2] },
		"empty":           func([]byte) []byte { return nil },
		"longer":          func(p []byte) []byte { return append(p, 0) },
		"first bit":       flip(0),
		"a bit of a head": flip(20),
		"middle bit":      func(p []byte) []byte { return flip(len(p) / 2)(p) },
		"last bit":        flip(-1),
	}
	for name, damage := range tests {
		for k, file := range []string{"module", "code"} {
			t.Run(name+" "+file, func(t *testing.T) {
				dir := t.TempDir()
				compileOnce(t, dir, 7)
				whole := make(map[string][]byte)
				for _, path := range files(t, dir) {
					p, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					whole[path] = p
					if (filepath.Base(path) == "module") != (k == 0) {
						continue
					}
					if err := os.WriteFile(path, damage(slices.Clone(p)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if log := compileOnce(t, dir, 7); strings.Contains(log, "WARN") {
					t.Errorf("log %q", log)
				}
				for path, p := range whole {
					if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, p) {
						t.Errorf("%s was not rebuilt: %v", filepath.Base(path), err)
					}
				}
			})
		}
	}
}

func TestUnknownFilesInCache(t *testing.T) {
	tests := map[string]func(module string) error{
		"another file":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "extra"), []byte("x"), 0o600) },
		"a link":         func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "link")) },
		"writable":       func(dir string) error { return os.Chmod(dir, 0o777) },
		"missing module": func(dir string) error { return os.Remove(filepath.Join(dir, "module")) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			compileOnce(t, dir, 7)
			before := files(t, dir)
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			module := filepath.Join(dir, entries[0].Name())
			if err := change(module); err != nil {
				t.Fatal(err)
			}
			compileOnce(t, dir, 7)
			if after := files(t, dir); !slices.Equal(before, after) {
				t.Errorf("files %v, want %v", after, before)
			}
			if info, err := os.Stat(module); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestCacheLimit(t *testing.T) {
	dir := t.TempDir()
	compileOnce(t, dir, 0)
	var size int64
	for _, path := range files(t, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	old := filepath.Join(dir, "new-left-by-a-crash")
	recent := filepath.Join(dir, "new-being-written")
	for _, d := range []string{old, recent} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	// Every module except the first is a little larger, so the limit is the size of three.
	e := newEngine(t, engine.Options{CacheDir: dir, CacheBytes: size*3 + size/2})
	for n := range int32(6) {
		m, err := e.Compile(context.Background(), fmt.Sprint(n), returning(n))
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
	}
	modules := 0
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range entries {
		if !strings.HasPrefix(d.Name(), "new-") {
			modules++
		}
	}
	if modules != 3 {
		t.Errorf("%d modules in the cache, want 3", modules)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the unfinished directory of a crashed process was not removed")
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error("the directory that another process is writing was removed")
	}
}

func TestCacheDirectoryFailsLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var b strings.Builder
	e := newEngine(t, engine.Options{CacheDir: dir, Log: slog.New(slog.NewTextHandler(&b, nil))})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	m := compile(t, e, returning(7))
	if got := run(t, instantiate(t, m), "run"); got != 7 {
		t.Errorf("run returned %d", got)
	}
	if !strings.Contains(b.String(), "not cached") {
		t.Errorf("log %q, want it to say that the module is not cached", b.String())
	}
}

func TestCacheChecksImportsAgain(t *testing.T) {
	dir := t.TempDir()
	m := &w.Module{}
	m.Import("test", "host", nil, nil)
	m.ExportMemory(1, w.NoMax)
	host := engine.Import{Name: "host", Func: func(*engine.Instance, []uint64) {}}
	compile(t, newEngine(t, engine.Options{CacheDir: dir}, host), m.Bytes())
	_, err := newEngine(t, engine.Options{CacheDir: dir}).Compile(context.Background(), "guest", m.Bytes())
	if err == nil || !strings.Contains(err.Error(), "no such function") {
		t.Errorf("error %v for a cached module with a missing import", err)
	}
}
