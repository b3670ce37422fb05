// Package accounting keeps the accounts of a gateway: what requests use and spend is counted in one book (package spend), which outlives
// the process in a journal and is shared with other gateways in a store.
//
// It owns the state folder, and decides which of these are open: a journal where a configuration has limits or budgets, or names a folder
// for it, and a store where the configuration at the start has one. It also makes the changes of budgets that commands ask for (package
// budgets), and tells operators how it stands. It does not count, and knows no request.
//
// Concurrency: Books are safe for concurrent use. Use is called by one goroutine at a time.
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

// journalFolder is the journal's folder in the state folder.
const journalFolder = "journal"

// Options say where accounts are kept, and who learns of them.
type Options struct {
	StateDir string                      // "": nothing outlives the process
	Offline  bool                        // neither the journal nor the store is opened: no requests are served
	Redactor func() *credential.Redactor // makes what takes the credentials of a store out of its errors
	Log      *slog.Logger
	Now      func() time.Time
}

// Books are the accounts of a gateway. Open returns them; Close closes them.
type Books struct {
	config  *config.Store // of the configuration at the start
	options Options

	state   statedir.Lazy
	journal journal.Lazy
	book    *spend.Book
	store   *redisstore.Store    // nil: nothing is shared
	secrets *credential.Redactor // of the store

	current atomic.Pointer[inUse]

	mu     sync.Mutex
	inbox  *budgets.Inbox // changes of budgets; nil: without a journal there are none
	closed bool           // no inbox is opened any more
}

// inUse is what requests are counted by.
type inUse struct {
	limits   []spend.Limit
	accounts *spend.Accounts // nil until Use
}

// Open opens the books of a gateway that starts with a configuration. A store that is down does not keep it from starting.
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

// openBook makes what counts, with the journal that may be opened later, and with the store.
func (b *Books) openBook() (err error) {
	c := b.config
	o := spend.Options{Zone: c.Zone, Journal: b.journal.Budgets(), Events: b.logEvent, Now: b.options.Now}
	if c.URL != "" && !b.options.Offline {
		if b.store, err = redisstore.Open(c); err != nil {
			return err
		}
		b.secrets = b.options.Redactor()
		o.Store, o.Share, o.Lease, o.Timeout = b.store, c.Share, c.Lease, c.Timeout
		if b.state.Path != "" {
			if o.Instance, err = b.state.Identity(); err != nil {
				b.options.Log.Warn("after a restart the store takes the gateway for another one", "error", err)
			}
		}
	}
	b.book = spend.NewBook(o)
	return nil
}

// openJournal opens the journal in the state folder, unless it is open, if a configuration names a folder for it, or has limits or budgets.
// Without limits and budgets nobody misses it, and with limits alone a gateway serves without; with budgets it does not.
func (b *Books) openJournal(cfg *config.Config) error {
	required, log := cfg.Budgeted() || b.config.Journal != "", b.options.Log
	switch {
	case b.options.Offline || b.journal.Get() != nil || !required && !hasLimits(spend.Configured(cfg)):
		return nil
	case b.state.Path == "":
		if cfg.Budgeted() {
			log.Warn("no state folder: what is spent of budgets is forgotten at a restart")
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
		log.Warn("no journal: what is used of limits is forgotten at a restart", "error", err)
		return nil
	}
	return err
}

// errNoJournal is for budgets that a reload adds to limits whose use is not in the journal.
var errNoJournal = errors.New("budgets need the journal, which could not be opened at the start: change requires a restart")

// Prepare opens the journal for a configuration that comes after the one in use, and may be the first to need it.
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

// Accounts returns the accounts of what a configuration limits, which do not count for anybody else until Use.
func (b *Books) Accounts(cfg *config.Config) (*spend.Accounts, error) {
	return b.book.Open(spend.Configured(cfg), b.options.Now())
}

// Use puts the accounts of a configuration in the place of those before, and begins to make changes of budgets once there is a journal.
func (b *Books) Use(cfg *config.Config, a *spend.Accounts) {
	b.current.Store(&inUse{spend.Configured(cfg), a})
	b.book.Prune(a)
	b.openInbox()
}

// Journal returns the journal, nil while there is none.
func (b *Books) Journal() *journal.Journal { return b.journal.Get() }

// StateFolder returns the path of a folder in the state folder, for what else must outlive the process. It is created if it does not exist.
func (b *Books) StateFolder(name string) (string, error) { return b.state.Sub(name) }

// Budgets lists the budgets in their current windows.
func (b *Books) Budgets(f budgets.Filter) *budgets.List {
	return budgets.Describe(b.current.Load().accounts.Status(b.options.Now()), f)
}

// Usage returns the ledger's sums, nil if there is no ledger.
func (b *Books) Usage(q journal.Query) (*journal.Usage, error) {
	j := b.journal.Get()
	if j == nil {
		return nil, nil
	}
	// What cannot be written is not in the ledger, which is shown as it is.
	_ = j.Flush()
	return journal.ReadUsage(j.Dir(), j.Zone(), q)
}

// ReadUsage reads the ledger of a gateway with a configuration in its state folder, whether the gateway is running or not.
func ReadUsage(cfg *config.Config, stateDir string, q journal.Query) (*journal.Usage, error) {
	return journal.ReadUsage(filepath.Join(stateDir, journalFolder), cfg.Store.Zone, q)
}

// ReadBudgets reads the budgets of a gateway with a configuration in its state folder, whether the gateway is running or not.
func ReadBudgets(cfg *config.Config, stateDir string, f budgets.Filter, now time.Time) (*budgets.State, error) {
	return budgets.Read(filepath.Join(stateDir, journalFolder), stateDir, spend.Configured(cfg), cfg.Store.Zone, f, now)
}

// closeTimeout is how long Close waits for each of the store and the journal: a network or a disk may have stopped to respond.
const closeTimeout = 5 * time.Second

// Close ends changes of budgets, gives back what is granted of the store, closes the journal, and gives the state folder back. No requests
// are in flight.
func (b *Books) Close() {
	defer b.state.Close()
	b.closeInbox()
	log := b.options.Log
	within := func(what string, close func() error) {
		closed := make(chan error, 1)
		go func() { closed <- close() }()
		select {
		case err := <-closed:
			if err != nil {
				log.Error("close "+what, "error", err)
			}
		case <-time.After(closeTimeout):
			log.Error("close "+what+": no response", "after", closeTimeout.String())
		}
	}
	if b.store != nil {
		within("store", func() error {
			defer b.store.Close()
			if b.book == nil {
				return nil
			}
			if err := b.book.Close(); err != nil {
				// What is granted stays booked as spent until the gateway runs again, and is free after the lease where it is a rate.
				log.Warn("what the store has granted is not given back", "error", b.redact(err))
			}
			return nil
		})
	}
	within("journal", b.journal.Close)
}
