// Package spendtest implements an in-memory spend.Store, the reference model for tests of other implementations. Tests
// can inject faults into it and make it lose its data.
//
// Concurrency: a Store is safe for concurrent use.
package spendtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/tokenbucket"
)

// Fault is a fault of a round trip.
type Fault uint8

// The faults.
const (
	None     Fault = iota
	Lose           // the request is lost
	LoseBack       // the request arrives, but the reply is lost
	Delay          // the request arrives at the next Deliver, and the reply is lost
	Repeat         // the round trip succeeds, and the request arrives again at the next Deliver
)

// ErrLost is returned for a round trip whose reply does not arrive.
var ErrLost = errors.New("the reply was lost")

// Store is a store in memory.
type Store struct {
	now func() time.Time

	mu        sync.Mutex
	scopes    map[spend.Scope]*scope
	recovered time.Time // end of the recovery, before which nothing is granted; zero if no data was lost
	fault     func() Fault
	delayed   []func()
	syncs     int
	reports   int
}

// NewStore returns an empty store that uses the clock now.
func NewStore(now func() time.Time) *Store {
	return &Store{now: now, scopes: make(map[spend.Scope]*scope)}
}

// scope is the store's data of a scope.
type scope struct {
	gateways  map[string]gateway // by instance
	counters  map[counterID]*counter
	recovered time.Time // as Store.recovered
}

type gateway struct{ number, first int64 }

type counterID struct {
	kind   spend.CounterKind
	per    int
	start  int64 // start of the window, in nanoseconds
	ending int64 // end of the window, in nanoseconds; 0 if it has none
}

type counter struct {
	level   tokenbucket.Bucket // usage, only for a rate
	records map[string]record  // by instance
	credits map[string]int64   // by ID
}

// record is the amount of a counter that a gateway has been granted and has used.
type record struct {
	granted, used int64
	expires       time.Time
}

// Inject sets a function that is called for each round trip and returns its fault. nil disables faults.
func (s *Store) Inject(fault func() Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Syncs returns the number of calls of Sync, including those that were lost, and of their reports with counters.
func (s *Store) Syncs() (calls, reports int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncs, s.reports
}

// Deliver delivers all delayed requests.
func (s *Store) Deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, deliver := range s.delayed {
		deliver()
	}
	s.delayed = nil
}

// Wipe loses all data.
func (s *Store) Wipe() { s.Restore(nil) }

// Snapshot returns a copy of the data.
func (s *Store) Snapshot() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clone(s.scopes)
}

// Restore replaces the data with a snapshot from Snapshot, or deletes it if snapshot is nil.
func (s *Store) Restore(snapshot any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, _ := snapshot.(map[spend.Scope]*scope)
	s.scopes = clone(old)
	s.recovered = s.now().Add(spend.Recovery)
}

func clone(all map[spend.Scope]*scope) map[spend.Scope]*scope {
	out := make(map[spend.Scope]*scope, len(all))
	for name, data := range all {
		c := &scope{gateways: maps.Clone(data.gateways), counters: make(map[counterID]*counter, len(data.counters)), recovered: data.recovered}
		for id, n := range data.counters {
			c.counters[id] = &counter{level: n.level, records: maps.Clone(n.records), credits: maps.Clone(n.credits)}
		}
		out[name] = c
	}
	return out
}

// Total is the sum over all gateways of a counter in a window.
type Total struct{ Taken, Used, Outstanding int64 }

// Total returns the sum over all gateways of a counter; w is the window for money, and ignored otherwise.
func (s *Store) Total(name spend.Scope, kind spend.CounterKind, w spend.Window, limit int64) Total {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	c := s.scope(name).counter(&spend.Counter{Of: kind, Window: w}, now)
	c.expire(kind, limit, now)
	t := c.total(kind, now)
	return Total{Taken: t.taken, Used: t.used, Outstanding: t.outstanding}
}

// trip makes a round trip, in which do is the store's part, with the injected fault. s.mu must be held.
func (s *Store) trip(do func()) error {
	fault := None
	if s.fault != nil {
		fault = s.fault()
	}
	switch fault {
	case Lose:
		return ErrLost
	case Delay:
		s.delayed = append(s.delayed, do)
		return ErrLost
	case LoseBack:
		do()
		return ErrLost
	case Repeat:
		s.delayed = append(s.delayed, do)
	}
	do()
	return nil
}

// Sync implements spend.Store.
func (s *Store) Sync(ctx context.Context, reports []spend.Report, replies []spend.Reply) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs++
	sent := slices.Clone(reports)
	for i := range sent {
		sent[i].Counters = slices.Clone(sent[i].Counters)
		if len(sent[i].Counters) > 0 {
			s.reports++
		}
	}
	var out []spend.Reply
	err := s.trip(func() {
		out = make([]spend.Reply, len(sent)) // allocated here because a delayed request must not write to the caller's replies
		for i := range sent {
			s.sync(&sent[i], &out[i])
		}
	})
	if err == nil {
		copy(replies, out)
	}
	return err
}

// Credit implements spend.Store.
func (s *Store) Credit(ctx context.Context, name spend.Scope, w spend.Window, amount cost.Nano, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trip(func() {
		if now := s.now(); w.Contains(now) {
			s.scope(name).counter(&spend.Counter{Of: spend.Money, Window: w}, now).credits[id] = int64(amount)
		}
	})
}

func (s *Store) scope(name spend.Scope) *scope {
	data := s.scopes[name]
	if data == nil {
		data = &scope{gateways: make(map[string]gateway), counters: make(map[counterID]*counter)}
		s.scopes[name] = data
	}
	return data
}

