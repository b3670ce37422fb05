package proxy

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"

// OptimizeModule returns a form of a plugin's WebAssembly module that does the same with less fuel and processor time. It is
// for modules that Go's compiler has made; others gain little. The gateway runs modules as they are, so this belongs to the
// build of a plugin.
func OptimizeModule(wasm []byte) ([]byte, error) {
	out, _, err := goopt.Optimize(wasm)
	return out, err
}
