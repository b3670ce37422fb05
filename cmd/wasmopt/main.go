// Command wasmopt optimises a plugin's WebAssembly module that was built by Go:
//
//	wasmopt IN OUT
package main

import (
	"fmt"
	"os"

	"github.com/sluice-gateway/sluice/proxy"
)

const usage = `Usage: wasmopt IN OUT

Optimises IN, a plugin's WebAssembly module built by Go, and writes it to OUT.
The result does the same with less fuel and CPU time.
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
