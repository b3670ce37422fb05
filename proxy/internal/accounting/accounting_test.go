package accounting_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventTimeout bounds every wait for an event. It only passes when a test fails.
const eventTimeout = time.Minute

const usd cost.Nano = 1e9

var noon = time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)

// parse returns a configuration with a key "alice" that has these lines.
func parse(t *testing.T, key string) *config.Config {
	t.Helper()
	const rest = "[providers.a]\nplugin = \"openai\"\n\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"a\", pricing = { input = 1, output = 1 } }]\n\n"
	digest := "sha256:" + strings.Repeat("ab", 32)
	cfg, err := config.Parse("gateway.toml", []byte(rest+"[[keys]]\nname = \"alice\"\ndigest = \""+digest+"\"\n"+key), config.Options{Bundled: []string{"openai"}, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const (
	limits    = "limits = { requests_per_minute = 10 }\n"
	budgets10 = "budgets = [{ usd = 10, per = \"day\" }]\n"
)

// options returns options for a gateway with this state folder whose clock stands still, and its log.
func options(dir string) (accounting.Options, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return accounting.Options{
		StateDir: dir, Log: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return noon },
		Redactor: func() *credential.Redactor { return nil },
	}, log
}

// open opens books and makes the accounts of the configuration current. The returned function closes them.
func open(t *testing.T, cfg *config.Config, o accounting.Options) (*accounting.Books, *spend.Accounts) {
	t.Helper()
	b, err := accounting.Open(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, use(t, b, cfg)
}

func use(t *testing.T, b *accounting.Books, cfg *config.Config) *spend.Accounts {
	t.Helper()
	a, err := b.Accounts(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.Use(cfg, a)
	return a
}

// charge books a request of alice.
func charge(t *testing.T, a *spend.Accounts, amount, uncertain cost.Nano) {
	t.Helper()
	var h spend.Hold
	if e := h.Reserve(spend.Scopes{spend.Key: a.Account(spend.Key, "alice")}, &spend.Need{Fixed: amount, Estimate: amount}, noon); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: amount, Uncertain: uncertain}, noon)
}

// unusable returns the path of a state folder that cannot be created.
func unusable(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "state")
}

// TestJournalIsOpenedIfNeeded checks for which configurations and state folders there is a journal, and what its lack
// means.
func TestJournalIsOpenedIfNeeded(t *testing.T) {
	const good, none, bad = "good", "none", "bad"
	for _, tt := range []struct {
		name, key, folder string
		offline           bool
		journal           bool
		log               string // part of the only line of the log; "" if there is none
		fails             bool
	}{
		{name: "nothing to count", folder: good},
		{name: "limits", key: limits, folder: good, journal: true},
		{name: "budgets", key: budgets10, folder: good, journal: true},
		{name: "budgets of a gateway that serves no requests", key: budgets10, folder: good, offline: true},
		{name: "limits without a state folder", key: limits, folder: none},
		{name: "budgets without a state folder", key: budgets10, folder: none, log: "no state folder"},
		{name: "nothing to count in a folder that cannot be used", folder: bad},
		{name: "limits in a folder that cannot be used", key: limits, folder: bad, log: "no journal"},
		{name: "budgets in a folder that cannot be used", key: budgets10, folder: bad, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := map[string]string{good: t.TempDir(), none: "", bad: unusable(t)}[tt.folder]
			o, log := options(dir)
			o.Offline = tt.offline
			b, err := accounting.Open(parse(t, tt.key), o)
			if tt.fails != (err != nil) {
				t.Fatalf("got error %v", err)
			}
			if err == nil {
				if got := b.Journal() != nil; got != tt.journal {
					t.Errorf("journal open: %v, want %v", got, tt.journal)
				}
				b.Close()
			}
			if got := log.String(); strings.Count(got, "\n") != min(1, len(tt.log)) || !strings.Contains(got, tt.log) {
				t.Errorf("got log %q, want %q", got, tt.log)
			}
		})
	}
}

