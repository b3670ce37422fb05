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
	// Dir returns the folder for the file canary.json, in which the states survive a restart. It is called once, for
	// the first canary. If it fails, which is logged, or is nil, the states are lost when the process ends.
	Dir func() (string, error)
	Now func() time.Time // nil means time.Now
	Log *slog.Logger     // nil disables logging
}

// Set holds the canaries of all models, and saves their states to a file. Its canaries outlive a reload of the
// configuration.
type Set struct {
	dir func() (string, error)
	now func() time.Time
	log *slog.Logger

	mu      sync.Mutex
	file    string // path of the file; "" if there is none, or before open
	opened  bool
	closed  bool
	byKey   map[key]*Canary
	current []*Canary           // canaries of the configuration in use, sorted by model
	saved   map[key]*savedState // states read from the file; nil after the first Use
	damage  error               // why the file cannot be read; nil after the first Use

	dirty  chan struct{}  // holds an element while the file is out of date
	stop   chan struct{}  // closed by Close
	writer sync.WaitGroup // goroutine of writeLoop
}

// key identifies a canary: its model and the digest of its settings.
type key struct{ model, table string }

// New returns a Set. It reads the file at the first call of Get.
func New(o Options) *Set {
	s := &Set{dir: o.Dir, now: o.Now, log: o.Log, byKey: map[key]*Canary{}, dirty: make(chan struct{}, 1), stop: make(chan struct{})}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// open reads the saved states and starts the goroutine that saves them. If the file is damaged, an error is logged and
// each canary of the first configuration starts rolled back: it may have been before, and a canary that failed must not
// restart by itself. The caller holds s.mu.
func (s *Set) open() {
	if s.opened = true; s.dir == nil || s.closed {
		return
	}
	dir, err := s.dir()
	if err != nil {
		s.log.Warn("canary states will not survive a restart", "error", err)
		return
	}
	s.file = filepath.Join(dir, "canary.json")
	data, err := os.ReadFile(s.file)
	if err == nil {
		s.saved, err = parse(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.damage = err
		s.log.Error("cannot read canary states; all canaries start rolled back", "file", s.file, "error", err)
	}
	s.writer.Go(s.writeLoop)
}

// Get returns the canary of a model with these settings: the canary in use or, if there is none, a new one that
// continues from the saved state. A new canary takes effect with Use.
func (s *Set) Get(model string, settings Settings) *Canary {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.opened {
		s.open()
	}
	c := newCanary(s, model, settings)
	k := key{model, c.table}
	if existing := s.byKey[k]; existing != nil {
		return existing
	}
	s.byKey[k] = c
	now := s.now()
	c.began = now
	saved := s.saved[k]
	switch {
	case s.damage != nil:
		c.reason, c.rolledBackAt = "its state was lost: "+s.damage.Error(), now
	case saved == nil:
	case saved.Step >= len(settings.Steps):
		c.reason, c.rolledBackAt = "its state was damaged", now
		s.log.Error("invalid step in the saved state of a canary; it starts rolled back", "file", s.file, "model", model)
	default:
		c.state = saved.restore(now)
	}
	return c
}

// Use puts the canaries of a configuration into use and drops all others. A canary whose table is removed or changed,
// and later restored, starts from the first step.
func (s *Set) Use(canaries []*Canary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inUse := make(map[*Canary]bool, len(s.current))
	for _, c := range s.current {
		inUse[c] = true
	}
	clear(s.byKey)
	s.saved, s.damage = nil, nil
	s.current = slices.Clone(canaries)
	slices.SortFunc(s.current, func(a, b *Canary) int { return cmp.Compare(a.model, b.model) })
	for _, c := range s.current {
		s.byKey[key{c.model, c.table}] = c
		if !inUse[c] {
			c.start(s.now())
		}
	}
	s.markDirty()
}

// start puts the canary into use. Its current step starts over, so that each step lasts its full time even if the
// process restarts.
func (c *Canary) start(now time.Time) {
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

// Status returns the states of the canaries in use, sorted by model.
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

// markDirty schedules a write of the file.
func (s *Set) markDirty() {
	select {
	case s.dirty <- struct{}{}:
	default: // a write is already scheduled
	}
}

// Close writes the file a last time and waits for that.
func (s *Set) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.writer.Wait()
}

// writeLoop saves the file after each change until Close, and then once more.
func (s *Set) writeLoop() {
	for more := true; more; {
		select {
		case <-s.dirty:
		case <-s.stop:
			more = false
		}
		if err := s.save(); err != nil {
			s.log.Error("cannot save canary states; a restart would continue from older ones", "file", s.file, "error", err)
		}
	}
}

// save replaces the file atomically, or removes it if no canary is in use.
func (s *Set) save() error {
	s.mu.Lock()
	if s.saved != nil || s.damage != nil {
		s.mu.Unlock()
		return nil // no configuration is in use yet, so the file stays as it is
	}
	states := make([]savedState, len(s.current))
	for i, c := range s.current {
		c.mu.Lock()
		states[i] = c.stateToSave()
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

// replaceFile writes and syncs a temporary file, then renames it to path. After a crash, path holds either the old or
// the new data.
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
	_ = dir.Sync() // not supported by every file system
	return dir.Close()
}
