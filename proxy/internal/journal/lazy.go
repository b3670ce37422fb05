package journal

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Lazy is a Journal that is opened when a configuration first needs one, which may be after a reload. The zero value is
// not open. It is safe for concurrent use.
type Lazy struct {
	open atomic.Pointer[Journal]

	mu     sync.Mutex // held while the journal is being opened or closed
	closed bool
}

// Get returns the journal, or nil if it is not open.
func (l *Lazy) Get() *Journal { return l.open.Load() }

// Open opens the journal by calling open, unless it is open already. open may return nil and nil if no journal is
// needed.
func (l *Lazy) Open(open func() (*Journal, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return os.ErrClosed
	case l.Get() != nil:
		return nil
	}
	j, err := open()
	if err == nil {
		l.open.Store(j)
	}
	return err
}

// Close closes the journal if it is open. Get still returns it afterwards.
func (l *Lazy) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if j := l.Get(); j != nil {
		return j.Close()
	}
	return nil
}

// Budgets returns the journal as a spend.Journal. While the journal is not open, nothing is persisted, and Replay finds
// nothing.
func (l *Lazy) Budgets() spend.Journal { return lazyBudgets{l} }

type lazyBudgets struct{ l *Lazy }

func (b lazyBudgets) Hold(r *spend.Record) error {
	if j := b.l.Get(); j != nil {
		return j.Budgets().Hold(r)
	}
	return nil
}

// Settle settles a hold. It ignores holds that were made before the journal was opened.
func (b lazyBudgets) Settle(r *spend.Record) {
	if j := b.l.Get(); j != nil {
		j.Budgets().Settle(r)
	}
}

func (b lazyBudgets) Adjust(a *spend.Adjustment) error {
	if j := b.l.Get(); j != nil {
		return j.Budgets().Adjust(a)
	}
	return nil
}

func (b lazyBudgets) Replay(want func(spend.Scope) bool, used func(spend.Entry), adjusted func(spend.Adjustment)) error {
	if j := b.l.Get(); j != nil {
		return j.Budgets().Replay(want, used, adjusted)
	}
	return nil
}

func (b lazyBudgets) Used(s spend.Scope, used func(spend.Entry), adjusted func(spend.Adjustment)) bool {
	if j := b.l.Get(); j != nil {
		return j.Budgets().Used(s, used, adjusted)
	}
	return false
}
