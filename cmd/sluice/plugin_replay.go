package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

func newPluginReplayCommand(o *options) *cobra.Command {
	var modules []string
	var name string
	c := &cobra.Command{
		Use:   "replay DIR --module A --module B",
		Short: "Compare two versions of a plugin on recorded traffic",
		Long: "Run vectors, such as those that `sluice plugin record` writes, through two versions of a plugin, and print the differences\n" +
			"for each request: in the request to the provider, and in what the client receives. A module is a file, or the name of a\n" +
			"built-in plugin. With only one --module, it is compared with the module that the vectors were recorded with.\n\n" +
			"The exit code is 1 if anything differs.",
		Example: "  sluice plugin replay recorded --module old.wasm --module new.wasm",
		Args:    oneArgument("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			suite, err := plugindev.OpenSuite(args[0])
			if err != nil {
				return err
			}
			f := pluginFlags{plugin: cmp.Or(name, suite.Plugin)}
			if len(modules) == 1 && (suite.Module != "" || suite.Plugin != "") {
				recorded, err := f.openFolder(c, args[0])
				if err != nil {
					return err
				}
				modules = append([]string{cmp.Or(recorded.file, recorded.module.Name)}, modules...)
			}
			if len(modules) != 2 {
				return newUsageError(c, "want two modules, each with --module")
			}
			var sides [2]plugindev.Module
			for i, m := range modules {
				if sides[i], err = readModule(m, f.plugin); err != nil {
					return err
				}
			}
			h, closed, err := o.host()
			if err != nil {
				return err
			}
			defer closed()
			n, differences, err := suite.Replay(context.Background(), h, sides[0], sides[1])
			if err != nil {
				return invalidPlugin(err)
			}
			for _, d := range differences {
				fmt.Fprintf(c.OutOrStdout(), "%s\n%s\n", d.Name, d.Text)
			}
			if len(differences) > 0 {
				return fmt.Errorf("modules A (%s) and B (%s) differ in %d of %s", modules[0], modules[1], len(differences), plural(n, "request"))
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: no differences\n", plural(n, "request"))
			return err
		},
	}
	c.Flags().StringArrayVar(&modules, "module", nil, "`file` of a module, or name of a built-in plugin; given twice")
	c.Flags().StringVar(&name, "plugin", "", "`name` of the plugin, if the module contains several")
	return c
}

// readModule reads a module from a file, or the module of a bundled plugin that has this name.
func readModule(file, plugin string) (plugindev.Module, error) {
	wasm, err := os.ReadFile(file)
	if err != nil {
		if os.IsNotExist(err) && slices.Contains(plugins.Names(), file) {
			return bundledModule(file)
		}
		return plugindev.Module{}, err
	}
	if err := proxy.CheckModuleFile(file, wasm); err != nil {
		return plugindev.Module{}, invalidPlugin(err)
	}
	return plugindev.Module{Name: cmp.Or(plugin, strings.TrimSuffix(file, ".wasm")), Wasm: wasm}, nil
}
