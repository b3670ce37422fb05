package spend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// State is the state of the store that gateways share.
type State struct {
	Down  bool      // the store cannot be reached; each shared limit follows its mode for that
	Lost  bool      // the store has lost data and grants nothing until all gateways have reported; the same modes apply
	Since time.Time // when Down or Lost changed last
	Err   error     // why the store cannot be reached
}

// State returns the state of the store. ok is false if there is no store.
func (b *Book) State() (s State, ok bool) {
	if b.sync == nil {
		return State{}, false
	}
	b.sync.mu.Lock()
	defer b.sync.mu.Unlock()
	return b.sync.state, true
}

// reachable reports whether the store can be asked for more of a scope.
func (b *Book) reachable(s *shared) bool {
	return !b.sync.unreachable.Load() && !s.lost && s.damaged == nil
}

// observe updates the state with the result of a round trip that began at began. A single late reply does not mean that
// the store is down. A second one in a row does; of round trips that were under way at the same time, only the first
// counts.
func (y *syncer) observe(began time.Time, err error) {
	y.mu.Lock()
	was, now := y.state.Down, y.now()
	if errors.Is(err, context.DeadlineExceeded) {
		if again := !y.late.IsZero() && !began.Before(y.late); !again && !was {
			if y.late.IsZero() {
				y.late = time.Now()
			}
			y.mu.Unlock()
			return
		}
		err = fmt.Errorf("no reply within store.timeout, twice in a row: %w", err)
	} else if err == nil {
		y.late = time.Time{}
	}
	switch {
	case y.closed:
		y.mu.Unlock()
		return
	case err != nil && !was:
		if now.Sub(y.state.Since) >= steady {
			y.wait = 0
		}
		y.state.Down, y.state.Since, y.state.Err = true, now, err
		y.unreachable.Store(true)
	case err == nil && was:
		y.state.Down, y.state.Since, y.state.Err = false, now, nil
		y.unreachable.Store(false)
	}
	y.mu.Unlock()
	switch {
	case err != nil && !was:
		y.notify(Event{Kind: EventStoreDown, Err: err})
		y.wake()
	case err == nil && was:
		y.reportEverything()
		y.notify(Event{Kind: EventStoreUp})
	}
}

// hintEvery is the least time between two events about slow round trips.
const hintEvery = time.Minute

// hintSlow sends an event if a round trip took so long that the store may soon be taken to be down.
func (y *syncer) hintSlow(took time.Duration) {
	if took < y.timeout*3/4 {
		return
	}
	y.mu.Lock()
	now := time.Now()
	hint := !y.state.Down && (y.hinted.IsZero() || now.Sub(y.hinted) >= hintEvery)
	if hint {
		y.hinted = now
	}
	y.mu.Unlock()
	if hint {
		y.notify(Event{Kind: EventStoreSlow, Took: took})
	}
}

// observeScope updates whether the store's data of a scope is damaged, with the error of a reply about it.
func (y *syncer) observeScope(u *usage, err error) {
	u.mu.Lock()
	s := u.shared
	was, scope := s.damaged, s.account.scope
	s.damaged = err
	u.mu.Unlock()
	if err != nil {
		y.stats.damaged.Add(1)
	}
	switch {
	case err != nil && was == nil:
		y.notify(Event{Kind: EventScopeDamaged, Scope: scope, Err: err})
	case err == nil && was != nil:
		y.notify(Event{Kind: EventScopeRepaired, Scope: scope})
	}
}

// observeLoss updates the state when a reply says that the store has lost data.
func (y *syncer) observeLoss() {
	y.mu.Lock()
	was := y.state.Lost
	if !was {
		y.state.Lost, y.state.Since = true, y.now()
	}
	y.mu.Unlock()
	if !was {
		y.stats.lost.Add(1)
		y.reportEverything()
		y.notify(Event{Kind: EventStoreLost})
	}
}

// observeRecovery updates the state once replies about all scopes say that the store grants again.
func (y *syncer) observeRecovery() {
	y.mu.Lock()
	was := y.state.Lost
	y.mu.Unlock()
	if !was {
		return
	}
	all, _ := y.book.allShared()
	for _, u := range all {
		u.mu.Lock()
		lost := u.shared.lost && u.shared.damaged == nil
		u.mu.Unlock()
		if lost {
			return
		}
	}
	y.mu.Lock()
	was = y.state.Lost // another round trip may have changed it meanwhile
	if was {
		y.state.Lost, y.state.Since = false, y.now()
	}
	y.mu.Unlock()
	if was {
		y.notify(Event{Kind: EventStoreUp})
	}
}

// reportEverything schedules a report of all scopes that have been used or have grants, because the store may not know
// about them.
func (y *syncer) reportEverything() {
	all, _ := y.book.allShared()
	for _, u := range all {
		u.mu.Lock()
		u.shared.dirty = u.shared.dirty || u.used() || u.shared.outstanding(u)
		u.mu.Unlock()
	}
	y.wake()
}

func (y *syncer) notify(e Event) {
	if y.book.events != nil {
		y.book.events(e)
	}
}

// pause returns how long to wait before the next round.
func (y *syncer) pause() time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case !y.state.Down && y.late.IsZero():
		return interval
	case !y.state.Down:
		return leastBackoff // another late reply means that the store is down
	}
	y.wait = min(max(2*y.wait, leastBackoff), interval)
	return y.wait
}
