package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

// choices are values of a flag, as its help lists them.
func choices(values []string) string {
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}

func newPluginNewCommand() *cobra.Command {
	t := project.Template{Version: versionText()}
	dir := ""
	c := &cobra.Command{
		Use:   "new NAME --language LANGUAGE",
		Short: "Write the folder of a new plugin",
		Long: "Write a folder with a plugin that works: its source, test vectors, a configuration to try it with, and in sdk the kit of\n" +
			"its language. It is the start of a provider plugin, which translates between chat completions and the API of a provider,\n" +
			"or with --kind of a router, which orders the targets of a request. Files that exist are never overwritten.",
		Example: "  sluice plugin new my-provider --language go\n  sluice plugin new my-router --language rust --kind router --dir router",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes the name of the plugin", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			t.Name = args[0]
			if t.Language == "" {
				return newUsageError(c, "no language: choose %s with --language", choices(project.Languages))
			}
			if dir == "" {
				dir = t.Name
			}
			if err := project.New(dir, t); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s is a new %s in %s. Next:\n\n  cd %s\n  sluice plugin build\n  sluice plugin test\n\nIts README.md goes on from there.\n",
				dir, t.Kind, languageName(t.Language), dir)
			return err
		},
	}
	c.Flags().StringVarP(&t.Language, "language", "l", "", "`language` of the plugin: "+choices(project.Languages))
	c.Flags().StringVar(&t.Kind, "kind", project.Kinds[0], "`kind` of the plugin: "+choices(project.Kinds))
	c.Flags().StringVar(&dir, "dir", "", "write this `folder` (default the plugin's name)")
	return c
}

func languageName(language string) string {
	return map[string]string{"go": "Go", "rust": "Rust", "c": "C", "assemblyscript": "AssemblyScript"}[language]
}

func newPluginBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build a plugin",
		Long: "Build the plugin in a folder, whose plugin.toml names its language, into plugin.wasm. The compiler of the language is\n" +
			"searched in PATH and where its installers put it, and its errors are printed unchanged. Nothing is downloaded: the error\n" +
			"about a compiler that is missing says how to install it. The same source gives the same bytes in every folder and on\n" +
			"every machine with the same compiler, and modules of Go are optimized. A file options.json beside the source, a JSON\n" +
			"Schema of the plugin's options, becomes part of the module.",
		Example: "  sluice plugin build\n  sluice plugin build my-router",
		Args:    atMostOneArgument("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := project.Load(subjectArgument(args))
			if err != nil {
				return err
			}
			return buildPlugin(c.Context(), c, p)
		},
	}
}

// buildPlugin builds a plugin and prints what it has become. What the compiler says is printed before.
func buildPlugin(ctx context.Context, c *cobra.Command, p *project.Project) error {
	began := time.Now()
	a, err := project.NewBuilder(os.Environ(), c.ErrOrStderr()).Build(ctx, p)
	if err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s, built by %s in %s\nsha256 %s\n",
		a.Path, formatSize(a.Size), a.Compiler, time.Since(began).Round(100*time.Millisecond), a.SHA256)
	return err
}

func formatSize(n int) string {
	switch {
	case n < 1e4:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	case n < 1e6:
		return fmt.Sprintf("%.0f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func newPluginUpgradeCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:   "upgrade [DIR]",
		Short: "Renew the kit in a plugin's folder",
		Long: "Replace the kit in the sdk folder of a plugin by the one of this binary. Build and test the plugin afterwards. Without\n" +
			"--force, a kit in which files were changed is left as it is, and they are named.",
		Example: "  sluice plugin upgrade\n  sluice plugin upgrade my-router",
		Args:    atMostOneArgument("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := project.Load(subjectArgument(args))
			if err != nil {
				return err
			}
			from, to, err := p.Upgrade(versionText(), force)
			if err != nil {
				return err
			}
			text := "from " + from + " to " + to
			if from == to {
				text = "renewed, " + to
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", filepath.Join(p.Dir, "sdk"), text)
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite files of the kit that were changed")
	return c
}
