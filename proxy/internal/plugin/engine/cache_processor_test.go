package engine_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestCacheOfAnotherProcessor compiles in a process with BMI1 disabled, and then with all processor features. The log
// must say why the code in the cache is not used, and the cache must keep both.
func TestCacheOfAnotherProcessor(t *testing.T) {
	const dirVariable = "CACHE_OF_ANOTHER_PROCESSOR"
	if dir := os.Getenv(dirVariable); dir != "" {
		compileOnce(t, dir, 7)
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the features that can be hidden are those of amd64")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestCacheOfAnotherProcessor$")
	cmd.Env = append(os.Environ(), "GODEBUG=cpu.bmi1=off", dirVariable+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log := compileOnce(t, dir, 7)
	if !strings.Contains(log, "plugin compiled") || !strings.Contains(log, "the cached code is for "+runtime.GOOS+"/amd64 sse4.1, this machine is ") {
		t.Errorf("log %q", log)
	}
	if log := compileOnce(t, dir, 7); log != "" {
		t.Errorf("log %q of a start with the cache", log)
	}
	if n := len(files(t, dir)); n != 4 {
		t.Errorf("the cache has %d files, want 4, of two modules", n)
	}
}

// TestCacheOfAnotherBinary compiles with the same cache in a program whose build information has wazero's version, and
// in this test, whose build information has not. Each must keep its own code.
func TestCacheOfAnotherBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "compile")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", other, "./testdata/compile").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for start, want := range []string{"not in the cache", ""} {
		cmd := exec.CommandContext(t.Context(), other, dir)
		cmd.Stdin = bytes.NewReader(returning(7))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, log := range []string{string(out), compileOnce(t, dir, 7)} {
			if want == "" && log != "" || !strings.Contains(log, want) {
				t.Errorf("start %d logs %q, want %q", start, log, want)
			}
		}
	}
}

// TestReasonsForCompiling checks that the log says why a module is compiled.
func TestReasonsForCompiling(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		dir, reason string
		prepare     func(path string) error
	}{
		{"", "no cache directory", nil},
		{dir, "not in the cache", nil},
		{dir, "unusable cache entry: machine code files differ", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
	} {
		if c.prepare != nil {
			for _, path := range files(t, c.dir) {
				if !strings.HasSuffix(path, "module") {
					if err := c.prepare(path); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if log := compileOnce(t, c.dir, 7); !strings.Contains(log, c.reason) {
			t.Errorf("log %q, want %q", log, c.reason)
		}
	}
}
