// Package accounting keeps the accounts of a gateway: usage and spending are counted in one book (package spend), which
// survives restarts through a journal and is shared with other gateways through a store.
//
// It owns the state folder, and decides what is open: a journal if the configuration has limits or budgets or names a
// folder for it, and a store if the configuration at the start has one. It also makes the changes of budgets that
// commands request (package budgets), and reports the state of store and journal to operators. It neither counts
// anything itself nor handles requests.
//
// Concurrency: Books are safe for concurrent use, except that only one goroutine at a time may call Use.
package accounting

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/statedir"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// journalFolder is the name of the journal's folder in the state folder.
const journalFolder = "journal"

// Options say where accounts are kept and who is notified of events.
type Options struct {
	StateDir string                      // state folder; "" keeps nothing across restarts
	Offline  bool                        // leaves journal and store closed, because no requests are served
	Redactor func() *credential.Redactor // returns the redactor of the store's credentials
	Warned   func(spend.Event)           // called with each budget that has reached its warn; must not block; may be nil
	Log      *slog.Logger
	Now      func() time.Time
}

// Books are the accounts of a gateway. Open returns them, and Close must be called.
type Books struct {
	config  *config.Store // [store] of the configuration at the start
	options Options

	state   statedir.Lazy
	journal journal.Lazy
	book    *spend.Book
	store   *redisstore.Store    // nil if nothing is shared
	secrets *credential.Redactor // redacts the store's credentials

	current atomic.Pointer[inUse]

	mu     sync.Mutex
	inbox  *budgets.Inbox // receives changes of budgets; nil without a journal
	closed bool           // openInbox must not open another inbox
}

// inUse holds the current limits and their accounts.
type inUse struct {
	limits   []spend.Limit
	accounts *spend.Accounts // nil until Use
}

