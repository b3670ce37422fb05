package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func checkCommand(o *options) *cobra.Command {
	var onlyFile bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration",
		Long: "Check the configuration and load the plugins that it uses, without serving. All errors of the file are\n" +
			"listed with their places. The exit code is 0 where `sluice serve` would take the configuration, and 3 where\n" +
			"it, or a plugin, is not usable.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := o.load("")
			if err != nil {
				return err
			}
			for _, w := range warnings(cfg) {
				fmt.Fprintf(c.ErrOrStderr(), "%v (warning)\n", w)
			}
			if !onlyFile {
				s, err := o.build(cfg, c.ErrOrStderr())
				if err != nil {
					return err
				}
				s.Close()
			}
			return report(c.OutOrStdout(), cfg)
		},
	}
	c.Flags().BoolVar(&onlyFile, "file-only", false, "do not load the plugins")
	return c
}

// report says what a configuration that is valid amounts to.
func report(w io.Writer, cfg *config.Config) error {
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
	_, err := fmt.Fprintf(w, "%s is valid: %s, %d of %s on, %d of %s on\n", cfg.Path, count(len(cfg.Keys), "key"),
		on, count(len(cfg.Providers), "provider"), models, count(len(cfg.Models), "model"))
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
