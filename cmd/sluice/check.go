package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

func newCheckCommand(o *options) *cobra.Command {
	var fileOnly, values, store, providers bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: "Check the configuration, and load the plugins that it uses, without serving. All errors are listed with line and\n" +
			"column, as are providers and models that are off, with the reason. Only --providers sends requests to providers.\n\n" +
			"With --providers, check requests the list of models from each provider that is on, and prints whether the address\n" +
			"was reached, the credential accepted, and the models of the configuration listed. A provider without a list gets a\n" +
			"request for its base_url, which shows only whether it can be reached; one whose list is public accepts any credential.\n" +
			"Of several credentials, one has to be accepted. The exit code is 1 if a provider cannot be reached or refuses the request; a\n" +
			"model that is not listed is no failure, since many providers do not list aliases.\n\n" +
			"With --store, check also connects to the store of shared limits. With --values, it lists every key that is set, with\n" +
			"the file and line of its value, after included files have been merged.\n\n" +
			"The exit code is 0 if `sluice serve` would accept the configuration, and 3 if it or a plugin is invalid.",
		Example: "  sluice check\n  sluice check --providers\n  sluice check --config /etc/sluice/gateway.toml --file-only",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if fileOnly && providers {
				return newUsageError(c, "--providers needs the plugins, which --file-only does not load")
			}
			o.values, o.pull, o.resolve = values, !fileOnly, !fileOnly
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			for _, w := range warnings(cfg) {
				fmt.Fprintf(c.ErrOrStderr(), "%v (warning)\n", w)
			}
			var unshared []string
			var checks []proxy.ProviderCheck
			if !fileOnly {
				s, err := o.build(cfg, c.ErrOrStderr())
				if err != nil {
					return err
				}
				unshared = s.UnsharedAccounts()
				for _, w := range s.UnservedKinds() {
					fmt.Fprintf(c.ErrOrStderr(), "%v (warning)\n", w)
				}
				if providers {
					ctx, cancel := context.WithTimeout(c.Context(), providersTimeout)
					checks = s.CheckProviders(ctx)
					cancel()
				}
				s.Close()
			}
			if err := printSummary(c.OutOrStdout(), cfg); err != nil {
				return err
			}
			if len(unshared) > 0 {
				fmt.Fprintf(c.OutOrStdout(), "  requests that refer to files or other objects of the account are rejected (shared_objects is off): %s\n", strings.Join(unshared, ", "))
			}
			if store {
				if err := checkStore(c, cfg); err != nil {
					return err
				}
			}
			if values {
				if err := printValues(c.OutOrStdout(), cfg); err != nil {
					return err
				}
			}
			return printProviders(c.OutOrStdout(), cfg, checks)
		},
	}
	c.Flags().BoolVar(&fileOnly, "file-only", false, "check the file without loading plugins")
	c.Flags().BoolVar(&providers, "providers", false, "also send a request to each provider")
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

// providersTimeout is how long `sluice check --providers` waits for all providers.
const providersTimeout = 20 * time.Second

// printProviders prints the result of a request to each provider, and returns an error if one of them failed.
func printProviders(w io.Writer, cfg *config.Config, checks []proxy.ProviderCheck) error {
	if len(checks) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROVIDER\tADDRESS\tCREDENTIAL\tMODELS\tTIME")
	var notes []string
	failed := 0
	for i := range checks {
		p := &checks[i]
		if p.URL == "" {
			fmt.Fprintf(t, "%s\tnone\t-\t-\t-\n", p.Provider)
			continue
		}
		address, credential, models := "reached", "unknown", "no list"
		auth := &cfg.Provider(p.Provider).Auth
		switch {
		case !p.Reached:
			address, credential, models = "not reached", "-", "-"
		case p.Refused:
			credential, models = "refused", "-"
		case len(auth.Secrets) == 0 && auth.AWS == nil && auth.Google == nil:
			credential = "none"
		case p.Lists:
			credential = "accepted"
		}
		if p.Lists {
			models = fmt.Sprintf("%d of %d listed", p.Targets-len(p.Unlisted), p.Targets)
		}
		if p.Err != nil || p.Refused {
			failed++
		}
		if p.Err != nil {
			notes = append(notes, fmt.Sprintf("  %s: %v", p.Provider, p.Err))
		}
		if len(p.Unlisted) > 0 {
			notes = append(notes, fmt.Sprintf("  %s does not list: %s", p.Provider, strings.Join(p.Unlisted, ", ")))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", p.Provider, address, credential, models, p.Took.Round(time.Millisecond))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, plural(len(checks), "provider"))
	}
	return nil
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
	if cfg.Budgeted() {
		fmt.Fprintln(w, "  budgets do not cover what no price covers: image output, cached audio, and fees of server tools")
	}
	return err
}
