// Package watch tells when files have come to hold something else.
//
// A file is followed by its path: what the path leads to may be swapped as a whole. Each directory in which a part of
// the path is looked up, symbolic links followed, is watched for an entry of that name. So it is noticed when a file is
// written, or replaced by another; when a link on the way is turned to another folder, as Kubernetes does it; and when a
// folder goes away and comes back. What happened is not believed: once it has been quiet for a moment all files are
// read, and only where one holds other bytes than before, or has gone, is it a change.
//
// A folder among the files holds the names in it, without hidden ones: it changes when a file is added, removed or renamed.
//
// It does not know what the files are for, and keeps nothing of them but digests.
//
// Concurrency: a Watcher may be used from any goroutine. Its own one ends with Close.
package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long nothing must have happened before files are read, so that a file that is written in several
	// steps is read after the last one.
	settle = 200 * time.Millisecond

	// maxSettle is how long changes that follow one another can delay reading.
	maxSettle = 2 * time.Second
)

// Watcher watches files. Make it with New; one that is nil watches nothing.
type Watcher struct {
	notify  *fsnotify.Watcher
	failed  func(error)
	changed chan struct{}
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
	looked  func(changed bool) // for tests; may be nil

	mu      sync.Mutex
	files   map[string]state
	entries map[string]bool // paths without links; what happens to one of them may change what a file holds
	folders map[string]bool // that are watched
	listed  map[string]bool // folders whose names count
	warned  bool
}

// state is what a path led to: a digest of the content, or why there is none.
type state string

// New makes a Watcher of no files. failed is called, once at most, with what cannot be watched.
func New(failed func(error)) (*Watcher, error) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{
		notify: n, failed: failed, changed: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		files: map[string]state{}, entries: map[string]bool{}, folders: map[string]bool{}, listed: map[string]bool{},
	}
	go w.run()
	return w, nil
}

// Changed receives after a file has changed: once, however many there are and however often they did, until it is
// received.
func (w *Watcher) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// Add watches more files. What they hold at this moment counts as known, so they are added before they are read: what
// changes in between is then a change.
func (w *Watcher) Add(files ...string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range files {
		if _, there := w.files[f]; !there {
			w.files[f] = ""
			w.follow()
			w.files[f] = read(f)
		}
	}
}

// Keep stops watching all other files.
func (w *Watcher) Keep(files ...string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := make(map[string]state, len(files))
	for _, f := range files {
		if s, there := w.files[f]; there {
			kept[f] = s
		}
	}
	w.files = kept
	w.follow()
}

// Refresh takes what the files hold for known, for somebody who is about to read them in any case.
func (w *Watcher) Refresh() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
}

// Close ends the watch.
func (w *Watcher) Close() error {
	if w == nil {
		return nil
	}
	w.once.Do(func() { close(w.stop) })
	<-w.done
	return w.notify.Close()
}

func (w *Watcher) run() {
	defer close(w.done)
	quiet := time.NewTimer(settle)
	quiet.Stop()
	defer quiet.Stop()
	var first time.Time // when the first thing happened that was not looked at; zero: nothing has
	happened := func() {
		if first.IsZero() {
			first = time.Now()
		}
		quiet.Reset(min(settle, max(0, maxSettle-time.Since(first))))
	}
	for {
		select {
		case <-w.stop:
			return
		case e, more := <-w.notify.Events:
			if !more {
				return
			}
			if w.concerns(e.Name) {
				happened()
			}
		case err, more := <-w.notify.Errors:
			if !more {
				return
			}
			w.fail(err)
			happened() // events may have been lost
		case <-quiet.C:
			first = time.Time{}
			w.mu.Lock()
			changed := w.look()
			tell := w.looked
			w.mu.Unlock()
			if changed {
				select {
				case w.changed <- struct{}{}:
				default:
				}
			}
			if tell != nil {
				tell(changed)
			}
		}
	}
}

