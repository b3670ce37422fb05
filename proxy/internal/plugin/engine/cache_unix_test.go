//go:build unix

package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
				t.Errorf("log %q does not say that there is no cache", log)
			}
		})
	}
}
