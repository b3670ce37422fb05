package canary

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Options configure a Set.
type Options struct {
	// Dir returns the folder where the states are kept, in the file canary.json. It is called once, for the first canary. After an error
	// they are lost at the end of the process, which is logged. nil: the same, and it is not logged.
	Dir func() (string, error)
	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: nothing is logged
}

// Set has the canaries of all models, and keeps their states in a file. Its canaries outlive a reload of the configuration.
type Set struct {
	dir func() (string, error)
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	file    string // "": none, or not yet
	opened  bool
	closed  bool
	all     map[name]*Canary
	current []*Canary           // those of the configuration in use, by model
	kept    map[name]*keptState // of the file; nil once there is a configuration in use
	damage  error               // the file cannot be used; nil once there is a configuration in use

	dirty   chan struct{} // has an element if there is something to write
	stop    chan struct{} // closed by Close
	writing sync.WaitGroup
}

// name is a canary's model and the digest of its table.
type name struct{ model, table string }

// New returns a Set, which reads the file when it is asked for its first canary.
func New(o Options) *Set {
	s := &Set{dir: o.Dir, now: o.Now, log: o.Log, all: map[name]*Canary{}, dirty: make(chan struct{}, 1), stop: make(chan struct{})}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// open reads the states that were kept. A file that is damaged is logged as an error, and each canary of the first configuration begins
// rolled back: the file may have said so, and a canary that failed must not come back by itself. s.mu is held.
func (s *Set) open() {
	if s.opened = true; s.dir == nil || s.closed {
		return
	}
	dir, err := s.dir()
	if err != nil {
		s.log.Warn("the state of canaries is lost at a restart", "error", err)
		return
	}
	s.file = filepath.Join(dir, "canary.json")
	data, err := os.ReadFile(s.file)
	if err == nil {
		s.kept, err = parse(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.damage = err
		s.log.Error("the state of canaries cannot be read; all canaries begin rolled back", "file", s.file, "error", err)
	}
	s.writing.Go(s.write)
}

// Get returns the canary of a model with these settings: the one that is in use or was kept, else a new one. It takes effect with Use.
func (s *Set) Get(model string, settings Settings) *Canary {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		s.open()
	}
	made := newCanary(s, model, settings)
	n := name{model, made.table}
	if c := s.all[n]; c != nil {
		return c
	}
	s.all[n] = made
	now := s.now()
	made.began = now
	kept := s.kept[n]
	switch {
	case s.damage != nil:
		made.reason, made.backAt = "its state was lost: "+s.damage.Error(), now
	case kept == nil:
	case kept.Step >= len(settings.Steps):
		made.reason, made.backAt = "its state was damaged", now
		s.log.Error("the state of a canary is damaged; it begins rolled back", "file", s.file, "model", model)
	default:
		made.state = kept.state(now)
	}
	return made
}

// Use makes canaries those of the configuration in use, and forgets all others: a canary whose table is removed, or changed, begins anew
// when it comes back.
func (s *Set) Use(canaries []*Canary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inUse := make(map[*Canary]bool, len(s.current))
	for _, c := range s.current {
		inUse[c] = true
	}
	clear(s.all)
	s.kept, s.damage = nil, nil
	s.current = slices.Clone(canaries)
	slices.SortFunc(s.current, func(a, b *Canary) int { return cmp.Compare(a.model, b.model) })
	for _, c := range s.current {
		s.all[name{c.model, c.table}] = c
		if !inUse[c] {
			c.begin(s.now())
		}
	}
	s.changed()
}

// begin begins the canary's current step, whose time counts from the start of the process: a step is over when requests have tried it for
// long enough.
func (c *Canary) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = now
	c.publish()
	if c.reason != "" {
		c.set.log.Warn("canary stays rolled back; change its table to begin again", "model", c.model, "target", c.settings.Target, "reason", c.reason)
		return
	}
	c.set.log.Info("canary step", "model", c.model, "target", c.settings.Target, "step", c.step+1, "steps", len(c.settings.Steps),
		"share", c.settings.Steps[c.step])
}

// Status returns the states of the canaries in use, by model.
func (s *Set) Status() []Status {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	all := make([]Status, len(current))
	for i, c := range current {
		all[i] = c.Status()
	}
	return all
}

// changed has the file written soon.
func (s *Set) changed() {
	select {
	case s.dirty <- struct{}{}:
	default: // it has not begun to be written
	}
}

// Close writes the file a last time.
func (s *Set) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.writing.Wait()
}

// write writes the file when something has changed, and at the end, until Close.
func (s *Set) write() {
	for more := true; more; {
		select {
		case <-s.dirty:
		case <-s.stop:
			more = false
		}
		if err := s.save(); err != nil {
			s.log.Error("the state of canaries cannot be kept; a restart begins from an older one", "file", s.file, "error", err)
		}
	}
}

// save replaces the file: it is always either the old or the new one, also after a crash.
func (s *Set) save() error {
	s.mu.Lock()
	if s.kept != nil || s.damage != nil {
		s.mu.Unlock()
		return nil // no configuration is in use: what the file holds stays
	}
	states := make([]keptState, len(s.current))
	for i, c := range s.current {
		c.mu.Lock()
		states[i] = c.keep()
		c.mu.Unlock()
	}
	s.mu.Unlock()
	if len(states) == 0 {
		if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return replaceFile(s.file, format(states))
}

// replaceFile writes a file under another name, and gives it its own once the disk has it.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("sync its folder: %w", err)
	}
	_ = dir.Sync() // not every file system can
	return dir.Close()
}
