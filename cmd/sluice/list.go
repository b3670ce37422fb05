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

// listTimeout is how long `sluice models` waits for providers.
const listTimeout = 30 * time.Second

func newModelsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the models that clients can use",
		Long: "List the configured models whose providers are on, and those that providers with list_models offer. Providers are\n" +
			"asked for their lists. Prices are in US dollars per million tokens, and left out if they are unknown.",
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

func newPluginCommand(o *options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "plugin",
		Short: "Develop and inspect plugins",
		Long:  "Develop plugins, and inspect those that are built into this binary or named in the configuration.",
	}, &cobra.Command{
		Use:   "list",
		Short: "List and check built-in and configured plugins",
		Long: "List the plugins that are built into this binary and those that the configuration adds. Each plugin is loaded and\n" +
			"checked. SIZE and SHA-256 are those of its module; the built-in plugins share one.",
		Example: "  sluice plugin list",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			infos, err := proxy.InspectPlugins(context.Background(), o.proxyOptions(cfg, c.ErrOrStderr(), nil), plugins.Names())
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "NAME\tKIND\tFROM\tIN USE\tISOLATION\tSIZE\tSHA-256")
			for _, p := range infos {
				use := "no"
				if p.InUse {
					use = "yes"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f MB\t%s\n", p.Name, p.Kind, p.From, use, p.Isolation, float64(p.Size)/1e6, p.SHA256)
			}
			// The plugins that can be loaded are listed even if others cannot.
			if flushErr := t.Flush(); flushErr != nil {
				return flushErr
			}
			return err
		},
	}, newCompileCommand(o), newPluginTestCommand(o), newPluginRunCommand(o))
}

func newCompileCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "compile",
		Short: "Compile plugins into the cache directory",
		Long: "Compile the plugins that are built into this binary and those that the configuration adds, and keep the machine code\n" +
			"in the cache directory, so that the gateway starts without compiling. It is for container images: the code fits\n" +
			"machines of the same system and architecture. On a machine whose processor lacks a feature that this one has, the\n" +
			"gateway compiles at its start, and the log says why.",
		Example: "  sluice plugin compile --cache /var/cache/sluice",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			options := o.proxyOptions(cfg, c.ErrOrStderr(), nil)
			options.RequireCache = true
			dir := options.CacheDir
			if cfg.Server.CacheDir != "" {
				dir = cfg.Server.CacheDir
			}
			if dir == "" {
				return newUsageError(c, "no cache directory; choose one with --cache")
			}
			infos, err := proxy.InspectPlugins(context.Background(), options, plugins.Names())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s compiled in %s\n", plural(len(infos), "plugin"), dir)
			return err
		},
	}
}
