package watch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/config/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout is how long a test waits for an expected event.
const timeout = 20 * time.Second

func start(t *testing.T, files ...string) *watch.Watcher {
	t.Helper()
	w, err := watch.New(func(err error) { t.Errorf("a file cannot be watched: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	w.Add(files...)
	return w
}

func awaitChange(t *testing.T, w *watch.Watcher) {
	t.Helper()
	select {
	case <-w.Changed():
	case <-time.After(timeout):
		t.Fatal("the change is not noticed")
	}
}

// folder is a temporary folder in which a test changes files the way operators do.
type folder struct {
	t   *testing.T
	dir string
}

func (f folder) at(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (f folder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) write(name, text string) {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.at(name)), 0o700))
	f.must(os.WriteFile(f.at(name), []byte(text), 0o600))
}

func (f folder) link(target, name string) { f.t.Helper(); f.must(os.Symlink(target, f.at(name))) }
func (f folder) move(from, to string)     { f.t.Helper(); f.must(os.Rename(f.at(from), f.at(to))) }
func (f folder) remove(name string)       { f.t.Helper(); f.must(os.RemoveAll(f.at(name))) }

// turn atomically replaces a link with a link to another target, as Kubernetes does.
func (f folder) turn(target, name string) {
	f.t.Helper()
	f.link(target, name+"_tmp")
	f.move(name+"_tmp", name)
}

// changes are the ways in which the contents of a path can change. The file is conf/file, and contains "old".
var changes = []struct {
	name    string
	prepare func(f folder)
	steps   []func(f folder) // each is a change
}{
	{"written in place", nil, []func(folder){
		func(f folder) { f.write("conf/file", "new") },
		func(f folder) { f.write("conf/file", "newer") },
	}},
	{"another file renamed over it", nil, []func(folder){
		func(f folder) { f.write("conf/next", "new"); f.move("conf/next", "conf/file") },
		func(f folder) { f.write("elsewhere", "newer"); f.move("elsewhere", "conf/file") },
	}},
	{"kept under another name by an editor, and rewritten", nil, []func(folder){
		func(f folder) { f.move("conf/file", "conf/file~"); f.write("conf/file", "new") },
	}},
	{"removed, and back", nil, []func(folder){
		func(f folder) { f.remove("conf/file") },
		func(f folder) { f.write("conf/file", "old") },
	}},
	{"the folder gone, and back", nil, []func(folder){
		func(f folder) { f.remove("conf") },
		func(f folder) { f.write("conf/file", "new") },
		func(f folder) { f.write("conf/file", "newer") },
	}},
	{"another folder in its place", nil, []func(folder){
		func(f folder) { f.write("other/file", "new"); f.move("conf", "gone"); f.move("other", "conf") },
		func(f folder) { f.write("conf/file", "newer") },
	}},
	{"the folder above renamed", func(f folder) {
		f.write("deep/up/conf/file", "old")
		f.remove("conf")
		f.link("deep/up/conf", "conf")
	}, []func(folder){
		func(f folder) { f.move("deep", "away"); f.write("deep/up/conf/file", "new") },
		func(f folder) { f.write("deep/up/conf/file", "newer") },
	}},
	{"a link to another file", func(f folder) {
		f.write("one", "old")
		f.write("two", "new")
		f.remove("conf/file")
		f.link("../one", "conf/file")
	}, []func(folder){
		func(f folder) { f.turn("../two", "conf/file") },
		func(f folder) { f.write("two", "newer") },
	}},
	{"as Kubernetes does it", func(f folder) {
		f.remove("conf/file")
		f.write("conf/..2026_a/file", "old")
		f.link("..2026_a", "conf/..data")
		f.link("..data/file", "conf/file")
	}, []func(folder){
		func(f folder) {
			f.write("conf/..2026_b/file", "new")
			f.turn("..2026_b", "conf/..data")
			f.remove("conf/..2026_a")
		},
		func(f folder) {
			f.write("conf/..2026_c/file", "newer")
			f.turn("..2026_c", "conf/..data")
			f.remove("conf/..2026_b")
		},
	}},
	{"a link that leads nowhere for a while", func(f folder) {
		f.write("releases/1/file", "old")
		f.remove("conf")
		f.link(f.at("releases/1"), "conf")
	}, []func(folder){
		func(f folder) { f.turn("releases/2", "conf") },
		func(f folder) { f.write("releases/2/file", "new") },
	}},
}

// TestDetectsChanges makes the changes in all folders at once, so that it does not wait for the quiet period of each
// watcher in turn.
//
// covers: F80
func TestDetectsChanges(t *testing.T) {
	t.Parallel()
	folders, watchers := make([]folder, len(changes)), make([]*watch.Watcher, len(changes))
	most := 0
	for i, c := range changes {
		f := folder{t, t.TempDir()}
		f.write("conf/file", "old")
		if c.prepare != nil {
			c.prepare(f)
		}
		folders[i], watchers[i] = f, start(t, f.at("conf/file"))
		most = max(most, len(c.steps))
	}
	for n := range most {
		for i, c := range changes {
			if n < len(c.steps) {
				c.steps[n](folders[i])
			}
		}
		for i, c := range changes {
			if n < len(c.steps) {
				t.Run(fmt.Sprintf("%s, step %d", c.name, n+1), func(t *testing.T) { awaitChange(t, watchers[i]) })
			}
		}
	}
}

// TestIgnoresRewritesWithoutChanges rewrites or touches a file without changing its contents. The watcher must rescan
// after each step, which shows that it noticed the step, but not report a change.
func TestIgnoresRewritesWithoutChanges(t *testing.T) {
	t.Parallel()
	rewrites := []struct {
		name string
		do   func(f folder)
	}{
		{"written again", func(f folder) { f.write("conf/file", "old") }},
		{"a copy renamed over it", func(f folder) { f.write("conf/next", "old"); f.move("conf/next", "conf/file") }},
		{"its mode", func(f folder) { f.must(os.Chmod(f.at("conf/file"), 0o400)) }},
		{"its time", func(f folder) { f.must(os.Chtimes(f.at("conf/file"), time.Time{}, time.Unix(1, 0))) }},
		{"gone for a moment", func(f folder) { f.remove("conf"); f.write("conf/file", "old") }},
		{"other bytes for a moment", func(f folder) { f.write("conf/file", "new"); f.write("conf/file", "old") }},
	}
	looks := make([]chan bool, len(rewrites))
	for i, c := range rewrites {
		f := folder{t, t.TempDir()}
		f.write("conf/file", "old")
		w := start(t, f.at("conf/file"))
		rescanned := make(chan bool, 16)
		looks[i] = rescanned
		w.OnLook(func(changed bool) { rescanned <- changed })
		c.do(f)
	}
	for i, c := range rewrites {
		t.Run(c.name, func(t *testing.T) {
			select {
			case changed := <-looks[i]:
				if changed {
					t.Error("it counts as a change")
				}
			case <-time.After(timeout):
				t.Fatal("the watcher did not rescan")
			}
		})
	}
}

// TestIgnoresOtherFiles changes files in the same folder as a watched one.
func TestIgnoresOtherFiles(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	f.write("conf/file", "old")
	w := start(t, f.at("conf/file"))
	looks := 0
	rescanned := make(chan bool, 16)
	w.OnLook(func(changed bool) { rescanned <- changed })
	for range 100 {
		f.write("conf/log", strings.Repeat("x", 1000))
	}
	// The events of a folder arrive in the order in which they happened.
	f.write("conf/file", "new")
	awaitChange(t, w)
	for len(rescanned) > 0 {
		<-rescanned
		looks++
	}
	if looks > 1 {
		t.Errorf("it rescanned %d times", looks)
	}
}

func TestAddAndKeep(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	f.write("a/file", "1")
	f.write("b/file", "1")
	w := start(t, f.at("a/file"))
	w.Add(f.at("a/file"), f.at("b/file"))
	f.write("b/file", "2")
	awaitChange(t, w)
	w.Keep(f.at("b/file"))
	for _, dir := range w.Folders() {
		if dir == f.at("a") {
			t.Error("the folder of a file that is no longer watched is still watched")
		}
	}
	f.write("a/file", "2")
	f.write("b/file", "3")
	awaitChange(t, w)
	w.Keep()
	if n := len(w.Folders()); n != 0 {
		t.Errorf("%d folders are watched for no file", n)
	}
}

// TestRefresh checks that a change before Refresh is not reported afterwards.
func TestRefresh(t *testing.T) {
	t.Parallel()
	f := folder{t, t.TempDir()}
	f.write("file", "1")
	w := start(t, f.at("file"))
	rescanned := make(chan bool, 16)
	w.OnLook(func(changed bool) { rescanned <- changed })
	f.write("file", "2")
	w.Refresh()
	select {
	case changed := <-rescanned:
		if changed {
			t.Error("a change before Refresh is reported")
		}
	case <-time.After(timeout):
		t.Fatal("the watcher did not rescan")
	}
}

// TestFileThatKeepsChanging checks that a file that is written all the time is read nevertheless.
func TestFileThatKeepsChanging(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes a file for two seconds, as fast as it can")
	}
	f := folder{t, t.TempDir()}
	f.write("file", "1")
	w := start(t, f.at("file"))
	deadline := time.Now().Add(timeout)
	for n := 0; ; n++ {
		select {
		case <-w.Changed():
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the watcher waits for a quiet period")
		}
		f.write("file", strings.Repeat("x", n%100))
	}
}