// Open opens the books for the configuration at the start. A store that is down is not an error.
func Open(cfg *config.Config, o Options) (*Books, error) {
	b := &Books{config: &cfg.Store, options: o}
	b.state.Path = o.StateDir
	b.current.Store(&inUse{limits: spend.Configured(cfg)})
	if err := errors.Join(b.openJournal(cfg), b.openBook()); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// openBook opens the book, with the store, and with the journal, which may be opened later.
func (b *Books) openBook() (err error) {
	c := b.config
	o := spend.Options{Zone: c.Zone, Journal: b.journal.Budgets(), Events: b.logEvent, Now: b.options.Now}
	if c.URL != "" && !b.options.Offline {
		if b.store, err = redisstore.Open(c); err != nil {
			return err
		}
		b.secrets = b.options.Redactor()
		o.Store, o.Share, o.Lease, o.Timeout = b.store, &c.Share, c.Lease, c.Timeout
		if b.state.Path != "" {
			if o.Instance, err = b.state.Identity(); err != nil {
				b.options.Log.Warn("no lasting identity: after a restart the store treats this gateway as another one", "error", err)
			}
		}
	}
	b.book = spend.NewBook(o)
	return nil
}

// openJournal opens the journal in the state folder, unless it is already open, if a configuration names a folder for
// it or has limits or budgets. With limits alone, failure to open it is only logged; with budgets it is an error.
func (b *Books) openJournal(cfg *config.Config) error {
	required, log := cfg.Budgeted() || b.config.Journal != "", b.options.Log
	switch {
	case b.options.Offline || b.journal.Get() != nil || !required && !hasLimits(spend.Configured(cfg)):
		return nil
	case b.state.Path == "":
		if cfg.Budgeted() {
			log.Warn("no state folder: what budgets have spent will not survive a restart")
		}
		return nil
	}
	err := b.journal.Open(func() (*journal.Journal, error) {
		dir, err := b.state.Sub(journalFolder)
		if err != nil {
			return nil, err
		}
		return journal.Open(dir, journal.Options{
			Zone: b.config.Zone, Keep: b.config.Keep, Refuse: b.config.OnFailure == config.StoreRefuse, Log: log, Now: b.options.Now,
		})
	})
	if err != nil && !required {
		log.Warn("no journal: the use of limits will not survive a restart", "error", err)
		return nil
	}
	return err
}

// errNoJournal is the error of a reload that adds budgets to limits which are counted without a journal.
var errNoJournal = errors.New("budgets need the journal, which could not be opened at the start: change requires a restart")

// Prepare opens the journal for the next configuration, which may be the first to need it.
func (b *Books) Prepare(cfg *config.Config) error {
	switch {
	case b.journal.Get() != nil || b.state.Path == "" || !hasLimits(b.current.Load().limits):
		return b.openJournal(cfg)
	case cfg.Budgeted():
		return errNoJournal
	}
	return nil
}

func hasLimits(all []spend.Limit) bool {
	return slices.ContainsFunc(all, func(l spend.Limit) bool { return l.Limits != (config.Limits{}) || len(l.Budgets) > 0 })
}

// Accounts returns the accounts for the limits of a configuration. They do not affect the current ones until Use.
func (b *Books) Accounts(cfg *config.Config) (*spend.Accounts, error) {
	return b.book.Open(spend.Configured(cfg), b.options.Now())
}

// Use makes the accounts of a configuration current, and starts to accept changes of budgets once there is a journal.
func (b *Books) Use(cfg *config.Config, a *spend.Accounts) {
	b.current.Store(&inUse{spend.Configured(cfg), a})
	b.book.Prune(a)
	b.openInbox()
}

// Journal returns the journal, or nil if none is open.
func (b *Books) Journal() *journal.Journal { return b.journal.Get() }

// StateFolder returns the path of a folder in the state folder, for other state that must outlive the process. It
// creates the folder if necessary.
func (b *Books) StateFolder(name string) (string, error) { return b.state.Sub(name) }

// listedPrincipals is how many budgets of principals are listed, because there may be very many.
const listedPrincipals = 100

// Budgets returns the budgets in their current windows, and then those of principals of which most is spent.
func (b *Books) Budgets(f budgets.Filter) *budgets.List {
	accounts, now := b.current.Load().accounts, b.options.Now()
	return budgets.Describe(append(accounts.Status(now), accounts.Principals(now, listedPrincipals, f.Selects)...), f)
}

// Usage returns totals of the ledger, or nil if there is no ledger.
func (b *Books) Usage(q journal.Query) (*journal.Usage, error) {
	j := b.journal.Get()
	if j == nil {
		return nil, nil
	}
	q.Now = b.options.Now()
	return journal.ReadUsage(j.Dir(), j.Zone(), q)
}

// ReadUsage reads a gateway's ledger from its state folder, whether the gateway is running or not.
func ReadUsage(cfg *config.Config, stateDir string, q journal.Query) (*journal.Usage, error) {
	return journal.ReadUsage(filepath.Join(stateDir, journalFolder), cfg.Store.Zone, q)
}

// ReadBudgets reads the state of a gateway's budgets from its state folder, whether the gateway is running or not.
func ReadBudgets(cfg *config.Config, stateDir string, f budgets.Filter, now time.Time) (*budgets.State, error) {
	return budgets.Read(filepath.Join(stateDir, journalFolder), stateDir, spend.Configured(cfg), cfg.Store.Zone, f, now)
}

// closeTimeout is how long Close waits for the store, and then for the journal, in case a network or a disk does not
// respond.
const closeTimeout = 5 * time.Second

// Close stops changes of budgets, returns grants to the store, closes the journal, and releases the state folder. No
// requests may be in flight.
func (b *Books) Close() {
	defer b.state.Close()
	b.closeInbox()
	log := b.options.Log
	within := func(name string, close func() error) {
		closed := make(chan error, 1)
		go func() { closed <- close() }()
		select {
		case err := <-closed:
			if err != nil {
				log.Error("close "+name, "error", err)
			}
		case <-time.After(closeTimeout):
			log.Error("close "+name+": no response", "after", closeTimeout.String())
		}
	}
	if b.store != nil {
		within("store", func() error {
			defer b.store.Close()
			if b.book == nil {
				return nil
			}
			if err := b.book.Close(); err != nil {
				// Granted budgets stay booked as spent until the gateway runs again. Granted rates become free when the
				// lease ends.
				log.Warn("grants not returned to the store", "error", b.redact(err))
			}
			return nil
		})
	}
	within("journal", b.journal.Close)
}
