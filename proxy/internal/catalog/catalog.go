// Package catalog knows the models that can be asked for: those of the configuration, and those that providers list.
//
// It owns the cache of the providers' lists and the JSON of a model. It does not talk to providers: a Lister does. Nor
// does it know who may use a model: the caller asks for one, or filters the list.
//
// A provider's list is good for the time that the configuration says. After that it is still served, while one refresh
// runs in the background; a refresh that fails leaves the old list and is tried again later and later. Nobody waits
// for a list but the callers that come while the first one is being fetched, and they for a bounded time. An id that
// nobody knows costs no call of a provider while the lists are fresh.
//
// Concurrency: a Catalog is safe for concurrent use. It owns the goroutines that refresh; Close ends them and waits.
package catalog

import (
	"context"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// Lister fetches the whole list of a provider's models.
type Lister interface {
	ListModels(ctx context.Context, provider string) ([]Listed, error)
}

// Options steer a Catalog. The zero value is good.
type Options struct {
	FirstWait    time.Duration // how long a caller waits for a first list; 0: 2 s
	FetchTimeout time.Duration // for one fetch; 0: 30 s
	Backoff      time.Duration // after a first failure, doubled after each further one; 0: 5 s

	// Fetched is told of the end of each fetch, from the goroutine that fetched. May be nil.
	Fetched func(provider string, models int, err error)

	// Previous is the catalogue of the configuration before this one. Its lists are taken over for the providers that
	// have not changed, so that a reload does not make listed models unknown. May be nil, and may be closed.
	Previous *Catalog

	Now func() time.Time // nil: time.Now
}

// maxBackoff bounds the time between two tries.
const maxBackoff = 5 * time.Minute

// Catalog is the models of one configuration.
type Catalog struct {
	lister  Lister
	o       Options
	fixed   []*Model
	byID    map[string]*Model // of fixed
	taken   map[string]bool   // every id of the configuration, used or not
	sources []*source

	current atomic.Pointer[snapshot]
	due     atomic.Int64 // when a source wants attention, in Unix nanoseconds; before that nobody takes mu

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex // guards what follows, the sources' state and the writing of current and due
	lists  *lru.Cache[string, *list]
	closed bool
}

// snapshot is what is known at a time. It does not change once it is published.
type snapshot struct {
	models []*Model
	byID   map[string]*Model // listed ones only
}

// list is what a provider listed.
type list struct {
	listed []Listed
	models []*Model
	until  time.Time // it is fresh before that
}

// source is a provider that lists models.
type source struct {
	provider *config.Provider
	done     chan struct{} // closed at the end of the fetch in flight; nil where there is none
	started  time.Time     // when that fetch began
	failures int           // since the last success
	retry    time.Time     // no fetch before that
}

// New makes the catalogue of a configuration. It fetches nothing until somebody asks.
func New(cfg *config.Config, l Lister, o Options) *Catalog {
	if o.FirstWait == 0 {
		o.FirstWait = 2 * time.Second
	}
	if o.FetchTimeout == 0 {
		o.FetchTimeout = 30 * time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	previous := o.Previous
	o.Previous = nil
	c := &Catalog{lister: l, o: o, fixed: configured(cfg), byID: map[string]*Model{}, taken: map[string]bool{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, m := range c.fixed {
		c.byID[m.ID] = m
	}
	for i := range cfg.Models {
		c.taken[cfg.Models[i].ID] = true
	}
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; p.Off == "" && p.ListModels.Enabled {
			c.sources = append(c.sources, &source{provider: p})
		}
	}
	// One list a source. The error is for a size below 1.
	c.lists, _ = lru.New[string, *list](max(1, len(c.sources)))
	if previous != nil {
		c.inherit(previous)
	}
	c.publish()
	return c
}

// inherit takes over the lists of an older catalogue, each as old as it is.
func (c *Catalog) inherit(old *Catalog) {
	old.mu.Lock()
	defer old.mu.Unlock()
	for _, s := range c.sources {
		for _, before := range old.sources {
			a, b := s.provider, before.provider
			if a.Name != b.Name || a.Plugin != b.Plugin || a.BaseURL != b.BaseURL || !reflect.DeepEqual(a.Auth, b.Auth) {
				continue
			}
			if l, ok := old.lists.Peek(b.Name); ok {
				c.lists.Add(a.Name, &list{l.listed, listed(a, l.listed), l.until})
			}
		}
	}
}

// Close ends the refreshes and waits for them. What is known is served on.
func (c *Catalog) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Warm starts to fetch the lists that are wanted and does not wait for them.
func (c *Catalog) Warm() { c.attend(c.o.Now()) }

// Model returns the model of that id. It waits only where the id is unknown and a first list is being fetched. For a
// known id it does not allocate.
func (c *Catalog) Model(ctx context.Context, id string) (*Model, bool) {
	if m, ok := c.byID[id]; ok {
		return m, true
	}
	if c.taken[id] || len(c.sources) == 0 {
		return nil, false
	}
	now := c.o.Now()
	m, ok := c.current.Load().byID[id]
	if now.UnixNano() < c.due.Load() {
		return m, ok
	}
	first := c.attend(now)
	if ok {
		return m, true
	}
	c.wait(ctx, now, first)
	m, ok = c.current.Load().byID[id]
	return m, ok
}

// List returns all models: the configured ones in their order, then those of each provider, by id. The slice is shared
// and must not be changed.
func (c *Catalog) List(ctx context.Context) []*Model {
	if now := c.o.Now(); len(c.sources) > 0 && now.UnixNano() >= c.due.Load() {
		c.wait(ctx, now, c.attend(now))
	}
	return c.current.Load().models
}

// pending is a first list that is being fetched.
type pending struct {
	done    chan struct{}
	started time.Time
}

// attend starts the fetches that are due, and returns those that may be waited for.
func (c *Catalog) attend(now time.Time) (first []pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sources {
		l, ok := c.lists.Get(s.provider.Name)
		if ok && now.Before(l.until) {
			continue
		}
		if s.done == nil && !now.Before(s.retry) && !c.closed {
			s.done, s.started = make(chan struct{}), now
			c.wg.Add(1)
			go c.fetch(s)
		}
		if !ok && s.done != nil && s.failures == 0 {
			first = append(first, pending{s.done, s.started})
		}
	}
	c.schedule()
	return first
}

// wait returns when each first list is there or has failed, when its time is over, or with ctx. The time counts from
// the beginning of the fetch, so that a provider that hangs holds up the callers of its first moments only.
func (c *Catalog) wait(ctx context.Context, now time.Time, first []pending) {
	var left time.Duration
	for _, p := range first {
		left = max(left, p.started.Add(c.o.FirstWait).Sub(now))
	}
	if left <= 0 {
		return
	}
	over := time.NewTimer(left)
	defer over.Stop()
	for _, p := range first {
		select {
		case <-p.done:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// ask asks the lister.
func (c *Catalog) ask(ctx context.Context, provider string) (got []Listed, err error) {
	defer rescue.Into(&err)
	return c.lister.ListModels(ctx, provider)
}

// fetch runs on its own goroutine: one for each source at a time. It belongs to the catalogue and not to the caller
// that started it, who may leave.
func (c *Catalog) fetch(s *source) {
	defer c.wg.Done()
	ctx, cancel := context.WithTimeout(c.ctx, c.o.FetchTimeout)
	defer cancel()
	got, err := c.ask(ctx, s.provider.Name)
	var models []*Model
	if err == nil {
		models = listed(s.provider, got)
	}
	now := c.o.Now()
	c.mu.Lock()
	if err == nil {
		s.failures, s.retry = 0, time.Time{}
		c.lists.Add(s.provider.Name, &list{got, models, now.Add(s.provider.ListModels.Every)})
		c.publish()
	} else {
		s.retry = now.Add(min(c.o.Backoff<<min(s.failures, 16), maxBackoff))
		s.failures++
	}
	close(s.done)
	s.done = nil
	c.schedule()
	c.mu.Unlock()
	if c.o.Fetched != nil {
		c.o.Fetched(s.provider.Name, len(models), err)
	}
}

// schedule says when a caller must look after the sources again. Callers hold mu.
func (c *Catalog) schedule() {
	due := int64(math.MaxInt64)
	for _, s := range c.sources {
		l, ok := c.lists.Peek(s.provider.Name)
		switch {
		case s.done == nil && ok:
			// A list that is stale is tried again at retry; a zero retry is long ago.
			due = min(due, max(l.until.UnixNano(), unixNano(s.retry)))
		case s.done == nil:
			due = min(due, unixNano(s.retry))
		case !ok && s.failures == 0:
			due = 0 // there is something to wait for
		}
		// A refresh in flight calls schedule when it ends.
	}
	c.due.Store(due)
}

// unixNano is 0 for the zero time, whose own value does not fit.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// publish puts the lists together: the configuration wins over a list, an earlier provider over a later one. Callers
// hold mu, or are New.
func (c *Catalog) publish() {
	s := &snapshot{models: append([]*Model(nil), c.fixed...), byID: map[string]*Model{}}
	for _, src := range c.sources {
		l, ok := c.lists.Peek(src.provider.Name)
		if !ok {
			continue
		}
		for _, m := range l.models {
			if _, known := s.byID[m.ID]; known || c.taken[m.ID] {
				continue
			}
			s.byID[m.ID] = m
			s.models = append(s.models, m)
		}
	}
	c.current.Store(s)
}
