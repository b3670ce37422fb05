package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

func newCheckCommand(o *options) *cobra.Command {
	var fileOnly, values, store bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: "Check the configuration, and load the plugins that it uses, without serving. All errors are listed with line and\n" +
			"column, as are providers and models that are off, with the reason. No request is sent to a provider.\n\n" +
			"With --store, check also connects to the store of shared limits. With --values, it lists every key that is set, with\n" +
			"the file and line of its value, after included files have been merged.\n\n" +
			"The exit code is 0 if `sluice serve` would accept the configuration, and 3 if it or a plugin is invalid.",
		Example: "  sluice check\n  sluice check --config /etc/sluice/gateway.toml --file-only",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			o.values = values
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			for _, w := range warnings(cfg) {
				fmt.Fprintf(c.ErrOrStderr(), "%v (warning)\n", w)
			}
			if !fileOnly {
				s, err := o.build(cfg, c.ErrOrStderr())
				if err != nil {
					return err
				}
				s.Close()
			}
			if err := printSummary(c.OutOrStdout(), cfg); err != nil {
				return err
			}
			if store {
				if err := checkStore(c, cfg); err != nil {
					return err
				}
			}
			if !values {
				return nil
			}
			return printValues(c.OutOrStdout(), cfg)
		},
	}
	c.Flags().BoolVar(&fileOnly, "file-only", false, "check the file without loading plugins")
	c.Flags().BoolVar(&store, "store", false, "also connect to the store of shared limits")
	c.Flags().BoolVar(&values, "values", false, "print every key that is set, with its value, file and line")
	return c
}

// storeTimeout is how long `sluice check --store` waits for the store.
const storeTimeout = 5 * time.Second

// checkStore connects to the store of shared limits, and prints how long a round trip takes.
func checkStore(c *cobra.Command, cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
	defer cancel()
	took, err := proxy.CheckStore(ctx, cfg)
	if err == nil {
		fmt.Fprintf(c.OutOrStdout(), "  the store responds in %s\n", took.Round(10*time.Microsecond))
	}
	return err
}

// printValues prints each value with its file and line. Credentials are redacted.
func printValues(w io.Writer, cfg *config.Config) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range cfg.Values {
		fmt.Fprintf(t, "%s:%d\t%s = %s\n", cmp.Or(v.Pos.File, cfg.Path), v.Pos.Line, v.Key, v.Text)
	}
	return t.Flush()
}

// printSummary counts what a valid configuration turns on, and lists what is off.
func printSummary(w io.Writer, cfg *config.Config) error {
	providers, models := 0, 0
	for i := range cfg.Providers {
		if cfg.Providers[i].Off == "" {
			providers++
		}
	}
	for i := range cfg.Models {
		if cfg.Models[i].Off == "" {
			models++
		}
	}
	_, err := fmt.Fprintf(w, "%s is valid: %s, %d of %s on, %d of %s on\n", cfg.Path, plural(len(cfg.Keys), "key"),
		providers, plural(len(cfg.Providers), "provider"), models, plural(len(cfg.Models), "model"))
	for _, name := range cfg.Included {
		fmt.Fprintf(w, "  includes %s\n", name)
	}
	for _, p := range offProviders(cfg) {
		fmt.Fprintf(w, "  provider %s is off: %s\n", p.Name, p.Off)
	}
	for i := range cfg.Models {
		if m := &cfg.Models[i]; m.Off != "" {
			fmt.Fprintf(w, "  model %s is off: %s\n", m.ID, m.Off)
		}
	}
	return err
}
