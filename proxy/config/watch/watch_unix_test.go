//go:build unix

package watch_test

import (
	"syscall"
	"testing"
)

// TestWhatIsNoFile: opening a pipe waits for a writer, and what it reads of it nobody else can read any more.
func TestWhatIsNoFile(t *testing.T) {
	f := folder{t, t.TempDir()}
	if err := syscall.Mkfifo(f.at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, f.at("pipe"), "/dev/stdin")
	f.move("pipe", "gone")
	awaitChange(t, w)
}

func TestALoopOfLinks(t *testing.T) {
	f := folder{t, t.TempDir()}
	f.link("b", "a")
	f.link("a", "b")
	w := start(t, f.at("a"))
	f.remove("a")
	f.write("a", "new")
	awaitChange(t, w)
}
