// Package catalog holds the models that clients can request: those of the configuration, and those that providers list.
//
// It owns the cache of the providers' lists and the JSON of a model. It does not call providers, which a Lister does,
// and it does not check which models a key may use, which is up to callers.
//
// A provider's list is fresh for the configured time. A stale list is still served while it is refreshed in the
// background. If the refresh fails, the old list stays and the refresh is retried with exponential backoff. Callers
// wait only while a provider's first list is being fetched, and for a bounded time. An unknown id causes no fetch while
// the lists are fresh.
//
// Concurrency: a Catalog is safe for concurrent use. It owns the goroutines that fetch lists; Close stops them and
// waits.
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

// Lister fetches the complete list of a provider's models.
type Lister interface {
	ListModels(ctx context.Context, provider string) ([]Listed, error)
}

// Options configure a Catalog. The zero value is valid.
type Options struct {
	FirstWait    time.Duration // maximum wait of a caller for a first list; 0 means 2 s
	FetchTimeout time.Duration // timeout of one fetch; 0 means 30 s
	Backoff      time.Duration // delay after the first failure, doubled after each further one; 0 means 5 s

	// Fetched is called at the end of each fetch, on its goroutine. May be nil.
	Fetched func(provider string, models int, err error)

	// Previous is the catalog of the previous configuration. Lists of unchanged providers are inherited, so that listed
	// models survive a reload. May be nil or closed.
	Previous *Catalog

	Now func() time.Time // nil means time.Now
}

// maxBackoff bounds the delay between two attempts.
const maxBackoff = 5 * time.Minute

// Catalog holds the models of one configuration.
type Catalog struct {
	config     *config.Config
	lister     Lister
	o          Options
	configured []*Model
	byID       map[string]*Model // configured, by id
	reserved   map[string]bool   // all configured ids, including those of models that are off
	direct     []*Model          // models of configured targets, under their direct names
	directByID map[string]*Model // direct, by id
	sources    []*source

	current atomic.Pointer[snapshot]
	due     atomic.Int64 // earliest time of the next fetch, in Unix nanoseconds; callers do not take mu before it

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex                // guards the fields below, the state of sources, and writes to current and due
	lists  *lru.Cache[string, *list] // by provider
	closed bool
}

// snapshot is the merged list of models. It is immutable once published.
type snapshot struct {
	models []*Model
	byID   map[string]*Model // listed models only, including those under their direct names
}

// list is a provider's list.
type list struct {
	listed []Listed
	models []*Model
	until  time.Time // end of freshness
}

// source is a provider whose listed models clients may request, and the state of its fetches.
type source struct {
	provider *config.Provider
	done     chan struct{} // closed at the end of the fetch in flight; nil if there is none
	started  time.Time     // start of the fetch in flight
	failures int           // consecutive failed fetches
	retry    time.Time     // earliest time of the next fetch; zero after a success
}

// New returns the catalog of a configuration. Lists are fetched on first use, or by Prefetch.
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
	c := &Catalog{config: cfg, lister: l, o: o, configured: configuredModels(cfg), byID: map[string]*Model{}, reserved: map[string]bool{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, m := range c.configured {
		c.byID[m.ID] = m
	}
	for i := range cfg.Models {
		c.reserved[cfg.Models[i].ID] = true
	}
	c.direct, c.directByID = configuredDirect(cfg, c.configured)
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; p.Off == "" && p.ListModels.Enabled {
			c.sources = append(c.sources, &source{provider: p})
		}
	}
	// One list per source. New fails only for a size below 1.
	c.lists, _ = lru.New[string, *list](max(1, len(c.sources)))
	if previous != nil {
		c.inherit(previous)
	}
	c.publish()
	return c
}

// inherit copies the lists of unchanged providers from an older catalog. They become stale at the same time as there.
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
				c.lists.Add(a.Name, &list{l.listed, listedModels(c.config, a, l.listed), l.until})
			}
		}
	}
}

// Close cancels the fetches in flight and waits for them. The lists stay available.
func (c *Catalog) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Prefetch starts the fetches that are due, without waiting for them.
func (c *Catalog) Prefetch() { c.startFetches(c.o.Now()) }

// Model returns the model with that id or, if there is none, with that direct name. It waits only if the id is unknown
// and a first list is being fetched. For a known id it does not allocate.
func (c *Catalog) Model(ctx context.Context, id string) (*Model, bool) {
	if m, ok := c.byID[id]; ok {
		return m, true
	}
	if c.reserved[id] {
		return nil, false
	}
	if c.directByID[id] != nil {
		return c.Known(id)
	}
	return c.listed(ctx, id)
}

// listed returns the listed model with an id or direct name, and starts the fetches that are due.
func (c *Catalog) listed(ctx context.Context, id string) (*Model, bool) {
	if len(c.sources) == 0 {
		return nil, false
	}
	now := c.o.Now()
	m, ok := c.current.Load().byID[id]
	if now.UnixNano() < c.due.Load() {
		return m, ok
	}
	first := c.startFetches(now)
	if ok {
		return m, true
	}
	c.awaitFirst(ctx, now, first)
	m, ok = c.current.Load().byID[id]
	return m, ok
}

