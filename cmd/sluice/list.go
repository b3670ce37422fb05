package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// listTimeout is how long `sluice models` waits for providers.
const listTimeout = 30 * time.Second

func newModelsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the models that clients can use",
		Long: "List the configured models whose providers are on, and the models that providers with list_models offer, which are\n" +
			"requested from them. Prices are in US dollars per million tokens, and left out if they are unknown.",
		Example: "  sluice models\n  sluice models --config /etc/sluice/gateway.toml",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			s, err := o.build(cfg, c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer s.Close()
			ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
			defer cancel()
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ID\tNAME\tOWNER\tINPUT\tOUTPUT\tMAX TOKENS\tTHINKING\tTARGETS")
			for _, m := range s.Models(ctx) {
				var targets []string
				for _, target := range m.Targets {
					targets = append(targets, targetName(&target))
				}
				thinking := ""
				if m.Thinking {
					thinking = "yes"
				}
				maxTokens := ""
				if m.MaxTokens > 0 {
					maxTokens = fmt.Sprint(m.MaxTokens)
				}
				input, output := "", ""
				if m.Pricing.Known {
					input, output = fmt.Sprint(m.Pricing.Input), fmt.Sprint(m.Pricing.Output)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.DisplayName, m.OwnedBy, input, output, maxTokens, thinking, strings.Join(targets, ", "))
			}
			return t.Flush()
		},
	}
}
