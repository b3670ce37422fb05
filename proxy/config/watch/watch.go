// Package watch reports when the contents of files have changed.
//
// A file is watched by its path, since the path may later lead to another file. Each directory in which a component of
// the path is looked up, with symbolic links followed, is watched for an entry of that name. The watcher thus notices
// when a file is written or replaced, when a link on the path is replaced with a link to another folder, as Kubernetes
// does, and when a folder is removed and created again. An event alone is not a change: after a quiet period, the
// watcher reads all files, and reports a change only if the contents of one differ from before, or if it has appeared
// or disappeared.
//
// The contents of a folder are the names in it, without hidden ones: it changes when a file is added, removed or
// renamed.
//
// The watcher keeps only digests of the files.
//
// Concurrency: a Watcher may be used from any goroutine. Its own goroutine ends with Close.
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
	// quietPeriod is how long no event must occur before files are read, so that a file that is written in several
	// steps is read after the last one.
	quietPeriod = 200 * time.Millisecond

	// maxDelay is how long a series of events can delay reading.
	maxDelay = 2 * time.Second
)

// Watcher watches files. Create it with New. A nil Watcher watches nothing.
type Watcher struct {
	notify    *fsnotify.Watcher
	failed    func(error)
	changed   chan struct{}
	stop      chan struct{}
	done      chan struct{}
	once      sync.Once
	rescanned func(changed bool) // for tests; may be nil

	mu      sync.Mutex
	files   map[string]state
	entries map[string]bool // paths, without links, whose events may change the contents of a file
	folders map[string]bool // folders that are watched
	listed  map[string]bool // folders that are watched for the names in them
	warned  bool            // failed has been called
}

// state is the state of a path: a digest of its contents, or the reason why they cannot be read.
type state string

// New creates a Watcher without files. failed is called at most once, with the first error that keeps something from
// being watched.
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

// Changed returns a channel that receives a value after a file has changed. Further changes are merged until the value
// is received.
func (w *Watcher) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// Add watches more files. Their current contents count as known. Callers add files before they read them, so that they
// do not miss a change in between.
func (w *Watcher) Add(files ...string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range files {
		if _, there := w.files[f]; !there {
			w.files[f] = ""
			w.updateWatches()
			w.files[f] = digestFile(f)
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
	w.updateWatches()
}

// Refresh marks the current contents of all files as known, for a caller that is about to read them anyway.
func (w *Watcher) Refresh() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rescan()
}

// Close stops watching, and waits for the Watcher's goroutine to end.
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
	quiet := time.NewTimer(quietPeriod)
	quiet.Stop()
	defer quiet.Stop()
	var first time.Time // time of the first event since the last rescan; zero if there was none
	scheduleRescan := func() {
		if first.IsZero() {
			first = time.Now()
		}
		quiet.Reset(min(quietPeriod, max(0, maxDelay-time.Since(first))))
	}
	for {
		select {
		case <-w.stop:
			return
		case e, more := <-w.notify.Events:
			if !more {
				return
			}
			if w.isRelevant(e.Name) {
				scheduleRescan()
			}
		case err, more := <-w.notify.Errors:
			if !more {
				return
			}
			w.reportError(err)
			scheduleRescan() // events may have been lost
		case <-quiet.C:
			first = time.Time{}
			w.mu.Lock()
			changed := w.rescan()
			notify := w.rescanned
			w.mu.Unlock()
			if changed {
				select {
				case w.changed <- struct{}{}:
				default:
				}
			}
			if notify != nil {
				notify(changed)
			}
		}
	}
}

// isRelevant reports whether an event at a path may change the contents of a file.
func (w *Watcher) isRelevant(path string) bool {
	if path == "" {
		return false
	}
	path = filepath.Clean(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[path] || w.folders[path] || w.listed[filepath.Dir(path)]
}

// rescan reads all files and reports whether one of them has changed. w.mu is held.
func (w *Watcher) rescan() (changed bool) {
	// From here on, every change causes an event, and thus another rescan.
	w.updateWatches()
	for f, before := range w.files {
		if now := digestFile(f); now != before {
			w.files[f] = now
			changed = true
		}
	}
	return changed
}

// updateWatches watches exactly the folders that the paths lead through. w.mu is held.
func (w *Watcher) updateWatches() {
	folders := map[string]bool{}
	w.entries, w.listed = map[string]bool{}, map[string]bool{}
	for f := range w.files {
		if is, err := os.Stat(f); err == nil && is.IsDir() {
			if err := w.notify.Add(f); err != nil {
				w.reportErrorLocked(fmt.Errorf("watch %s: %w", f, err))
			}
			folders[f], w.listed[filepath.Clean(f)] = true, true
		}
		err := walk(f, func(dir, name string) error {
			w.entries[filepath.Join(dir, name)] = true
			if folders[dir] {
				return nil
			}
			// Add it each time, even if it is being watched: it may be another folder with the same name.
			if err := w.notify.Add(dir); err != nil {
				return fmt.Errorf("watch %s for %s: %w", dir, f, err)
			}
			folders[dir] = true
			return nil
		})
		if err != nil {
			w.reportErrorLocked(err)
		}
	}
	for dir := range w.folders {
		if !folders[dir] {
			// This fails if the folder no longer exists, in which case it is not watched anyway.
			_ = w.notify.Remove(dir)
		}
	}
	w.folders = folders
}

func (w *Watcher) reportError(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reportErrorLocked(err)
}

// reportErrorLocked calls failed with the first error. w.mu is held.
func (w *Watcher) reportErrorLocked(err error) {
	if w.warned || errors.Is(err, fsnotify.ErrEventOverflow) {
		return
	}
	w.warned = true
	w.failed(err)
}

// maxLinks limits the symbolic links that a path may lead through, as Linux does.
const maxLinks = 40

// walk calls visit for each folder in which a component of the path is looked up, before the lookup, with the name of
// the component. It stops at a component that does not exist. It returns an error of visit only for the folder that
// contains the file itself or a link on the path; errors for other folders, in which only a rename would be noticed,
// are ignored.
func walk(path string, visit func(dir, name string) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	dir, rest, links := root, splitPath(path), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			dir = filepath.Dir(dir)
			continue
		}
		at := filepath.Join(dir, name)
		err := error(nil)
		if cheapWatches {
			err = visit(dir, name)
		}
		is, missing := os.Lstat(at)
		if missing == nil && is.IsDir() && len(rest) > 0 {
			dir = at
			continue
		}
		if !cheapWatches {
			err = visit(dir, name)
			is, missing = os.Lstat(at)
		}
		if err != nil || missing != nil || is.Mode()&os.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(at)
		if links++; err != nil || links > maxLinks {
			return nil // the next rescan finds the reason
		}
		if filepath.IsAbs(target) {
			dir = root
		}
		rest = append(splitPath(target), rest...)
	}
	return nil
}

// cheapWatches reports whether watching a folder takes one descriptor instead of one for each of its entries. If not,
// only the folders that contain a file, or a link on the path to it, are watched.
const cheapWatches = runtime.GOOS == "linux" || runtime.GOOS == "windows"

// splitPath returns the components of a path.
func splitPath(path string) (names []string) {
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

// digestFolder returns a digest of the names in a folder, without hidden ones.
func digestFolder(dir string) state {
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

// digestFile returns a digest of the file or folder that a path leads to. It opens only regular files, because reading
// others may block, or consume their data.
func digestFile(path string) state {
	is, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "missing"
	case err != nil:
		return state(err.Error())
	case is.IsDir():
		return digestFolder(path)
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