// concerns tells whether what happens at a path may change what a file holds.
func (w *Watcher) concerns(path string) bool {
	if path == "" {
		return false
	}
	path = filepath.Clean(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[path] || w.folders[path] || w.listed[filepath.Dir(path)]
}

// look reads all files and reports whether one of them has changed. w.mu is held.
func (w *Watcher) look() (changed bool) {
	// The watch sees every change from here on, and another look follows it.
	w.follow()
	for f, before := range w.files {
		if now := read(f); now != before {
			w.files[f] = now
			changed = true
		}
	}
	return changed
}

// follow watches the folders that the paths lead through, and no others. w.mu is held.
func (w *Watcher) follow() {
	folders := map[string]bool{}
	w.entries, w.listed = map[string]bool{}, map[string]bool{}
	for f := range w.files {
		if is, err := os.Stat(f); err == nil && is.IsDir() {
			if err := w.notify.Add(f); err != nil {
				w.warn(fmt.Errorf("watch %s: %w", f, err))
			}
			folders[f], w.listed[filepath.Clean(f)] = true, true
		}
		err := walk(f, func(dir, name string) error {
			w.entries[filepath.Join(dir, name)] = true
			if folders[dir] {
				return nil
			}
			// It is asked for again and again: there may be another folder of that name.
			if err := w.notify.Add(dir); err != nil {
				return fmt.Errorf("watch %s for %s: %w", dir, f, err)
			}
			folders[dir] = true
			return nil
		})
		if err != nil {
			w.warn(err)
		}
	}
	for dir := range w.folders {
		if !folders[dir] {
			// One that is not there any more is not watched any more.
			_ = w.notify.Remove(dir)
		}
	}
	w.folders = folders
}

func (w *Watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warn(err)
}

// warn says that something cannot be watched. w.mu is held.
func (w *Watcher) warn(err error) {
	if w.warned || errors.Is(err, fsnotify.ErrEventOverflow) {
		return
	}
	w.warned = true
	w.failed(err)
}

// maxLinks is how many symbolic links a path may lead through, as on Linux.
const maxLinks = 40

// walk calls visit for each folder in which a part of the path is looked up, before that is done, and with the part. It
// ends where a part is not there, and returns the error of a visit that mattered: one to a folder that holds the file
// itself, or a link on the way to it. That a folder far up is renamed is worth knowing, where that can be had.
func walk(path string, visit func(dir, name string) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	dir, rest, links := root, parts(path), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir)
			continue
		}
		at := filepath.Join(dir, name)
		err := error(nil)
		if cheap {
			err = visit(dir, name)
		}
		is, missing := os.Lstat(at)
		if missing == nil && is.IsDir() && len(rest) > 0 {
			dir = at
			continue
		}
		if !cheap {
			err = visit(dir, name)
			is, missing = os.Lstat(at)
		}
		if err != nil || missing != nil || is.Mode()&os.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(at)
		if links++; err != nil || links > maxLinks {
			return nil // the next look sees what has become of it
		}
		if filepath.IsAbs(target) {
			dir = root
		}
		rest = append(parts(target), rest...)
	}
	return nil
}

// cheap tells whether a folder is watched for one descriptor, and not for one for each of its entries. Otherwise only
// the folders that hold a file, or a link on the way to it, are watched.
const cheap = runtime.GOOS == "linux" || runtime.GOOS == "windows"

// parts are the names in a path.
func parts(path string) (names []string) {
	path = path[len(filepath.VolumeName(path)):]
	for len(path) > 0 {
		if os.IsPathSeparator(path[0]) {
			path = path[1:]
			continue
		}
		n := 0
		for n < len(path) && !os.IsPathSeparator(path[n]) {
			n++
		}
		if name := path[:n]; name != "." {
			names = append(names, name)
		}
		path = path[n:]
	}
	return names
}

// list is the names in a folder.
func list(dir string) state {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return state(err.Error())
	}
	h := sha256.New()
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			fmt.Fprintf(h, "%q\n", e.Name())
		}
	}
	return state(h.Sum(nil))
}

// read is what a path leads to. Only a regular file is opened: what else there is may block, or give what it holds only
// once.
func read(path string) state {
	is, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "missing"
	case err != nil:
		return state(err.Error())
	case is.IsDir():
		return list(path)
	case !is.Mode().IsRegular():
		return "no file"
	}
	f, err := os.Open(path)
	if err != nil {
		return state(err.Error())
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return state(err.Error())
	}
	return state(h.Sum(nil))
}
