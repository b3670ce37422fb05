package budgets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config/watch"
	"github.com/sluice-gateway/sluice/proxy/internal/statedir"
)

// Folder is the folder of changes in the state folder.
const Folder = "budget-changes"

// A file's name is the ID of a change and one of these extensions.
const (
	waiting = ".json"    // a change that no gateway has claimed
	claimed = ".claimed" // a change that a gateway is applying
	receipt = ".receipt" // the outcome of a change
)

const (
	retryInterval = time.Second
	receiptAge    = time.Hour // after which a receipt is removed, as no command waits that long
	pollInterval  = 20 * time.Millisecond
)

// ErrLater is the error of a change that cannot be applied now and is retried.
var ErrLater = errors.New("the change will be retried")

// Apply applies a change, unless one with the same ID has been applied, and returns a sentence that says what it did.
// An error that wraps ErrLater means that the change is to be retried, and any other error rejects it.
type Apply func(*Change) (string, error)

// Receipt is the outcome of a change.
type Receipt struct {
	Made bool   `json:"made"`
	Text string `json:"text"` // what was done, or why nothing was
}

// Inbox applies the changes that commands write into a folder, until Close.
type Inbox struct {
	dir   string
	apply Apply
	log   *slog.Logger
	files *watch.Watcher

	unwatchable     chan struct{} // closed if the folder cannot be watched, and must be polled
	unwatchableOnce sync.Once

	delayed map[string]bool // IDs of changes whose delay has been logged

	stop    chan struct{}
	stopped chan struct{}
	closing sync.Once
}

// Open begins to apply the changes in a folder, including those that are already there.
func Open(dir string, apply Apply, log *slog.Logger) *Inbox {
	i := &Inbox{dir: dir, apply: apply, log: log, unwatchable: make(chan struct{}), stop: make(chan struct{}), stopped: make(chan struct{})}
	var err error
	if i.files, err = watch.New(i.startPolling); err != nil {
		i.startPolling(err)
	}
	i.files.Add(dir)
	go i.run()
	return i
}

// startPolling makes run read the folder every second. The system limits how much a user can watch.
func (i *Inbox) startPolling(err error) {
	i.unwatchableOnce.Do(func() {
		i.log.Debug("cannot watch for budget changes; polling every second", "error", err)
		close(i.unwatchable)
	})
}

// Close stops the Inbox. It waits for the change that is being applied.
func (i *Inbox) Close() {
	if i == nil {
		return
	}
	i.closing.Do(func() {
		close(i.stop)
		<-i.stopped
		_ = i.files.Close()
	})
}

func (i *Inbox) run() {
	defer close(i.stopped)
	retry := time.NewTimer(0)
	defer retry.Stop()
	unwatchable, polling := i.unwatchable, false
	for {
		select {
		case <-i.stop:
			return
		case <-unwatchable:
			unwatchable, polling = nil, true
		case <-i.files.Changed():
		case <-retry.C:
		}
		if later := i.applyAll(); later || polling {
			retry.Reset(retryInterval)
		}
	}
}

// applyAll applies the changes in the folder, and reports whether any of them is to be retried.
func (i *Inbox) applyAll() (later bool) {
	names, err := list(i.dir)
	if err != nil {
		i.log.Error("cannot read budget changes", "error", err)
		return true
	}
	for _, name := range names {
		path := filepath.Join(i.dir, name)
		id, ext := splitName(name)
		switch ext {
		case receipt:
			if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > receiptAge {
				_ = os.Remove(path)
			}
			continue
		case waiting:
			err := os.Rename(path, filepath.Join(i.dir, id+claimed))
			if errors.Is(err, fs.ErrNotExist) {
				continue // the command has withdrawn it
			}
			if err != nil {
				i.logDelay(id, err)
				later = true
				continue
			}
		}
		if err := i.applyClaimed(id); err != nil {
			i.logDelay(id, err)
			later = true
		}
	}
	return later
}

// logDelay logs, once for each change, why it is not applied yet.
func (i *Inbox) logDelay(id string, err error) {
	if i.delayed[id] {
		return
	}
	if i.delayed == nil || len(i.delayed) > 100 {
		i.delayed = make(map[string]bool)
	}
	i.delayed[id] = true
	i.log.Warn("budget not changed yet", "id", id, "error", err)
}

