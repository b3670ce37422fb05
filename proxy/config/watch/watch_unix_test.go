//go:build unix

package watch_test

import (
	"syscall"
	"testing"
)

// TestIgnoresNonRegularFiles watches a pipe. Opening it would block until there is a writer, and reading would consume
// data meant for its reader.
func TestIgnoresNonRegularFiles(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	if err := syscall.Mkfifo(f.at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, f.at("pipe"), "/dev/stdin")
	f.move("pipe", "gone")
	awaitChange(t, w)
}

func TestSymlinkLoop(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	f.link("b", "a")
	f.link("a", "b")
	w := start(t, f.at("a"))
	f.remove("a")
	f.write("a", "new")
	awaitChange(t, w)
}
