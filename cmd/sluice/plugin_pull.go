package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

func newPluginInspectCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect oci://REGISTRY/REPOSITORY:TAG",
		Short: "Describe a plugin in a registry",
		Long: "Describe a plugin in an OCI registry by what its publisher says of it, and print the line of gateway.toml that names it by\n" +
			"digest. Nothing is verified but the digest: `sluice plugin check` says what a module does that `sluice plugin pull` wrote.",
		Example: "  sluice plugin inspect oci://registry.example.com/acme/mine:1.2",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return newUsageError(c, "`%s` takes a reference", c.CommandPath())
			}
			p, err := o.findPublished(c, args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			return describePublished(c, p)
		},
	}
}

func newPluginPullCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "pull REFERENCE DIR",
		Short: "Pull a plugin from a registry",
		Long: "Pull a plugin from an OCI registry by tag or digest, write plugin.wasm to a directory, and options.json, README.md and\n" +
			"LICENSE if they were pushed with it, and describe it. It is not needed to serve a plugin, which `sluice serve` pulls by its\n" +
			"digest, but to read, test or mirror one.",
		Example: "  sluice plugin pull oci://registry.example.com/acme/mine:1.2 mine",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return newUsageError(c, "`%s` takes a reference and a directory", c.CommandPath())
			}
			p, err := o.findPublished(c, args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			files := map[string][]byte{}
			if files["plugin.wasm"], err = p.Module(c.Context()); err != nil {
				return err
			}
			for _, name := range []string{"options.json", "README.md", "LICENSE"} {
				text, err := p.Text(c.Context(), name)
				if err != nil {
					return err
				}
				if text != nil {
					files[name] = text
				}
			}
			if err := createFiles(args[1], files); err != nil {
				return err
			}
			return describePublished(c, p)
		},
	}
}

// createFiles writes files to a directory, which is created, unless one of them exists.
func createFiles(dir string, files map[string][]byte) error {
	for name := range files {
		name = filepath.Join(dir, name)
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already", name)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) findPublished(c *cobra.Command, reference string) (*plugindev.Published, error) {
	cfg, err := o.loadRegistries()
	if err != nil {
		return nil, err
	}
	return plugindev.FindPublished(c.Context(), cfg, reference)
}

func describePublished(c *cobra.Command, p *plugindev.Published) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	name := p.Annotations[plugindev.AnnotationTitle]
	for _, row := range []struct{ title, text string }{
		{"plugin", name}, {"version", p.Annotations[plugindev.AnnotationVersion]}, {"license", p.Annotations[plugindev.AnnotationLicense]},
		{"kind", p.Annotations[plugindev.AnnotationKind]}, {"abi", p.Annotations[plugindev.AnnotationABI]}, {"score", p.Annotations[plugindev.AnnotationScore]},
		{"size", fmt.Sprintf("%d bytes", p.Size)},
	} {
		if row.text != "" {
			fmt.Fprintf(w, "%s\t%s\n", row.title, strings.Map(printableRune, row.text))
		}
	}
	if name == "" {
		name = "NAME"
	}
	fmt.Fprintf(w, "\n[plugins.%s]\nfile = %q\n", formatKey(name), p.Reference)
	return w.Flush()
}
