package spend

import "time"

// State is how it stands with the store that gateways share.
type State struct {
	Down  bool      // it cannot be reached: each shared limit is in the mode that is configured for it
	Lost  bool      // it has lost data, and grants nothing before all gateways have reported; the same modes are in force
	Since time.Time // when one of the two changed
	Err   error     // why it cannot be reached
}

// State returns how it stands with the store. ok is false if nothing is shared.
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

// observe takes note of how a round trip has ended.
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
		y.tellEverything()
		y.notify(Event{Kind: EventStoreUp})
	}
}

// observeLoss takes note of a store that has lost data.
func (y *syncer) observeLoss() {
	y.mu.Lock()
	was := y.state.Lost
	if !was {
		y.state.Lost, y.state.Since = true, y.now()
	}
	y.mu.Unlock()
	if !was {
		y.stats.lost.Add(1)
		y.tellEverything()
		y.notify(Event{Kind: EventStoreLost})
	}
}

// observeRecovery takes note of a store that grants again.
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
	was = y.state.Lost // another round trip may have been first
	if was {
		y.state.Lost, y.state.Since = false, y.now()
	}
	y.mu.Unlock()
	if was {
		y.notify(Event{Kind: EventStoreUp})
	}
}

// tellEverything has all scopes reported: the store may not know of them.
func (y *syncer) tellEverything() {
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

// pause returns how long to wait for the next round.
func (y *syncer) pause() time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !y.state.Down {
		return interval
	}
	y.wait = min(max(2*y.wait, leastBackoff), interval)
	return y.wait
}
