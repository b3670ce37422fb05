package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

func newPluginPushCommand(o *options) *cobra.Command {
	f := &pluginFlags{}
	version, license := "", ""
	c := &cobra.Command{
		Use:   "push oci://REGISTRY/REPOSITORY:TAG FILE|DIR",
		Short: "Push a plugin to a registry",
		Long: "Push a plugin to an OCI registry, and print the line of gateway.toml that names it by digest. The second argument is the\n" +
			"same as for `sluice plugin check`, which the plugin must pass. The schema of its options, and README.md and LICENSE next\n" +
			"to the module, are pushed with it. Annotations have its kind, its version of the plugin ABI, the result of\n" +
			"`sluice plugin score`, its version and its license.\n\n" +
			"The credential for the registry is that of [registries] in the configuration, if there is one.",
		Example: "  sluice plugin push oci://registry.example.com/acme/mine:1.2 .",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return newUsageError(c, "`%s` takes a reference, and the file or the folder of a plugin", c.CommandPath())
			}
			if err := plugindev.CheckReference(args[0]); err != nil {
				return newUsageError(c, "%s: %w", args[0], err)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			s, err := f.open(c, args[1])
			if err != nil {
				return err
			}
			cfg, err := o.loadRegistries()
			if err != nil {
				return err
			}
			annotations, err := o.annotate(c, s)
			if err != nil {
				return err
			}
			annotations[plugindev.AnnotationVersion] = cmp.Or(version, plugindev.ReferenceTag(args[0]))
			if license != "" {
				annotations[plugindev.AnnotationLicense] = license
			}
			files, err := publishedFiles(filepath.Dir(s.file))
			if err != nil {
				return err
			}
			pinned, err := plugindev.Push(c.Context(), cfg, args[0], s.module, files, annotations)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "[plugins.%s]\nfile = %q\n", formatKey(s.module.Name), pinned)
			return err
		},
	}
	f.register(c)
	c.Flags().StringVar(&version, "version", "", "`version` of the plugin (default the tag)")
	c.Flags().StringVar(&license, "license", "", "SPDX `expression` of its license, such as Apache-2.0")
	return c
}

// loadRegistries reads [registries] of the configuration. If there is no configuration, registries are accessed
// anonymously.
func (o *options) loadRegistries() (*config.Config, error) {
	if _, err := os.Stat(o.config); errors.Is(err, fs.ErrNotExist) {
		return new(config.Config), nil
	}
	o.pluginsOnly, o.dev = true, true // the configuration of a plugin's author may lack the digest of its file
	return o.load("")
}

// annotate checks and scores a plugin, and returns the annotations that describe the result.
func (o *options) annotate(c *cobra.Command, s *subject) (map[string]string, error) {
	h, closed, err := o.host()
	if err != nil {
		return nil, err
	}
	defer closed()
	r, err := plugindev.Check(c.Context(), h, s.module, s.suite)
	if err != nil {
		return nil, invalidPlugin(err)
	}
	for i := range r.Tested {
		if len(r.Tested[i].Failures) > 0 {
			return nil, fmt.Errorf("the vector %s failed: see `sluice plugin test`", r.Tested[i].Name)
		}
	}
	annotations := map[string]string{plugindev.AnnotationTitle: s.module.Name, plugindev.AnnotationKind: strings.TrimPrefix(r.Kind, "a "), plugindev.AnnotationABI: r.ABI}
	if len(r.Tested) == 0 {
		return annotations, nil
	}
	marks, err := s.suite.Score(c.Context(), h, s.module)
	if err != nil {
		return nil, invalidPlugin(err)
	}
	tried, kept := 0, 0
	for _, m := range marks {
		if m.Tried > 0 {
			tried++
			if m.Broken == "" {
				kept++
			}
		}
	}
	annotations[plugindev.AnnotationScore] = fmt.Sprintf("%d of %s kept", kept, plural(tried, "rule"))
	return annotations, nil
}

// publishedFiles reads the texts in a folder that are pushed with a plugin.
func publishedFiles(dir string) (files []plugindev.File, err error) {
	for _, file := range []plugindev.File{{Title: "README.md", MediaType: "text/markdown"}, {Title: "LICENSE", MediaType: "text/plain"}} {
		file.Content, err = os.ReadFile(filepath.Join(dir, file.Title))
		switch {
		case err == nil:
			files = append(files, file)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return files, nil
}
