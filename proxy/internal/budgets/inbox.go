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

// What a file in the folder is, by the end of its name, which begins with the change's ID.
const (
	waiting = ".json"
	claimed = ".claimed"
	receipt = ".receipt"
)

const (
	retryInterval = time.Second
	receiptAge    = time.Hour // after which nobody waits for a receipt
	pollInterval  = 20 * time.Millisecond
)

// ErrLater is the error of a change that cannot be made at this moment, and is tried again.
var ErrLater = errors.New("the change is tried again")

// Apply makes a change and says in a sentence what it did. It makes one with the same ID once. Its error is that of a change that cannot
// be made, or wraps ErrLater.
type Apply func(*Change) (string, error)

// Receipt is what became of a change.
type Receipt struct {
	Made bool   `json:"made"`
	Text string `json:"text"` // what was done, or why nothing was
}

// Inbox makes the changes that commands write into a folder. Close ends it.
type Inbox struct {
	dir   string
	apply Apply
	log   *slog.Logger
	files *watch.Watcher
	blind chan struct{} // closed where the folder cannot be watched

	delayed map[string]bool // changes of which it was logged that they wait

	stop     chan struct{}
	stopped  chan struct{}
	closing  sync.Once
	blinding sync.Once
}

// Open begins to make the changes in a folder, those first that wait there.
func Open(dir string, apply Apply, log *slog.Logger) *Inbox {
	i := &Inbox{dir: dir, apply: apply, log: log, blind: make(chan struct{}), stop: make(chan struct{}), stopped: make(chan struct{})}
	var err error
	if i.files, err = watch.New(i.unwatched); err != nil {
		i.unwatched(err)
	}
	i.files.Add(dir)
	go i.run()
	return i
}

// unwatched has the folder read each second: what is watched is limited for each user of a machine.
func (i *Inbox) unwatched(err error) {
	i.blinding.Do(func() {
		i.log.Debug("changes of budgets are looked for each second", "error", err)
		close(i.blind)
	})
}

// Close waits for the change that is being made.
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
	blind, poll := i.blind, false
	for {
		select {
		case <-i.stop:
			return
		case <-blind:
			blind, poll = nil, true
		case <-i.files.Changed():
		case <-retry.C:
		}
		if later := i.takeAll(); later || poll {
			retry.Reset(retryInterval)
		}
	}
}

// takeAll makes the changes in the folder, and reports whether one of them is to be tried again.
func (i *Inbox) takeAll() (later bool) {
	names, err := list(i.dir)
	if err != nil {
		i.log.Error("changes of budgets cannot be read", "error", err)
		return true
	}
	for _, name := range names {
		path := filepath.Join(i.dir, name)
		id, what := split(name)
		switch what {
		case receipt:
			if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > receiptAge {
				_ = os.Remove(path)
			}
			continue
		case waiting:
			err := os.Rename(path, filepath.Join(i.dir, id+claimed))
			if errors.Is(err, fs.ErrNotExist) {
				continue // whoever wrote it has removed it
			}
			if err != nil {
				i.delay(id, err)
				later = true
				continue
			}
		}
		if err := i.take(id); err != nil {
			i.delay(id, err)
			later = true
		}
	}
	return later
}

// delay logs, once for each change, why it is not made yet.
func (i *Inbox) delay(id string, err error) {
	if i.delayed[id] {
		return
	}
	if i.delayed == nil || len(i.delayed) > 100 {
		i.delayed = make(map[string]bool)
	}
	i.delayed[id] = true
	i.log.Warn("budget not changed yet", "id", id, "error", err)
}

// take makes a change that is claimed. Its error is that of a change that waits.
func (i *Inbox) take(id string) error {
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
		i.log.Warn("the receipt for a change of a budget cannot be written", "id", id, "error", err)
	}
	return os.Remove(path)
}

// read reads the file of a change.
func read(path, id string) (*Change, error) {
	// The folder is private, but what is in it may be anything.
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
		err = errors.New("the id is not that of the file's name")
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

// list returns the names of the files in the folder that belong to changes, in the order of their age.
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
		if id, what := split(e.Name()); what == "" || !validID(id) {
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

// split takes a file's name apart; what is "" for one of another purpose.
func split(name string) (id, what string) {
	for _, what := range []string{waiting, claimed, receipt} {
		if id, ok := strings.CutSuffix(name, what); ok {
			return id, what
		}
	}
	return "", ""
}

// writeFile writes a file at once: nobody reads half of it. It belongs to the owner of the folder, as root may write it for the gateway.
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

// Request has the gateway of a state folder make a change, and waits until ctx ends for what it says of it. Where no gateway is running, the
// change waits for one that starts before the end of the window; zero: at any time.
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
		return "", fmt.Errorf("%s has not taken the change, which is withdrawn; its log may say why", process)
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s is about to make the change %s, and its log will say how that ends", process, c.ID)
	case err != nil:
		return "", err
	case !r.Made:
		return "", errors.New(r.Text)
	}
	return r.Text, nil
}

// Send leaves a change for the gateway of a state folder.
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

// Await waits for what becomes of a change, until ctx ends.
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

// Waiting returns the changes that no gateway has made yet.
func Waiting(stateDir string) ([]*Change, error) {
	dir := filepath.Join(stateDir, Folder)
	names, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []*Change
	for _, name := range names {
		id, what := split(name)
		if what == receipt {
			continue
		}
		// One that cannot be read is the gateway's to report, or is made at this moment.
		if c, err := read(filepath.Join(dir, name), id); err == nil {
			all = append(all, c)
		}
	}
	return all, err
}
