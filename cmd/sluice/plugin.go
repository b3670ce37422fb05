package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
)

func newPluginCommand(o *options) *cobra.Command {
	return group(&cobra.Command{
		Use:   "plugin",
		Short: "Develop and inspect plugins",
		Long: "Develop plugins in Go, Rust, C or AssemblyScript, and inspect plugins that are built into this binary or named in the\n" +
			"configuration. The development kits are part of this binary; nothing is downloaded.",
		Example: "  sluice plugin new my-provider --language go && cd my-provider\n  sluice plugin build\n  sluice plugin test\n  sluice serve --dev",
	},
		newPluginNewCommand(), newPluginBuildCommand(), newPluginUpgradeCommand(), newPluginUpstreamCommand(),
		newPluginCheckCommand(o), newPluginTestCommand(o), newPluginRunCommand(o), newPluginRecordCommand(o), newPluginReplayCommand(o), newPluginScoreCommand(o), newPluginBenchCommand(o), newPluginProfileCommand(o),
		newPluginListCommand(o), newCompileCommand(o), newPluginPushCommand(o), newPluginInspectCommand(o), newPluginPullCommand(o),
	)
}

func newPluginListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List and check built-in and configured plugins",
		Long: "List the plugins that are built into this binary or added by the configuration. Each plugin is loaded and checked.\n" +
			"SIZE and SHA-256 describe its module; the built-in plugins share one.",
		Example: "  sluice plugin list",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			o.unpinned = true
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
	}
}

func newCompileCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "compile",
		Short: "Compile plugins into the cache directory",
		Long: "Compile the plugins that are built into this binary or added by the configuration, and store the machine code in the\n" +
			"cache directory, so that the gateway starts without compiling. It is meant for container images: the code runs on\n" +
			"machines with the same operating system and architecture. On a machine whose processor lacks a feature that this one\n" +
			"has, the gateway compiles again at startup, and the log says why.\n\n" +
			"Only [plugins] and server.cache_dir are read from the configuration, so no secret is needed.",
		Example: "  sluice plugin compile --cache /var/cache/sluice",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			o.pluginsOnly = true
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
