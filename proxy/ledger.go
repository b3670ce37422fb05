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

// CheckStore connects to the configured store of shared limits, and returns the duration of a round trip.
func CheckStore(ctx context.Context, cfg *config.Config) (time.Duration, error) {
	return accounting.CheckStore(ctx, &cfg.Store, configured.Redactor(cfg))
}

// Usage is the usage of requests, by key, team, model, provider, tags and day.
type Usage = journal.Usage

// UsageQuery is a query of the ledger.
type UsageQuery = journal.Query

// ParseUsageColumns parses a comma-separated list of columns to group usage by.
func ParseUsageColumns(names string) ([]journal.Column, error) { return journal.ParseColumns(names) }

// UsagePeriods returns the values of UsageQuery.Period.
func UsagePeriods() []string { return journal.Periods }

// UsagePart is the usage of one of several gateways.
type UsagePart = journal.Part

// ParseUsage reads the usage of a gateway in the JSON format, for a query by these columns.
func ParseUsage(text []byte, by []journal.Column) (*Usage, error) {
	return journal.ParseUsage(text, by)
}

// MergeUsage adds up the usage of several gateways. The columns of each are those that OwnUsageColumns returns.
func MergeUsage(by []journal.Column, parts []UsagePart) *Usage { return journal.Merge(by, parts) }

// OwnUsageColumns returns the columns that a single gateway has: all but gateway.
func OwnUsageColumns(by []journal.Column) []journal.Column { return journal.WithoutGateway(by) }

// UsageFormats returns the formats of Usage.Write.
func UsageFormats() []string { return journal.Formats }

// IsUsageQueryError reports whether an error is caused by the query rather than by the ledger.
func IsUsageQueryError(err error) bool {
	_, ok := errors.AsType[*journal.QueryError](err)
	return ok
}

// ReadUsage reads a gateway's ledger from its state folder, whether the gateway is running or not.
func ReadUsage(cfg *config.Config, stateDir string, q UsageQuery) (*Usage, error) {
	return accounting.ReadUsage(cfg, stateDir, q)
}

// BudgetList is a list of budgets, or of their changes, for people and for programs.
type BudgetList = budgets.List

// BudgetPart is the list of budgets of one of several gateways.
type BudgetPart = budgets.Part

// MergeBudgets adds up the budgets of several gateways, or lists those of each.
func MergeBudgets(parts []BudgetPart, byGateway bool) (*BudgetList, error) {
	return budgets.Merge(parts, byGateway)
}

// BudgetFilter selects the scopes of a BudgetList.
type BudgetFilter = budgets.Filter

// BudgetFormats returns the formats of BudgetList.Write.
func BudgetFormats() []string { return budgets.Formats }

// CheckBudgetFormat returns an error if there is no such format.
func CheckBudgetFormat(format string) error { return budgets.CheckFormat(format) }

// BudgetState is the state of budgets according to a state folder.
type BudgetState = budgets.State

// ReadBudgets reads the state of a gateway's budgets from its state folder, whether the gateway is running or not.
func ReadBudgets(cfg *config.Config, stateDir string, f BudgetFilter, now time.Time) (*BudgetState, error) {
	return accounting.ReadBudgets(cfg, stateDir, f, now)
}

// BudgetChange changes a budget in its current window. NewBudgetChange returns one.
type BudgetChange = budgets.Change

// NewBudgetChange returns a change of a configured budget and the end of its window. kind is key, team, model or
// provider, per is the budget's period, and usd is the amount in US dollars by which it is raised, or "" to reset what
// has been spent or, with BudgetChange.Release, to give back what was booked for unknown outcomes.
func NewBudgetChange(cfg *config.Config, kind, name, per, usd, reason string, now time.Time) (c *BudgetChange, end time.Time, err error) {
	return budgets.NewConfigured(cfg, kind, name, per, usd, reason, now)
}

// RequestBudgetChange asks the gateway that uses a state folder to make a change, and waits for the result until ctx
// ends. If no gateway is running, the change stays in the folder for one that starts before end, or at any time if end
// is zero.
func RequestBudgetChange(ctx context.Context, stateDir string, c *BudgetChange, end time.Time) (string, error) {
	return budgets.Request(ctx, stateDir, c, end)
}
