package docs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// runMake runs make as from a shell, even if make runs this test.
func runMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") })
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestMakeChecksGoVersion runs make with scripts in place of the go command.
func TestMakeChecksGoVersion(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "go.mod"), "\ngo ")
	needed := rest[:strings.LastIndex(rest[:strings.Index(rest, "\n")], ".")]
	for _, c := range []struct{ name, script, want string }{
		{"old", "case $1 in env) echo go1.9.7;; *) echo go version go1.9.7 plan9/386;; esac", "Go " + needed + " or later is needed, and FAKE is 1.9.7 plan9/386: see https://go.dev/doc/install\n"},
		// An older version that must not download the newer one.
		{"offline", "case $1 in env) exit 1;; *) echo go version go1.21.0 linux/arm64;; esac", "Go " + needed + " or later is needed, and FAKE is 1.21.0 linux/arm64: see"},
		{"new", "echo go2.1rc1", ""},
		{"development", "echo devel go1.99-3f2ab5c Mon Jan 4", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := filepath.Join(t.TempDir(), "go")
			if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			out, err := runMake(t, "need-go", "GO="+fake)
			if out = strings.ReplaceAll(out, fake, "FAKE"); (err == nil) != (c.want == "") || !strings.HasPrefix(out, c.want) {
				t.Errorf("got error %v and output %s, want %s", err, out, c.want)
			}
		})
	}
	if out, err := runMake(t, "need-go", "GO=no-such-go"); err == nil || !strings.Contains(out, "there is no command no-such-go") {
		t.Errorf("missing go command: got error %v and output %s", err, out)
	}
}

// TestRelease builds the archive for this platform twice, compares the archives, and runs the binary.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("links the gateway twice")
	}
	var sums []string
	for range 2 {
		dir := t.TempDir()
		out, err := runMake(t, "release", "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH, "VERSION=v9.8.7", "RELEASE="+dir)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		name := "sluice_v9.8.7_" + runtime.GOOS + "_" + runtime.GOARCH
		archive, err := os.ReadFile(filepath.Join(dir, name+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(archive)
		want := hex.EncodeToString(sum[:]) + "  " + name + ".tar.gz\n"
		if got := read(t, filepath.Join(dir, "SHA256SUMS")); got != want {
			t.Errorf("SHA256SUMS is %q, want %q", got, want)
		}
		sums = append(sums, want)
		if out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-xzf", filepath.Join(dir, name+".tar.gz")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md", "gateway.toml", "deploy/sluice.service", "docs/operations.md"} {
			if _, err := os.Stat(filepath.Join(dir, name, file)); err != nil {
				t.Error(err)
			}
		}
		version, err := exec.CommandContext(t.Context(), filepath.Join(dir, name, "sluice"), "version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(version), "sluice v9.8.7 (") {
			t.Errorf("sluice version: %v: %s", err, version)
		}
	}
	if runtime.GOOS == "linux" && sums[0] != sums[1] {
		t.Errorf("two archives of the same source differ: %v", sums)
	}
}
