// Command wasmopt optimises a plugin's WebAssembly module that Go built, and adds the schema of its options:
//
//	wasmopt [-options FILE] [-options NAME=FILE]... IN OUT
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/sluice-gateway/sluice/proxy"
)

const usage = `Usage: wasmopt [-options FILE] [-options NAME=FILE]... IN OUT

Optimises IN, a plugin's WebAssembly module built by Go, and writes it to OUT.
The result does the same with less fuel and CPU time.

  -options FILE       add a JSON Schema of the plugin's options, with which
                      "sluice check" reports unknown and invalid options
  -options NAME=FILE  the same for one of several plugins in the module
`

func main() {
	var schemas []string
	flags := flag.NewFlagSet("wasmopt", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	flags.Func("options", "", func(file string) error {
		schemas = append(schemas, file)
		return nil
	})
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		os.Exit(2)
	case flags.NArg() != 2:
		flags.Usage()
		os.Exit(2)
	default:
		if err := optimize(flags.Arg(0), flags.Arg(1), schemas); err != nil {
			fmt.Fprintf(os.Stderr, "wasmopt: %v\n", err)
			os.Exit(1)
		}
	}
}

func optimize(in, out string, schemas []string) error {
	module, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	module, err = proxy.OptimizeModule(module)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	for _, arg := range schemas {
		plugin, file, named := strings.Cut(arg, "=")
		if !named {
			plugin, file = "", arg
		}
		schema, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if module, err = proxy.AddOptionsSchema(module, plugin, schema); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(out, module, 0o644)
}
