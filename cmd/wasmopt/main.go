// Command wasmopt optimises the WebAssembly module of a plugin that was built by Go's compiler:
//
//	wasmopt IN OUT
package main

import (
	"fmt"
	"os"

	"github.com/sluice-gateway/sluice/proxy"
)

const usage = `Usage: wasmopt IN OUT

Reads the WebAssembly module IN, as Go's compiler makes it for a plugin, and writes
to OUT a module that does the same with less fuel and processor time.
`

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 1 && (args[0] == "-h" || args[0] == "--help"):
		fmt.Print(usage)
	case len(args) != 2:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	default:
		if err := optimize(args[0], args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "wasmopt: %v\n", err)
			os.Exit(1)
		}
	}
}

func optimize(in, out string) error {
	module, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	optimized, err := proxy.OptimizeModule(module)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	return os.WriteFile(out, optimized, 0o644)
}
