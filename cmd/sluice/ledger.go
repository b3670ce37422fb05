package main

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

func newUsageCommand(o *options) *cobra.Command {
	var q proxy.UsageQuery
	var by, format, dir string
	var bases []string
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show what keys, teams, models and providers have used",
		Long: "Add up the ledger: requests, tokens of each kind and cost, by day, key, team, model, provider or tags. The ledger is\n" +
			"read from the journal in the state folder, whether or not the gateway is running. Nothing is changed. With --admin, the\n" +
			"usage of running gateways is added up, and the column gateway shows each of them.\n\n" +
			"A day is a date, today, yesterday, a weekday such as monday for the last one, or a number of days ago such as 7d. A\n" +
			"week begins on Monday.\n\n" +
			"A request counts on the day on which it ended, in the time zone set in [store]. Of the counted requests, errors failed,\n" +
			"incomplete ones were cut off or their clients disconnected, estimated ones have token counts that the gateway estimated,\n" +
			"and booked ones were sent to a provider without a known outcome, or were in flight when the gateway was killed: they\n" +
			"count with what they held. uncertain_usd is the part of cost_usd that is booked in this way.\n\n" + gatewaysHelp,
		Example: "  sluice usage --since 2026-11-01 --until 2026-11-30 --by team,model\n" +
			"  sluice usage --period last-week --by team,gateway --admin http://10.0.0.1:8081 --admin http://10.0.0.2:8081\n" +
			"  sluice usage --by day,key --format csv >usage.csv",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			columns, err := proxy.ParseUsageColumns(by)
			if err != nil {
				return newUsageError(c, "--by: %w", err)
			}
			q.By = columns
			if len(bases) > 0 {
				if q.Raw || dir != "" {
					return newUsageError(c, "--raw and --state read a state folder: set them or --admin")
				}
				return o.addUpUsage(c, bases, &q, format)
			}
			cfg, state, err := o.state(dir)
			if err != nil {
				return err
			}
			u, err := proxy.ReadUsage(cfg, state, q)
			if err == nil {
				err = u.Write(c.OutOrStdout(), format)
			}
			if proxy.IsUsageQueryError(err) {
				return newUsageError(c, "%w", err)
			}
			if err == nil {
				for _, d := range u.Damage {
					fmt.Fprintln(c.ErrOrStderr(), "warning:", d.String())
				}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&q.Since, "since", "", "first `day`, such as 2026-11-01, monday or 7d")
	f.StringVar(&q.Until, "until", "", "last `day`")
	f.StringVar(&q.Period, "period", "", "`period` instead of a first and last day: "+strings.Join(proxy.UsagePeriods(), ", "))
	f.StringVar(&by, "by", "key,model", "`columns` to group by: day, key, team, model, provider, tags, user, gateway; \"\" for the total alone")
	formatFlag(c, &format, proxy.UsageFormats())
	f.BoolVar(&q.Raw, "raw", false, "add up individual requests, as far back as they are kept, instead of daily sums")
	stateFlag(c, &dir)
	gatewaysFlag(c, &bases)
	return c
}

// addUpUsage prints the usage of running gateways. All must respond, since the sums would otherwise be too small.
func (o *options) addUpUsage(c *cobra.Command, bases []string, q *proxy.UsageQuery, format string) error {
	if !slices.Contains(proxy.UsageFormats(), format) {
		return newUsageError(c, "invalid format %q: want %s", format, strings.Join(proxy.UsageFormats(), ", "))
	}
	addresses, err := o.gatewayAddresses(c, bases)
	if err != nil {
		return err
	}
	own := proxy.OwnUsageColumns(q.By)
	names := make([]string, len(own))
	for i := range own {
		names[i] = own[i].String()
	}
	query := url.Values{"format": {"json"}, "by": {strings.Join(names, ",")}}
	for name, value := range map[string]string{"since": q.Since, "until": q.Until, "period": q.Period} {
		if value != "" {
			query.Set(name, value)
		}
	}
	responses := getFromAll(c.Context(), addresses, "/usage?"+query.Encode())
	if err := firstError(responses); err != nil {
		return err
	}
	var parts []proxy.UsagePart
	for i := range responses {
		u, err := proxy.ParseUsage(responses[i].body, own)
		if err != nil {
			return fmt.Errorf("%s: %w", responses[i].gateway, err)
		}
		parts = append(parts, proxy.UsagePart{Gateway: responses[i].gateway, Usage: u})
	}
	return proxy.MergeUsage(q.By, parts).Write(c.OutOrStdout(), format)
}

func stateFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "state", "", "state `directory`; overrides the configuration")
}

func formatFlag(c *cobra.Command, format *string, formats []string) {
	c.Flags().StringVar(format, "format", "table", "`format` of the output: "+strings.Join(formats, ", "))
}

// state returns the configuration and the state folder of its gateway. A non-empty dir overrides the folder.
func (o *options) state(dir string) (*config.Config, string, error) {
	cfg, err := o.load("")
	if err != nil {
		return nil, "", err
	}
	if dir == "" {
		dir = cfg.Store.Journal
	}
	dir, err = proxy.FindStateDir(dir, os.LookupEnv)
	return cfg, dir, err
}