// counter returns a counter, and creates it on first use. It deletes the counters of windows that have ended.
func (s *scope) counter(c *spend.Counter, now time.Time) *counter {
	maps.DeleteFunc(s.counters, func(id counterID, _ *counter) bool { return id.ending != 0 && now.UnixNano() >= id.ending })
	id := counterID{kind: c.Of}
	if c.Of == spend.Money {
		id.per = int(c.Window.Per)
		if !c.Window.End.IsZero() {
			id.start, id.ending = c.Window.Start.UnixNano(), c.Window.End.UnixNano()
		}
	}
	n := s.counters[id]
	if n == nil {
		n = &counter{records: make(map[string]record), credits: make(map[string]int64)}
		s.counters[id] = n
	}
	return n
}

func (s *Store) sync(r *spend.Report, reply *spend.Reply) {
	now := s.now()
	reply.Time = now
	if len(r.Counters) == 0 {
		reply.Lost = now.Before(s.recovered)
		return
	}
	data := s.scope(r.Scope)
	last, known := data.gateways[r.Instance]
	if known && r.Number <= last.number {
		reply.Stale, reply.Number = true, last.number
		return
	}
	behind := r.Acknowledged > last.number
	if behind {
		data.recovered = now.Add(spend.Recovery)
	}
	data.gateways[r.Instance] = gateway{r.Number, r.First}
	reply.Number, reply.Lost = r.Number, now.Before(s.recovered) || now.Before(data.recovered)
	for i := range r.Counters {
		c := &r.Counters[i]
		if c.Of == spend.Money && !c.Window.Contains(now) {
			reply.Counters = append(reply.Counters, spend.Granted{})
			continue
		}
		n := data.counter(c, now)
		n.expire(c.Of, c.Limit, now)
		n.report(r, c, known && last.first == r.First, behind, now)
		reply.Counters = append(reply.Counters, n.grant(r, c, reply.Lost, now))
	}
}

// expire drains a rate, and adds to its level the unused grants of gateways whose lease has expired, as of the time of
// the expiry.
func (n *counter) expire(kind spend.CounterKind, limit int64, now time.Time) {
	if kind != spend.Requests && kind != spend.Tokens {
		return
	}
	expired := slices.DeleteFunc(slices.Collect(maps.Keys(n.records)), func(instance string) bool {
		rec := n.records[instance]
		return now.Before(rec.expires) || rec.used >= rec.granted
	})
	slices.SortFunc(expired, func(a, b string) int { return n.records[a].expires.Compare(n.records[b].expires) })
	for _, instance := range expired {
		rec := n.records[instance]
		n.level.Drain(limit, rec.expires)
		n.level.Add(rec.granted - rec.used)
		rec.used = rec.granted
		n.records[instance] = rec
	}
	n.level.Drain(limit, now)
}

// report applies a gateway's report of a counter. same is set if the gateway's counts of rates continue those of its
// previous report, and behind if the store has lost reports of the gateway.
func (n *counter) report(r *spend.Report, c *spend.Counter, same, behind bool, now time.Time) {
	had, known := n.records[r.Instance]
	if c.Of == spend.Requests || c.Of == spend.Tokens {
		added := c.Used - had.used
		switch {
		case !known:
			added = c.Level
		case !same:
			n.level.Add(had.granted - had.used)
			added = min(c.Used, c.Level)
		case behind:
			added = c.Level // the usage since the record was copied, and possibly some of the usage before
		case !now.Before(had.expires):
			added = min(added, c.Level)
		}
		n.level.Add(max(added, 0))
	}
	n.records[r.Instance] = record{c.Granted, c.Used, now.Add(r.Lease)}
}

type total struct{ taken, used, outstanding, credit int64 }

func (n *counter) total(kind spend.CounterKind, now time.Time) (t total) {
	for _, rec := range n.records {
		expired := !now.Before(rec.expires)
		switch {
		case kind == spend.Concurrent && expired:
		case kind == spend.Money && expired:
			t.taken += rec.granted
			t.used += rec.granted
		default:
			t.taken += rec.granted
			t.used += rec.used
			t.outstanding += rec.granted - rec.used
		}
	}
	for _, amount := range n.credits {
		t.credit += amount
	}
	if kind == spend.Requests || kind == spend.Tokens {
		t.taken = n.level.Level() + t.outstanding
	}
	return t
}

// grant grants the wanted amount, or a share of the rest if that is more, unless less than the minimum is left. It
// returns the reply.
func (n *counter) grant(r *spend.Report, c *spend.Counter, lost bool, now time.Time) spend.Granted {
	t := n.total(c.Of, now)
	left := c.Limit + t.credit - t.taken
	granted := int64(0)
	if c.Want > 0 && left >= max(c.Least, 1) && !lost {
		granted = min(left, max(min(c.Want, left), int64(c.Share*float64(left))))
		rec := n.records[r.Instance]
		rec.granted += granted
		n.records[r.Instance] = rec
	}
	g := spend.Granted{Granted: c.Granted + granted, Taken: t.taken + granted, Credit: t.credit}
	switch {
	case c.Of == spend.Money:
		g.Used = t.used
	case c.Of != spend.Concurrent && c.Want > 0 && granted == 0 && t.outstanding+c.Least <= c.Limit:
		g.Retry = n.level.Wait(t.outstanding+c.Least, c.Limit)
	}
	return g
}
