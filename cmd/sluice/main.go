// Command sluice is the gateway: it serves gateway.toml, checks it, and helps to write it.
//
// Only flags, wiring and what a person reads are here; package proxy is the gateway.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// The exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitInvalid = 3 // the configuration, or a plugin that it names, is not usable
)

// version is set by the linker.
var version = ""

func main() {
	err := command().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, describe(err))
	os.Exit(exitCode(err))
}

// command is the whole command line.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "An edge gateway for chat completions",
		Long: "Sluice serves the OpenAI chat completions convention and answers through providers that sandboxed\n" +
			"WebAssembly plugins translate for. `sluice serve` in a folder with a gateway.toml is all it takes.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	o := &options{}
	root.PersistentFlags().StringVarP(&o.config, "config", "c", configDefault(), "configuration file ($SLUICE_CONFIG)")
	root.PersistentFlags().StringVar(&o.cache, "cache", cacheDefault(), "folder for compiled plugins, \"\" for none")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nTry `%s --help`", err, c.CommandPath())}
	})
	root.AddCommand(serveCommand(o), checkCommand(o), modelsCommand(o), keysCommand(), pluginCommand(o), versionCommand())
	return root
}

// options are the flags that all commands share.
type options struct{ config, cache string }

func configDefault() string {
	if path := os.Getenv("SLUICE_CONFIG"); path != "" {
		return path
	}
	return "gateway.toml"
}

func cacheDefault() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice")
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

// exitCode says how the process ends.
func exitCode(err error) int {
	var usage usageError
	var invalid config.Errors
	var build *proxy.BuildError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &invalid), errors.As(err, &build):
		return exitInvalid
	}
	return exitFailed
}

// describe is an error as a person reads it. The errors of a configuration carry their places and stand for themselves.
func describe(err error) string {
	var invalid config.Errors
	if errors.As(err, &invalid) {
		return fmt.Sprintf("%v\n%s", invalid, count(len(invalid), "error"))
	}
	return "sluice: " + err.Error()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
