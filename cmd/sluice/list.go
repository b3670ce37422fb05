package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
)

// listPatience is how long `sluice models` waits for providers.
const listPatience = 30 * time.Second

func modelsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the models that can be used",
		Long: "List the configured models that can be used, and those that providers with list_models have. Prices are in US\n" +
			"dollars for a million tokens; what is not known is left out.",
		Args: noArguments,
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
			ctx, cancel := context.WithTimeout(context.Background(), listPatience)
			defer cancel()
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "ID\tNAME\tOWNER\tINPUT\tOUTPUT\tMAX TOKENS\tTHINKING\tTARGETS")
			for _, m := range s.Models(ctx) {
				var to []string
				for _, target := range m.Targets {
					to = append(to, named(&target))
				}
				thinking := ""
				if m.Thinking {
					thinking = "yes"
				}
				most := ""
				if m.MaxTokens > 0 {
					most = fmt.Sprint(m.MaxTokens)
				}
				input, output := "", ""
				if m.Pricing.Known {
					input, output = fmt.Sprint(m.Pricing.Input), fmt.Sprint(m.Pricing.Output)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.DisplayName, m.OwnedBy, input, output, most, thinking, strings.Join(to, ", "))
			}
			return t.Flush()
		},
	}
}

func pluginCommand(o *options) *cobra.Command {
	return group(&cobra.Command{Use: "plugin", Short: "Look at plugins"}, &cobra.Command{
		Use:   "list",
		Short: "List the plugins that are built in or configured",
		Long: "List the plugins that are built into this binary and those that the configuration adds, with what each one is,\n" +
			"the size and the SHA-256 of its module: those that are built in are one. Each is loaded and checked.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			infos, err := proxy.InspectPlugins(context.Background(), o.proxy(cfg, c.ErrOrStderr(), nil), plugins.Names())
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tKIND\tFROM\tIN USE\tISOLATION\tSIZE\tSHA-256")
			for _, p := range infos {
				use := "no"
				if p.InUse {
					use = "yes"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f MB\t%s\n", p.Name, p.Kind, p.From, use, p.Isolation, float64(p.Size)/1e6, p.SHA256)
			}
			if flushed := t.Flush(); flushed != nil {
				return flushed
			}
			return err
		},
	})
}
