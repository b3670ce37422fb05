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

// choices formats the values of a flag for its help.
func choices(values []string) string {
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}

func newPluginNewCommand() *cobra.Command {
	t := project.Template{Version: versionText()}
	dir := ""
	c := &cobra.Command{
		Use:   "new NAME --language LANGUAGE",
		Short: "Write the folder of a new plugin",
		Long: "Write a folder with a working plugin: its source, test vectors, a configuration to try it with, and the kit of its\n" +
			"language in sdk. By default it is a provider plugin, which translates between chat completions and the API of a provider.\n" +
			"With --kind, it is a router, which orders the targets of a request, or a filter, which edits or rejects the texts of\n" +
			"requests and responses. Existing files are never overwritten.",
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
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s is a new %s in %s. Next:\n\n  cd %s\n  sluice plugin build\n  sluice plugin test\n\nIts README.md has the next steps.\n",
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
		Long: "Build the plugin in a folder into plugin.wasm. Its plugin.toml names the language. The compiler is looked up in PATH and\n" +
			"in the usual installation directories, and its errors are printed unchanged. Nothing is downloaded: if a compiler is\n" +
			"missing, the error says how to install it. Builds are reproducible: the same source and compiler give the same bytes in\n" +
			"every folder and on every machine. Modules built from Go are optimized. If the folder has an options.json, the JSON\n" +
			"Schema of the plugin's options, it becomes part of the module.",
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

// buildPlugin builds a plugin and prints its path, size and digest. The compiler's output goes to standard error.
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
		Short: "Replace the kit in a plugin's folder",
		Long: "Replace the kit in the sdk folder of a plugin with the kit of this binary. Build and test the plugin afterwards. If files\n" +
			"of the kit were changed, the command names them and fails, unless --force is set.",
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
