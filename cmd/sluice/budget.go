package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
)

const budgetTimeout = 10 * time.Second

func newBudgetCommand(o *options) *cobra.Command {
	var dir, format string
	var bases []string
	var byGateway bool
	c := &cobra.Command{
		Use:   "budget [SCOPE [NAME]]",
		Short: "Show and change budgets",
		Long: "List the budgets of keys, teams, models and providers in their current windows, in US dollars: the limit, the amount that\n" +
			"it was raised by, how much is spent, held by requests in flight, and left, and how much of the spent amount is uncertain:\n" +
			"booked for requests whose outcome is unknown. SCOPE is key, team, model or provider.\n\n" +
			"Without --admin, the list is read from the journal in the state folder, whether or not the gateway is running. It then\n" +
			"counts amounts held by requests in flight as spent, and lacks what other gateways have spent of a shared budget. With\n" +
			"--admin, the list is from running gateways, which have both. Their budgets are added up; shared ones, which gateways\n" +
			"count together in a store, count once.\n\n" + gatewaysHelp,
		Example: "  sluice budget\n  sluice budget team research --format json\n  sluice budget --gateway --admin http://10.0.0.1:8081 --admin http://10.0.0.2:8081",
		Args:    scopeArguments,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := budgetFilter(c, args, format)
			if err != nil {
				return err
			}
			if len(bases) > 0 {
				return o.listBudgetsAt(c, bases, f, format, byGateway)
			}
			if byGateway {
				return newUsageError(c, "--gateway needs the gateways' addresses: set --admin")
			}
			state, err := o.readBudgets(c, dir, f)
			if err != nil {
				return err
			}
			return state.Budgets.Write(c.OutOrStdout(), format)
		},
	}
	stateFlag(c, &dir)
	gatewaysFlag(c, &bases)
	c.Flags().BoolVar(&byGateway, "gateway", false, "list the budgets of each gateway instead of adding them up")
	formatFlag(c, &format, proxy.BudgetFormats())
	c.AddCommand(newBudgetRaiseCommand(o), newBudgetResetCommand(o), newBudgetReleaseCommand(o), newBudgetHistoryCommand(o))
	return c
}

// scopeArguments accepts an optional scope and an optional name in it.
func scopeArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		if err := (proxy.BudgetFilter{Kind: args[0]}).Check(); err != nil {
			return newUsageError(c, "%w", err)
		}
	}
	if len(args) > 2 {
		return newUsageError(c, "want a scope and a name, not %d arguments", len(args))
	}
	return nil
}

func budgetFilter(c *cobra.Command, args []string, format string) (f proxy.BudgetFilter, err error) {
	if err := proxy.CheckBudgetFormat(format); err != nil {
		return f, newUsageError(c, "%w", err)
	}
	if len(args) > 0 {
		f.Kind = args[0]
	}
	if len(args) > 1 {
		f.Name = args[1]
	}
	return f, nil
}

// readBudgets reads the state folder, and prints a warning for each part of it that cannot be read.
func (o *options) readBudgets(c *cobra.Command, dir string, f proxy.BudgetFilter) (*proxy.BudgetState, error) {
	cfg, dir, err := o.state(dir)
	if err != nil {
		return nil, err
	}
	state, err := proxy.ReadBudgets(cfg, dir, f, time.Now())
	if err != nil {
		return nil, err
	}
	for i := range state.Damage {
		fmt.Fprintln(c.ErrOrStderr(), "warning:", state.Damage[i].String())
	}
	return state, nil
}

// listBudgetsAt prints the budgets of running gateways. All must respond, since the sums would otherwise be too small.
func (o *options) listBudgetsAt(c *cobra.Command, bases []string, f proxy.BudgetFilter, format string, byGateway bool) error {
	addresses, err := o.gatewayAddresses(c, bases)
	if err != nil {
		return err
	}
	q := url.Values{"format": {"json"}}
	if f.Kind != "" {
		q.Set("scope", f.Kind)
	}
	if f.Name != "" {
		q.Set("name", f.Name)
	}
	responses := getFromAll(c.Context(), addresses, "/budgets?"+q.Encode())
	if err := firstError(responses); err != nil {
		return err
	}
	parts := make([]proxy.BudgetPart, len(responses))
	for i := range responses {
		parts[i] = proxy.BudgetPart{Gateway: responses[i].gateway, Text: responses[i].body}
	}
	l, err := proxy.MergeBudgets(parts, byGateway)
	if err != nil {
		return err
	}
	return l.Write(c.OutOrStdout(), format)
}

func newBudgetRaiseCommand(o *options) *cobra.Command {
	var dir, per, usd, reason string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "raise SCOPE NAME",
		Short: "Raise a budget in its current window",
		Long: "Raise the budget of a key, team, model or provider in its current window, or lower it with a negative amount. The next\n" +
			"window starts with the configured budget.\n\n" + budgetChangeHelp,
		Example: "  sluice budget raise key team-a --per month --usd 50 --reason 'release week'\n  sluice budget raise team research --per day --usd=-5 --reason 'raised by mistake'",
		Args:    budgetArguments,
		RunE: func(c *cobra.Command, args []string) error {
			if usd == "" {
				return newUsageError(c, "by how much? set --usd")
			}
			return o.changeBudget(c, dir, timeout, args, per, usd, reason, false)
		},
	}
	c.Flags().StringVar(&usd, "usd", "", "`amount` in US dollars")
	stateFlag(c, &dir)
	changeFlags(c, &per, &reason, &timeout)
	return c
}

