package spend

import "time"

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
func (b *Book) reachable(s *shared) bool { return !b.sync.unreachable.Load() && !s.lost }

// observe updates the state with the result of a round trip.
func (y *syncer) observe(err error) {
	y.mu.Lock()
	was, now := y.state.Down, y.now()
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
		lost := u.shared.lost
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

// reportEverything schedules a report of all scopes that have been used, because the store may not know about them.
func (y *syncer) reportEverything() {
	all, _ := y.book.allShared()
	for _, u := range all {
		u.mu.Lock()
		u.shared.dirty = u.shared.dirty || u.used()
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
	if !y.state.Down {
		return interval
	}
	y.wait = min(max(2*y.wait, leastBackoff), interval)
	return y.wait
}
