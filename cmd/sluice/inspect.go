package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/access"
	"github.com/sluice-gateway/sluice/proxy/config"
)

func checkCommand(o *options) *cobra.Command {
	var onlyFile bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: "Check the configuration and load the plugins that it uses, without serving. All errors of the file are\n" +
			"listed with their places. The exit code is 0 where `sluice serve` would start, 3 where the configuration or a\n" +
			"plugin is not usable, 1 where it could not be checked.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(o)
			if err != nil {
				return err
			}
			if !onlyFile {
				s, err := proxy.New(context.Background(), proxy.Options{Config: cfg, Bundled: plugins.FS(), CacheDir: o.cache})
				if err != nil {
					return err
				}
				s.Close()
			}
			report(c.OutOrStdout(), cfg)
			return nil
		},
	}
	c.Flags().BoolVar(&onlyFile, "file-only", false, "do not load the plugins")
	return c
}

// report says what a configuration that is valid amounts to.
func report(w io.Writer, cfg *config.Config) {
	for _, warning := range cfg.Warnings {
		fmt.Fprintf(w, "%v (warning)\n", warning)
	}
	on, models := 0, 0
	for i := range cfg.Providers {
		if cfg.Providers[i].Off == "" {
			on++
		}
	}
	for i := range cfg.Models {
		if cfg.Models[i].Off == "" {
			models++
		}
	}
	fmt.Fprintf(w, "%s is valid: %s, %d of %s on, %d of %s on\n", cfg.Path, count(len(cfg.Keys), "key"),
		on, count(len(cfg.Providers), "provider"), models, count(len(cfg.Models), "model"))
	for _, p := range offProviders(cfg) {
		fmt.Fprintf(w, "  provider %s is off: %s\n", p.Name, p.Off)
	}
	for i := range cfg.Models {
		if m := &cfg.Models[i]; m.Off != "" {
			fmt.Fprintf(w, "  model %s is off: %s\n", m.ID, m.Off)
		}
	}
}

// listPatience is how long `sluice models` waits for providers.
const listPatience = 30 * time.Second

func modelsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the models that can be used",
		Long: "List the configured models that can be used, and those that providers with list_models have. Prices are in US\n" +
			"dollars for a million tokens.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(o)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			s, err := proxy.New(context.Background(), proxy.Options{Config: cfg, Bundled: plugins.FS(), Log: log, CacheDir: o.cache})
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
					to = append(to, target.Provider+"/"+target.Model)
				}
				thinking := ""
				if m.Thinking {
					thinking = "yes"
				}
				most := ""
				if m.MaxTokens > 0 {
					most = fmt.Sprint(m.MaxTokens)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%g\t%g\t%s\t%s\t%s\n", m.ID, m.DisplayName, m.OwnedBy, m.Pricing.Input, m.Pricing.Output,
					most, thinking, strings.Join(to, ", "))
			}
			return t.Flush()
		},
	}
}

func keysCommand() *cobra.Command {
	keys := &cobra.Command{Use: "keys", Short: "Make keys for clients"}
	keys.AddCommand(&cobra.Command{
		Use:   "new [NAME]",
		Short: "Make a key",
		Long: "Make a key and print it, once, with the lines for gateway.toml that let it in. The file holds only the key's\n" +
			"digest, from which the key cannot be had back.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := "client"
			if len(args) == 1 {
				name = args[0]
			}
			secret, digest := access.NewSecret()
			w := c.OutOrStdout()
			fmt.Fprintf(w, "%s\n\n", secret)
			fmt.Fprintf(w, "# The key above is shown this once. Into gateway.toml:\n[[keys]]\nname   = %q\ndigest = %q\nmodels = [\"*\"]\n", name, digest)
			return nil
		},
	})
	return keys
}

func pluginCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "plugin", Short: "Look at plugins"}
	c.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the plugins that are built in or configured",
		Long: "List the plugins that are built into this binary and those that the configuration adds, with what each one is,\n" +
			"its size and its SHA-256. Each is loaded and checked.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(o)
			if err != nil {
				return err
			}
			infos, err := proxy.InspectPlugins(context.Background(), proxy.Options{Config: cfg, Bundled: plugins.FS(), CacheDir: o.cache}, plugins.Names())
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
	return c
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			fmt.Fprintf(c.OutOrStdout(), "sluice %s", versionText())
			if info != nil {
				fmt.Fprintf(c.OutOrStdout(), " (%s)", info.GoVersion)
			}
			fmt.Fprintln(c.OutOrStdout())
			return nil
		},
	}
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
