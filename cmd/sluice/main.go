// Command sluice is the gateway: it serves gateway.toml, checks it, and helps to write it.
//
// Only flags, wiring and what a person reads are here; package proxy is the gateway. Results go to the standard output;
// errors, and all that serve says, to the standard error.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = ""

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, describe(err))
		os.Exit(exitCode(err))
	}
}

// options are the flags that all commands share.
type options struct{ config, cache string }

// command is the whole command line.
func command() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "sluice",
		Short: "An edge gateway for chat completions",
		Long: "Sluice serves the OpenAI chat completions convention and answers through providers that sandboxed\n" +
			"WebAssembly plugins translate for. `sluice serve` in a folder with a gateway.toml is all it takes.\n\n" +
			"Exit codes: 0 done; 1 failed; 2 the command line makes no sense; 3 the configuration, or a plugin that it\n" +
			"uses, is not usable.",
		Example:       "  sluice serve\n  sluice check --config /etc/sluice/gateway.toml\n  sluice keys new team-a",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.SetUsageFunc(usageText)
	root.SetHelpCommand(helpCommand(root))
	root.SetFlagErrorFunc(flagError)

	o := &options{}
	flags := root.PersistentFlags()
	flags.StringVarP(&o.config, "config", "c", fromEnv("SLUICE_CONFIG", "gateway.toml"), "configuration file, $SLUICE_CONFIG")
	flags.StringVar(&o.cache, "cache", fromEnv("SLUICE_CACHE", cacheDefault()), "folder for compiled plugins, $SLUICE_CACHE; \"\" for none")
	root.AddCommand(serveCommand(o), checkCommand(o), healthcheckCommand(o), modelsCommand(o), keysCommand(), pluginCommand(o), versionCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
		}
	}
	return root
}

func fromEnv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func cacheDefault() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice")
}