// applyClaimed applies a claimed change and writes its receipt. An error means that the change is to be retried.
func (i *Inbox) applyClaimed(id string) error {
	path := filepath.Join(i.dir, id+claimed)
	c, err := read(path, id)
	var r Receipt
	if err == nil {
		r.Text, err = i.apply(c)
	}
	switch {
	case errors.Is(err, ErrLater):
		return errors.Join(err, os.Rename(path, filepath.Join(i.dir, id+waiting)))
	case err != nil:
		r.Text = err.Error()
		i.log.Warn("budget not changed", "id", id, "error", err)
	default:
		r.Made = true
	}
	if err := r.write(i.dir, id); err != nil {
		i.log.Warn("cannot write the receipt of a budget change", "id", id, "error", err)
	}
	return os.Remove(path)
}

// read reads the file of a change.
func read(path, id string) (*Change, error) {
	// The folder is private, but may contain anything.
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("not a regular file"), err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	c, err := Parse(data)
	if err == nil && c.ID != id {
		err = errors.New("id differs from the file's name")
	}
	return c, err
}

func (r *Receipt) write(dir, id string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(dir, id+receipt, data)
}

// list returns the names of the files in the folder that belong to changes, the oldest first.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	type file struct {
		name string
		at   time.Time
	}
	var files []file
	for _, e := range entries {
		if id, ext := splitName(e.Name()); ext == "" || !validID(id) {
			continue
		}
		if info, err := e.Info(); err == nil {
			files = append(files, file{e.Name(), info.ModTime()})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	names := make([]string, len(files))
	for n := range files {
		names[n] = files[n].name
	}
	return names, nil
}

// splitName splits a file's name into the change's ID and the extension, which is "" if the file belongs to no change.
func splitName(name string) (id, ext string) {
	for _, ext := range []string{waiting, claimed, receipt} {
		if id, ok := strings.CutSuffix(name, ext); ok {
			return id, ext
		}
	}
	return "", ""
}

// writeFile writes a file atomically. It makes the folder's owner the file's, because root may write a file that the
// gateway must read.
func writeFile(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, ".new-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = giveTo(f.Name(), dir)
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Request sends a change to the gateway of a state folder, and waits for its receipt until ctx ends. If no gateway is
// running, the change waits for one that starts before end, the end of the window; zero means at any time. Request
// returns what was done, as a sentence.
func Request(ctx context.Context, stateDir string, c *Change, end time.Time) (string, error) {
	if info, err := os.Stat(stateDir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("there is no state folder %s: has a gateway run with this configuration, as this user?", stateDir)
	}
	process, running, err := statedir.Holder(stateDir)
	if err != nil {
		return "", err
	}
	if err := Send(stateDir, c); err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	if !running {
		until := ""
		if !end.IsZero() {
			until = " before " + end.Format(time.RFC3339)
		}
		return fmt.Sprintf("no gateway is running: the change is made when one starts with %s%s", stateDir, until), nil
	}
	r, err := Await(ctx, stateDir, c.ID)
	switch {
	case err != nil && ctx.Err() != nil && os.Remove(filepath.Join(stateDir, Folder, c.ID+waiting)) == nil:
		return "", fmt.Errorf("%s did not accept the change in time, so it was withdrawn; check the gateway's log", process)
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s is still applying the change %s; check the gateway's log for the result", process, c.ID)
	case err != nil:
		return "", err
	case !r.Made:
		return "", errors.New(r.Text)
	}
	return r.Text, nil
}

// Send writes a change for the gateway of a state folder.
func Send(stateDir string, c *Change) error {
	data, err := c.encode()
	if err != nil {
		return err
	}
	dir := filepath.Join(stateDir, Folder)
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		if err := giveTo(dir, stateDir); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return writeFile(dir, c.ID+waiting, data)
}

// Await waits for the receipt of a change until ctx ends, and removes it.
func Await(ctx context.Context, stateDir, id string) (*Receipt, error) {
	path := filepath.Join(stateDir, Folder, id+receipt)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		data, err := os.ReadFile(path)
		switch {
		case err == nil:
			var r Receipt
			if err := json.Unmarshal(data, &r); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return &r, os.Remove(path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-poll.C:
		}
	}
}

// Waiting returns the changes that no gateway has applied yet.
func Waiting(stateDir string) ([]*Change, error) {
	dir := filepath.Join(stateDir, Folder)
	names, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []*Change
	for _, name := range names {
		id, ext := splitName(name)
		if ext == receipt {
			continue
		}
		// A change that cannot be read has just been applied, or the gateway will report it.
		if c, err := read(filepath.Join(dir, name), id); err == nil {
			all = append(all, c)
		}
	}
	return all, err
}
