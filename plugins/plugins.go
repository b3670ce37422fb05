// Package plugins holds the built modules of the plugins that ship with the gateway, each as NAME.wasm.
//
// The modules are built into bundle before the binary is (make plugins); they are not kept in the repository. A binary
// that was built without them works, and has no plugins.
package plugins

import (
	"embed"
	"io/fs"
)

//go:embed all:bundle
var bundle embed.FS

// FS is the folder of the built modules. It may hold none.
func FS() fs.FS {
	sub, err := fs.Sub(bundle, "bundle")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// Names is the plugins that ship, whether or not this binary was built with them.
func Names() []string {
	return []string{"anthropic", "bedrock", "cohere", "demo", "gemini", "ollama", "openai", "router"}
}
