// Command sluice serves a gateway, checks its configuration, and helps to write it.
//
// It contains flags, wiring and output for people; package proxy is the gateway. Results go to standard output. Errors,
// and everything that serve prints, go to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// version is set by the linker.
var version = ""

func main() {
	useBundledRoots()
	if err := newCommand().ExecuteContext(context.Background()); err != nil {
		_, logged := errors.AsType[loggedError](err)
		if _, printed := errors.AsType[failedVectors](err); !logged && !printed {
			fmt.Fprintln(os.Stderr, formatError(err))
		}
		os.Exit(exitCode(err))
	}
}

// options are the flags that all commands share.
type options struct {
	config, cache string
	opening       func(name string)                                // called with the name of each included file before it is read; may be nil
	dev           bool                                             // serve --dev
	unpinned      bool                                             // plugin files need no sha256
	values        bool                                             // fill in Config.Values
	pull          bool                                             // pull plugins from registries to check their options
	resolve       bool                                             // look up tags, for errors about them
	bundle        func(*config.Config) (*config.BundleText, error) // returns the bundle that the node runs; nil for the one on disk
	pluginsOnly   bool                                             // read only what concerns plugins
}

// newCommand builds the command tree.
func newCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "sluice",
		Short: "An edge gateway for LLM APIs",
		Long: "Sluice serves OpenAI's chat completions and Responses, Anthropic's Messages and Google's generateContent, and\n" +
			"translates each of them to the APIs of providers, with plugins that run as sandboxed WebAssembly. It is configured\n" +
			"by one file, gateway.toml.\n\n" +
			"Exit codes: 0 success; 1 failure; 2 usage error; 3 invalid configuration or plugin.",
		Example:       "  sluice serve\n  sluice check --config /etc/sluice/gateway.toml\n  sluice keys new team-a",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	root.SetUsageFunc(printUsage)
	root.SetHelpCommand(newHelpCommand(root))
	root.SetFlagErrorFunc(flagError)

	o := &options{}
	flags := root.PersistentFlags()
	flags.StringVarP(&o.config, "config", "c", getenv("SLUICE_CONFIG", "gateway.toml"), "configuration `file`, or $SLUICE_CONFIG")
	flags.StringVar(&o.cache, "cache", getenv("SLUICE_CACHE", defaultCache()), "`directory` for compiled and pulled plugins, or $SLUICE_CACHE; \"\" for no cache")
	root.AddCommand(newServeCommand(o), newCheckCommand(o), newExplainCommand(o), newHealthcheckCommand(o), newReloadCommand(o), newRequestsCommand(o), newTopCommand(o), newUsageCommand(o), newBudgetCommand(o), newModelsCommand(o), newPricesCommand(o), newKeysCommand(o), newImportCommand(), newPluginCommand(o), newBundleCommand(o), newVersionCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			group(c)
		}
	}
	return root
}

func getenv(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice")
}