func newBudgetResetCommand(o *options) *cobra.Command {
	var dir, per, reason string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "reset SCOPE NAME",
		Short: "Make all of a budget available again in its current window",
		Long: "Raise the budget of a key, team, model or provider in its current window by the amount already spent, so that all of it is\n" +
			"available again, except for what requests in flight hold. The ledger keeps what was spent.\n\n" + budgetChangeHelp,
		Example: "  sluice budget reset key team-a --per day --reason 'a loop in their agent is fixed'",
		Args:    budgetArguments,
		RunE: func(c *cobra.Command, args []string) error {
			return o.changeBudget(c, dir, timeout, args, per, "", reason, false)
		},
	}
	stateFlag(c, &dir)
	changeFlags(c, &per, &reason, &timeout)
	return c
}

func newBudgetReleaseCommand(o *options) *cobra.Command {
	var dir, per, reason string
	var timeout time.Duration
	var uncertain bool
	c := &cobra.Command{
		Use:   "release SCOPE NAME",
		Short: "Give back what a budget has booked for unknown outcomes",
		Long: "Give back what the budget of a key, team, model or provider has booked in its current window for requests that were sent\n" +
			"and whose outcome is unknown, for example because the provider did not answer: the uncertain_usd of `sluice budget`. Use\n" +
			"it if the provider has not billed them. Of a budget that several gateways share, it gives back what the gateway of this\n" +
			"state folder has booked. A second call gives back only what was booked since. The ledger keeps the amounts.\n\n" + budgetChangeHelp,
		Example: "  sluice budget release --uncertain key team-a --per day --reason 'outage of the provider, which bills nothing'",
		Args:    budgetArguments,
		RunE: func(c *cobra.Command, args []string) error {
			if !uncertain {
				return newUsageError(c, "release what? set --uncertain")
			}
			return o.changeBudget(c, dir, timeout, args, per, "", reason, true)
		},
	}
	c.Flags().BoolVar(&uncertain, "uncertain", false, "release the amounts booked for unknown outcomes; required")
	stateFlag(c, &dir)
	changeFlags(c, &per, &reason, &timeout)
	return c
}

// budgetChangeHelp is the part of the help that the commands that change budgets share.
const budgetChangeHelp = "The change is recorded in the journal with its time and reason: see `sluice budget history`. The command writes it to a\n" +
	"file in the state folder, and the gateway applies it within a second. Anyone who can write to that folder can change\n" +
	"budgets. If no gateway is running, the change is applied when one starts within the same window. Run the command as the\n" +
	"gateway's user, or as root."

func changeFlags(c *cobra.Command, per, reason *string, timeout *time.Duration) {
	c.Flags().StringVar(per, "per", "", "`period` of the budget: minute, hour, day, week, month or total")
	c.Flags().StringVar(reason, "reason", "", "`text` of the reason, for the journal")
	c.Flags().DurationVar(timeout, "timeout", budgetTimeout, "`duration` to wait for the gateway")
}

func budgetArguments(c *cobra.Command, args []string) error {
	if len(args) != 2 {
		return newUsageError(c, "which budget? give its scope (key, team, model or provider) and name, and --per")
	}
	return scopeArguments(c, args)
}

// changeBudget requests a change of a budget, and prints its result.
func (o *options) changeBudget(c *cobra.Command, dir string, timeout time.Duration, args []string, per, usd, reason string, release bool) error {
	if per == "" {
		return newUsageError(c, "which of its budgets? set --per to minute, hour, day, week, month or total")
	}
	if strings.TrimSpace(reason) == "" {
		return newUsageError(c, "why? set --reason, which is kept in the journal")
	}
	cfg, dir, err := o.state(dir)
	if err != nil {
		return err
	}
	change, end, err := proxy.NewBudgetChange(cfg, args[0], args[1], per, usd, reason, time.Now())
	if err != nil {
		return newUsageError(c, "%w", err)
	}
	change.Release = release
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	text, err := proxy.RequestBudgetChange(ctx, dir, change, end)
	if err == nil {
		fmt.Fprintln(c.OutOrStdout(), text)
	}
	return err
}

func newBudgetHistoryCommand(o *options) *cobra.Command {
	var dir, format string
	c := &cobra.Command{
		Use:   "history [SCOPE [NAME]]",
		Short: "List the changes of budgets",
		Long: "List the changes of budgets from the journal in the state folder: the time, the amount in US dollars by which the budget\n" +
			"was raised, and the reason. A change without a time has not been applied by a gateway yet.",
		Example: "  sluice budget history\n  sluice budget history key team-a --format csv",
		Args:    scopeArguments,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := budgetFilter(c, args, format)
			if err != nil {
				return err
			}
			state, err := o.readBudgets(c, dir, f)
			if err != nil {
				return err
			}
			return state.Changes.Write(c.OutOrStdout(), format)
		},
	}
	stateFlag(c, &dir)
	formatFlag(c, &format, proxy.BudgetFormats())
	return c
}