func TestReportsUnwatchableFileOnce(t *testing.T) {
	f := folder{t, t.TempDir()}
	f.write("file", "1")
	var said []error
	w, err := watch.New(func(err error) { said = append(said, err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Blind(); err != nil {
		t.Fatal(err)
	}
	w.Add(f.at("file"), f.at("other"))
	w.Refresh()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if len(said) != 1 || !strings.Contains(said[0].Error(), f.at("file")) {
		t.Errorf("it says %v", said)
	}
}

func TestPollsWithoutWatcher(t *testing.T) {
	var w *watch.Watcher
	w.Add("file")
	w.Refresh()
	w.Keep()
	if w.Changed() != nil {
		t.Error("it reports changes")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestWatchesNamesInFolder adds, changes and removes files in a watched folder.
func TestWatchesNamesInFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for five changes, one after the other")
	}
	t.Parallel()
	f := folder{t, t.TempDir()}
	f.write("conf.d/a.toml", "1")
	w := start(t, f.at("conf.d"))
	f.write("conf.d/b.toml", "1")
	awaitChange(t, w)
	if err := os.Rename(f.at("conf.d/b.toml"), f.at("conf.d/c.toml")); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, w)
	rescanned := make(chan bool, 16)
	w.OnLook(func(changed bool) { rescanned <- changed })
	f.write("conf.d/a.toml", "2")
	f.write("conf.d/.hidden", "2")
	if <-rescanned {
		t.Error("a change of a file's contents, or of a hidden file, is reported")
	}
	if err := os.RemoveAll(f.at("conf.d")); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, w)
	f.write("conf.d/a.toml", "1")
	awaitChange(t, w)
	f.write("conf.d/d.toml", "1")
	awaitChange(t, w)
}