// Known is like Model, but neither fetches a list nor waits for one.
func (c *Catalog) Known(id string) (*Model, bool) {
	if m, ok := c.byID[id]; ok {
		return m, true
	}
	if c.reserved[id] {
		return nil, false
	}
	m, ok := c.current.Load().byID[id]
	// An id that a provider lists takes precedence over the direct name of a configured target.
	if direct, known := c.directByID[id]; known && (!ok || m.Own != "") {
		return direct, true
	}
	return m, ok
}

// DirectNames returns the models that providers call own, under their direct names. It does not fetch lists.
func (c *Catalog) DirectNames(own string) (models []*Model) {
	for _, m := range c.direct {
		if m.Own == own {
			models = append(models, m)
		}
	}
	s := c.current.Load()
	for _, src := range c.sources {
		if m, ok := s.byID[directName(src.provider.Name, own)]; ok && m.Own != "" {
			models = append(models, m)
		}
	}
	return models
}

// List returns all models: first the configured ones in the order of the configuration, then models of configured
// targets that can be requested by their direct name only, then the models that each provider lists, sorted by id. A
// model whose id an earlier provider lists, too, appears under its direct name. The slice is shared and must not be
// modified.
func (c *Catalog) List(ctx context.Context) []*Model {
	if now := c.o.Now(); len(c.sources) > 0 && now.UnixNano() >= c.due.Load() {
		c.awaitFirst(ctx, now, c.startFetches(now))
	}
	return c.current.Load().models
}

// Listed returns the models of List after the configured ones, without fetching lists. The slice is shared and must not
// be modified.
func (c *Catalog) Listed() []*Model { return c.current.Load().models[len(c.configured):] }

// pending is a first list in flight.
type pending struct {
	done    chan struct{}
	started time.Time
}

// startFetches starts the fetches that are due, and returns the first lists in flight.
func (c *Catalog) startFetches(now time.Time) (first []pending) {
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

// awaitFirst waits until the fetch of each first list has ended, but no longer than FirstWait or ctx. FirstWait counts
// from the start of a fetch, so that a provider that hangs delays only the first callers.
func (c *Catalog) awaitFirst(ctx context.Context, now time.Time, first []pending) {
	var left time.Duration
	for _, p := range first {
		left = max(left, p.started.Add(c.o.FirstWait).Sub(now))
	}
	if left <= 0 {
		return
	}
	timeout := time.NewTimer(left)
	defer timeout.Stop()
	for _, p := range first {
		select {
		case <-p.done:
		case <-timeout.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// callLister calls the lister, and turns a panic into an error.
func (c *Catalog) callLister(ctx context.Context, provider string) (got []Listed, err error) {
	defer rescue.Into(&err)
	return c.lister.ListModels(ctx, provider)
}

// fetch fetches a source's list. It runs on a goroutine of its own, at most one per source, so that it outlives the
// request that started it.
func (c *Catalog) fetch(s *source) {
	defer c.wg.Done()
	ctx, cancel := context.WithTimeout(c.ctx, c.o.FetchTimeout)
	defer cancel()
	got, err := c.callLister(ctx, s.provider.Name)
	var models []*Model
	if err == nil {
		models = listedModels(c.config, s.provider, got)
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

// schedule sets due. The caller holds mu.
func (c *Catalog) schedule() {
	due := int64(math.MaxInt64)
	for _, s := range c.sources {
		l, ok := c.lists.Peek(s.provider.Name)
		switch {
		case s.done == nil && ok:
			// A stale list is refreshed at retry, which is zero after a success.
			due = min(due, max(l.until.UnixNano(), unixNano(s.retry)))
		case s.done == nil:
			due = min(due, unixNano(s.retry))
		case !ok && s.failures == 0:
			due = 0 // callers may have to wait
		}
		// A refresh in flight calls schedule when it ends.
	}
	c.due.Store(due)
}

// unixNano is t.UnixNano, but returns 0 for the zero time, for which UnixNano is undefined.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// publish merges the lists into a new snapshot. The configuration takes precedence over lists, an earlier provider over
// a later one, and an id over a direct name. The caller holds mu, unless it is New.
func (c *Catalog) publish() {
	s := &snapshot{models: append([]*Model(nil), c.configured...), byID: map[string]*Model{}}
	var all [][]*Model
	for _, src := range c.sources {
		if l, ok := c.lists.Peek(src.provider.Name); ok {
			all = append(all, l.models)
		}
	}
	for _, models := range all {
		for _, m := range models {
			if s.byID[m.ID] == nil && !c.reserved[m.ID] {
				s.byID[m.ID] = m
			}
		}
	}
	for _, m := range c.direct {
		if !c.reserved[m.Own] && s.byID[m.Own] == nil && !c.reserved[m.ID] && s.byID[m.ID] == nil {
			s.models = append(s.models, m)
		}
	}
	for _, models := range all {
		for _, m := range models {
			d := m.Direct
			if d != nil && (s.byID[d.ID] != nil || c.reserved[d.ID]) {
				d = nil // the direct name is the id of another model
			}
			switch {
			case s.byID[m.ID] == m:
				s.models = append(s.models, m)
			case d != nil && !c.reserved[m.ID] && c.directByID[d.ID] == nil:
				s.models = append(s.models, d)
			}
			if d != nil {
				s.byID[d.ID] = d
			}
		}
	}
	c.current.Store(s)
}
