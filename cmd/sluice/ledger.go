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
		Long: "Add up the ledger: requests, tokens of each kind and cost, by day, key, team, model, provider or tags. It is in the\n" +
			"journal of the state folder, which is read whether the gateway is running or not, and nothing is changed.\n\n" +
			"A request counts on the day on which it ended, in the zone of [store]. errors are requests that failed, incomplete ones\n" +
			"were cut or their clients left, estimated ones have token counts that the provider did not give, and booked ones were\n" +
			"under way when the gateway was killed: they count with the most that they could have cost.",
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
	f.BoolVar(&q.Raw, "raw", false, "add up the single requests, as far as they are kept, instead of the sums of days")
	stateFlag(c, &dir)
	return c
}

func stateFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "state", "", "state `directory`; overrides the configuration")
}

func formatFlag(c *cobra.Command, format *string, formats []string) {
	c.Flags().StringVar(format, "format", "table", "`format` of the output: "+strings.Join(formats, ", "))
}

// state returns the configuration, and the state folder of its gateway; a non-empty dir overrides that.
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
