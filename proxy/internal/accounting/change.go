package accounting

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// openInbox starts to accept changes of budgets, which commands write into the state folder, if there is a journal.
func (b *Books) openInbox() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal.Get() == nil || b.inbox != nil || b.closed {
		return
	}
	dir, err := b.state.Sub(budgets.Folder)
	if err != nil {
		b.options.Log.Warn("changes of budgets by command are disabled", "error", err)
		return
	}
	b.inbox = budgets.Open(dir, b.change, b.options.Log)
}

// closeInbox stops accepting changes of budgets.
func (b *Books) closeInbox() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.inbox.Close()
}

// change makes a change of a budget that an operator has requested, and describes the result.
func (b *Books) change(c *budgets.Change) (string, error) {
	accounts, now, zone := b.current.Load().accounts, b.options.Now(), b.config.Zone
	find := func() *spend.Status {
		for _, s := range accounts.Status(now) {
			if s.Scope == c.Scope && s.Per == c.Per {
				return &s
			}
		}
		return nil
	}
	s := find()
	switch {
	case s == nil:
		return "", fmt.Errorf("%s has no budget per %s", c.Scope, c.Per)
	case !s.Start.Equal(c.Start):
		return "", fmt.Errorf("the window that began at %s is not the current one of the budget per %s of %s", c.Start.In(zone).Format(time.RFC3339), c.Per, c.Scope)
	}
	credit, released, result := c.Raise, cost.Nano(0), "raised by "+c.Raise.String()+" USD"
	switch {
	case c.Release:
		if credit, released = s.Uncertain, s.Uncertain; credit <= 0 {
			return fmt.Sprintf("nothing to release: the budget per %s of %s has booked nothing for unknown outcomes", c.Per, c.Scope), nil
		}
		result = "has " + credit.String() + " USD back that were booked for unknown outcomes"
	case c.Raise == 0:
		if credit, released, result = s.Spent-s.Raised, s.Uncertain, "reset"; credit <= 0 {
			return fmt.Sprintf("nothing to reset: the budget per %s of %s has %s USD left", c.Per, c.Scope, s.Left()), nil
		}
	}
	err := b.book.Adjust(spend.Adjustment{Scope: c.Scope, Per: c.Per, At: now, Credit: credit, Released: released, Reason: c.Reason, ID: c.ID})
	switch {
	case errors.Is(err, spend.ErrRepeated): // the change was made, but the process ended before it could report that
	case err != nil:
		return "", fmt.Errorf("%w: %w", budgets.ErrLater, err)
	default:
		b.options.Log.Info("budget changed", c.Scope.Kind.String(), c.Scope.Name, "per", c.Per.String(), "credit_usd", credit.String(), "reason", c.Reason, "id", c.ID)
	}
	until := ""
	if s = find(); !s.End.IsZero() {
		until = " until " + s.End.Format(time.RFC3339)
	}
	return fmt.Sprintf("budget per %s of %s %s: %s of %s USD are left%s", c.Per, c.Scope, result, s.Left(), s.Limit, until), nil
}