// TestReloadOpensJournal checks which journal a reload opens for the first limits or budgets.
func TestReloadOpensJournal(t *testing.T) {
	for _, tt := range []struct {
		name, before, after string
		bad                 bool
		journal             bool
		err                 string
	}{
		{name: "first limits", after: limits, journal: true},
		{name: "first budgets", after: budgets10, journal: true},
		{name: "no limits", after: ""},
		{name: "first budgets, in a folder that cannot be used", after: budgets10, bad: true, err: "not a directory"},
		{name: "budgets after limits that are counted without a journal", before: limits, after: budgets10, bad: true, err: "change requires a restart"},
		{name: "other limits that are counted without a journal", before: limits, after: limits, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.bad {
				dir = unusable(t)
			}
			o, _ := options(dir)
			b, _ := open(t, parse(t, tt.before), o)
			err := b.Prepare(parse(t, tt.after))
			if (tt.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got error %v, want %q", err, tt.err)
			}
			if got := b.Journal() != nil; got != tt.journal {
				t.Errorf("journal open: %v, want %v", got, tt.journal)
			}
		})
	}
}

// TestSpendingOutlivesProcess checks that the next process, a reload and a reading command find what was spent.
func TestSpendingOutlivesProcess(t *testing.T) {
	dir, cfg := t.TempDir(), parse(t, budgets10)
	o, _ := options(dir)
	left := func(a *spend.Accounts) cost.Nano {
		s := a.Status(noon)
		return s[0].Left()
	}
	b, a := open(t, cfg, o)
	charge(t, a, 3*usd, 0)
	if got := left(use(t, b, cfg)); got != 7*usd {
		t.Errorf("after a reload %v USD are left, want 7", got)
	}
	if _, err := accounting.Open(cfg, o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second gateway with the same state folder: got error %v", err)
	}
	b.Close()
	b, a = open(t, cfg, o)
	if got := left(a); got != 7*usd {
		t.Errorf("after a restart %v USD are left, want 7", got)
	}
	state, err := accounting.ReadBudgets(cfg, dir, budgets.Filter{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := state.Budgets.Write(&text, "csv"); err != nil || !strings.Contains(text.String(), ",10,0,3,0,0,7,\n") {
		t.Errorf("%v: got\n%s", err, &text)
	}
	if u, err := b.Usage(journal.Query{}); u == nil || err != nil {
		t.Errorf("got ledger %v, error %v", u, err)
	}
	if all := b.Degraded(); all != nil {
		t.Errorf("degraded: %v", all)
	}
}

// TestWithoutStateFolder checks that limits and budgets count, and that there is nothing to read.
func TestWithoutStateFolder(t *testing.T) {
	o, _ := options("")
	b, a := open(t, parse(t, budgets10), o)
	charge(t, a, 10*usd, 0)
	if s := a.Status(noon); s[0].Left() != 0 {
		t.Errorf("%v USD are left, want 0", s[0].Left())
	}
	if u, err := b.Usage(journal.Query{}); u != nil || err != nil {
		t.Errorf("got ledger %v, error %v", u, err)
	}
	if b.Store() != nil {
		t.Error("there is a store")
	}
}

// TestChangeOfBudget checks what an operator's command does to the budget of 10 USD, and what it prints.
func TestChangeOfBudget(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name             string
		raised           cost.Nano // by an earlier command
		spent, uncertain cost.Nano
		change           func(c *budgets.Change)
		left             cost.Nano
		want             string // part of the text or of the error
		fails            bool
	}{
		{
			name: "raised", spent: 4 * usd, change: func(c *budgets.Change) { c.Raise = 5 * usd }, left: 11 * usd,
			want: "budget per day of key alice raised by 5 USD: 11 of 15 USD are left until 2026-11-05T00:00:00Z",
		},
		{
			name: "lowered", spent: 4 * usd, change: func(c *budgets.Change) { c.Raise = -5 * usd }, left: 1 * usd,
			want: "1 of 5 USD are left",
		},
		{
			name: "reset", spent: 4 * usd, change: func(c *budgets.Change) {}, left: 10 * usd,
			want: "reset: 10 of 14 USD are left",
		},
		{
			name: "reset after it was raised", raised: 5 * usd, spent: 8 * usd, change: func(c *budgets.Change) {}, left: 10 * usd,
			want: "reset: 10 of 18 USD are left",
		},
		{
			name: "reset of a budget that was raised by more than was spent", raised: 5 * usd, spent: 4 * usd, change: func(c *budgets.Change) {}, left: 11 * usd,
			want: "nothing to reset: the budget per day of key alice has 11 USD left",
		},
		{
			name: "reset of an unused budget", change: func(c *budgets.Change) {}, left: 10 * usd,
			want: "nothing to reset: the budget per day of key alice has 10 USD left",
		},
		{
			name: "release of unknown outcomes", spent: 4 * usd, uncertain: 1 * usd, change: func(c *budgets.Change) { c.Release = true }, left: 7 * usd,
			want: "has 1 USD back that were booked for unknown outcomes: 7 of 11 USD are left",
		},
		{
			name: "release where all outcomes are known", spent: 4 * usd, change: func(c *budgets.Change) { c.Release = true }, left: 6 * usd,
			want: "nothing to release",
		},
		{
			name: "other window", spent: 4 * usd, change: func(c *budgets.Change) { c.Raise, c.Start = 5*usd, c.Start.Add(-day) }, left: 6 * usd,
			want: "the window that began at 2026-11-03T00:00:00Z is not the current one", fails: true,
		},
		{
			name: "other scope", spent: 4 * usd, change: func(c *budgets.Change) { c.Raise, c.Scope.Name = 5*usd, "bob" }, left: 6 * usd,
			want: "key bob has no budget per day", fails: true,
		},
		{
			name: "other period", spent: 4 * usd, change: func(c *budgets.Change) { c.Raise, c.Per = 5*usd, config.PerMonth }, left: 6 * usd,
			want: "key alice has no budget per month", fails: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, budgets10)
			o, _ := options(t.TempDir())
			b, a := open(t, cfg, o)
			if tt.spent > 0 {
				charge(t, a, tt.spent, tt.uncertain)
			}
			request := func(change func(c *budgets.Change)) (string, error) {
				c, _, err := budgets.NewConfigured(cfg, "key", "alice", "day", "", "because", noon)
				if err != nil {
					t.Fatal(err)
				}
				change(c)
				return b.Change(c)
			}
			if tt.raised > 0 {
				if _, err := request(func(c *budgets.Change) { c.Raise = tt.raised }); err != nil {
					t.Fatal(err)
				}
			}
			text, err := request(tt.change)
			if tt.fails != (err != nil) {
				t.Fatalf("got %q, error %v", text, err)
			}
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			if s := a.Status(noon); s[0].Left() != tt.left {
				t.Errorf("%v USD are left, want %v", s[0].Left(), tt.left)
			}
		})
	}
}

// TestCommandChangesBudget checks that a change which a command writes into the state folder reaches the gateway, also
// if a reload has opened the journal.
func TestCommandChangesBudget(t *testing.T) {
	dir, cfg := t.TempDir(), parse(t, budgets10)
	o, _ := options(dir)
	b, _ := open(t, parse(t, ""), o)
	if err := b.Prepare(cfg); err != nil {
		t.Fatal(err)
	}
	a := use(t, b, cfg)
	c, end, err := budgets.NewConfigured(cfg, "key", "alice", "day", "5", "because", noon)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventTimeout)
	defer cancel()
	text, err := budgets.Request(ctx, dir, c, end)
	if s := a.Status(noon); err != nil || !strings.Contains(text, "15 of 15 USD are left") || s[0].Left() != 15*usd {
		t.Errorf("got %q, error %v, %v USD are left", text, err, s[0].Left())
	}
}
