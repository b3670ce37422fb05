package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

func newUsageCommand(o *options) *cobra.Command {
	var q proxy.UsageQuery
	var by, format, dir string
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show what keys, teams, models and providers have used",
		Long: "Add up the ledger: requests, tokens of each kind and cost, by day, key, team, model, provider or tags. The ledger is\n" +
			"read from the journal in the state folder, whether or not the gateway is running. Nothing is changed.\n\n" +
			"A request counts on the day on which it ended, in the time zone set in [store]. Of the counted requests, errors failed,\n" +
			"incomplete ones were cut off or their clients disconnected, estimated ones have token counts that the gateway estimated,\n" +
			"and booked ones were sent to a provider without a known outcome, or were in flight when the gateway was killed: they\n" +
			"count with what they held. uncertain_usd is the part of cost_usd that is booked in this way.",
		Example: "  sluice usage --since 2026-11-01 --until 2026-11-30 --by team,model\n" +
			"  sluice usage --by day,key --format csv >usage.csv",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			columns, err := proxy.ParseUsageColumns(by)
			if err != nil {
				return newUsageError(c, "--by: %w", err)
			}
			q.By = columns
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
	f.StringVar(&q.Since, "since", "", "first `day`, YYYY-MM-DD")
	f.StringVar(&q.Until, "until", "", "last `day`, YYYY-MM-DD")
	f.StringVar(&by, "by", "key,model", "`columns` to group by: day, key, team, model, provider, tags; \"\" for the total alone")
	formatFlag(c, &format, proxy.UsageFormats())
	f.BoolVar(&q.Raw, "raw", false, "add up individual requests, as far back as they are kept, instead of daily sums")
	stateFlag(c, &dir)
	return c
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
