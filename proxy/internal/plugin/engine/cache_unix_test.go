//go:build unix

package engine_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

func TestCacheIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	compileOnce(t, dir, 7)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRejectsUntrustedCache(t *testing.T) {
	tests := map[string]func(dir string) (string, error){
		"others can write": func(dir string) (string, error) {
			return dir, os.Chmod(dir, 0o777)
		},
		"the group can write": func(dir string) (string, error) {
			return dir, os.Chmod(dir, 0o770)
		},
		"a file": func(dir string) (string, error) {
			dir = filepath.Join(dir, "file")
			return dir, os.WriteFile(dir, nil, 0o600)
		},
		"a link to a directory": func(dir string) (string, error) {
			link := filepath.Join(dir, "link")
			return link, os.Symlink(t.TempDir(), link)
		},
		"below a file": func(dir string) (string, error) {
			return filepath.Join(dir, "file", "cache"), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			dir, err := prepare(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if log := compileOnce(t, dir, 7); !strings.Contains(log, "compile cache not usable") {
				t.Errorf("log %q, want it to say that the cache is not usable", log)
			}
		})
	}
}

// TestCacheOfAnImage uses a cache that belongs to root and is read-only for the process, as in a container image.
func TestCacheOfAnImage(t *testing.T) {
	const dirVariable = "CACHE_OF_AN_IMAGE"
	if dir := os.Getenv(dirVariable); dir != "" {
		if log := compileOnce(t, dir, 7); log != "" {
			t.Errorf("log %q", log)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "test")
	data, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "cache")
	compileOnce(t, cache, 7)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == binary {
			return err
		}
		mode := fs.FileMode(0o444)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestCacheOfAnImage$")
	cmd.Dir = dir
	cmd.Env = []string{dirVariable + "=" + cache}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCacheRequired checks that with RequireCache it is an error if a module cannot be cached.
func TestCacheRequired(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := engine.New(engine.Options{CacheDir: file, RequireCache: true}); err == nil {
		e.Close()
		t.Error("New accepted a file as the cache directory")
	}
	dir := filepath.Join(t.TempDir(), "cache")
	e := newEngine(t, engine.Options{CacheDir: dir, RequireCache: true})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if m, err := e.Compile(t.Context(), "guest", returning(7)); err == nil {
		m.Close()
		t.Error("Compile returned a module that could not be cached")
	}
}
