package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
)

// CheckStore connects to the store of shared limits of a configuration, and returns how long a round trip takes.
func CheckStore(ctx context.Context, cfg *config.Config) (time.Duration, error) {
	return accounting.CheckStore(ctx, &cfg.Store, configured.Redactor(cfg))
}

// Usage is what requests have used, by key, team, model, provider, tags and day.
type Usage = journal.Usage

// UsageQuery is what is asked of the ledger.
type UsageQuery = journal.Query

// ParseUsageColumns parses what usage is grouped by: names of columns, with commas.
func ParseUsageColumns(names string) ([]journal.Column, error) { return journal.ParseColumns(names) }

// UsageFormats are the formats of Usage.Write.
func UsageFormats() []string { return journal.Formats }

// IsUsageQueryError reports whether an error is about a query, and not about the ledger.
func IsUsageQueryError(err error) bool {
	_, ok := errors.AsType[*journal.QueryError](err)
	return ok
}

// ReadUsage reads the ledger of a gateway with a configuration in its state folder, whether the gateway is running or not.
func ReadUsage(cfg *config.Config, stateDir string, q UsageQuery) (*Usage, error) {
	return accounting.ReadUsage(cfg, stateDir, q)
}

// BudgetList is a list of budgets, or of their changes, for people and programs.
type BudgetList = budgets.List

// BudgetFilter selects the scopes of a BudgetList.
type BudgetFilter = budgets.Filter

// BudgetFormats are the formats of BudgetList.Write.
func BudgetFormats() []string { return budgets.Formats }

// CheckBudgetFormat says what is wrong with the name of a format.
func CheckBudgetFormat(format string) error { return budgets.CheckFormat(format) }

// BudgetState is what a state folder knows of budgets.
type BudgetState = budgets.State

// ReadBudgets reads the budgets of a gateway with a configuration in its state folder, whether the gateway is running or not.
func ReadBudgets(cfg *config.Config, stateDir string, f BudgetFilter, now time.Time) (*BudgetState, error) {
	return accounting.ReadBudgets(cfg, stateDir, f, now)
}

// BudgetChange is a change of a budget in its current window. NewBudgetChange returns one.
type BudgetChange = budgets.Change

// NewBudgetChange returns a change of a budget of a configuration: kind is key, team, model or provider, per the budget's period, and usd
// what it is raised by, in US dollars; with "" all of it is left again.
func NewBudgetChange(cfg *config.Config, kind, name, per, usd, reason string, now time.Time) (c *BudgetChange, end time.Time, err error) {
	return budgets.NewConfigured(cfg, kind, name, per, usd, reason, now)
}

// RequestBudgetChange has the gateway of a state folder make a change, and returns what it says. It waits for that until ctx ends. Without a
// running gateway the change waits for one that starts before end; zero: at any time.
func RequestBudgetChange(ctx context.Context, stateDir string, c *BudgetChange, end time.Time) (string, error) {
	return budgets.Request(ctx, stateDir, c, end)
}
