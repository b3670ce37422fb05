package accounting

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// CheckStore connects to the configured store, and returns the duration of a round trip. The redactor removes the
// store's credentials from errors.
func CheckStore(ctx context.Context, c *config.Store, r *credential.Redactor) (time.Duration, error) {
	if c.URL == "" {
		return 0, errors.New("no store is configured: set url in [store]")
	}
	store, err := redisstore.Open(c)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	var began time.Time
	for range 2 { // the first round trip includes connecting
		began = time.Now()
		if err := store.Sync(ctx, []spend.Report{{Instance: "check", Number: 1, Lease: c.Lease}}, make([]spend.Reply, 1)); err != nil {
			return 0, errors.New(string(r.Redact([]byte(err.Error()))))
		}
	}
	return time.Since(began), nil
}

// Store describes the state of the store; nil if there is none.
func (b *Books) Store() *admin.Store {
	state, ok := b.book.State()
	if !ok {
		return nil
	}
	shown, n := admin.DescribeStore(state, b.current.Load().limits), b.book.Stats()
	if state.Err != nil {
		shown.Error = b.redact(state.Err)
	}
	shown.Trips, shown.Failed, shown.Denied, shown.Losses = n.Requests.Done, n.Requests.Failed, n.Denied, n.Lost
	return shown
}

// StoreStats returns the counts of requests to the store.
func (b *Books) StoreStats() spend.Stats { return b.book.Stats() }

// Degraded lists what does not work although requests are served.
func (b *Books) Degraded() (all []string) {
	if shown := b.Store(); shown != nil && shown.State != admin.StoreUp {
		all = append(all, shown.String())
	}
	if j := b.journal.Get(); j != nil {
		if since, err := j.Failure(); err != nil {
			all = append(all, fmt.Sprintf("journal: failing since %s: %v", since.UTC().Format(time.RFC3339), err))
		}
		if n := j.Stats().Damaged; n > 0 {
			all = append(all, fmt.Sprintf("journal: %d files were damaged or missing at the start; the log names them", n))
		}
	}
	return all
}

// logEvent logs events of budgets and of the store that operators should know about.
func (b *Books) logEvent(e spend.Event) {
	log := b.options.Log
	store := func(level slog.Level, text string, state spend.State, attrs ...any) {
		modes := admin.DescribeStore(state, b.current.Load().limits)
		log.Log(context.Background(), level, text, append(attrs, "limits", admin.ModeText(modes.Limits), "budgets", admin.ModeText(modes.Budgets))...)
	}
	switch e.Kind {
	case spend.EventWarned:
		log.Warn("budget nearly spent", e.Scope.Kind.String(), e.Scope.Name, "per", e.Per.String(), "usd", e.Amount.String())
		if b.options.Warned != nil {
			b.options.Warned(e)
		}
	case spend.EventExceededHold:
		log.Warn("request cost more than its estimated maximum", e.Scope.Kind.String(), e.Scope.Name, "usd", e.Amount.String())
	case spend.EventStoreDown:
		store(slog.LevelError, "store down", spend.State{Down: true}, "error", b.redact(e.Err))
	case spend.EventStoreLost:
		store(slog.LevelError, "store is new or has lost data; waiting for all gateways to report", spend.State{Lost: true})
	case spend.EventStoreUp:
		store(slog.LevelInfo, "store up", spend.State{})
	case spend.EventStoreSlow:
		log.Warn("the store's replies come near store.timeout, or later; raise it, or requests will be served without the store", "round_trip", e.Took.Round(time.Millisecond).String(), "store.timeout", b.config.Timeout.String())
	case spend.EventScopeDamaged:
		log.Error("damaged data in the store; limits and budgets of the scope follow when_down until it is repaired", e.Scope.Kind.String(), e.Scope.Name, "error", b.redact(e.Err))
	case spend.EventScopeRepaired:
		log.Info("the store counts the scope again", e.Scope.Kind.String(), e.Scope.Name)
	case spend.EventIdentity:
		log.Error("another gateway uses the same identity, perhaps from a copy of the state folder; continuing with a new identity")
	}
}

// redact returns the text of a store's error without credentials.
func (b *Books) redact(err error) string {
	return string(b.secrets.Redact([]byte(err.Error())))
}
