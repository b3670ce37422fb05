package modules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// SchemaSource is a folder of bundled plugins that returns the schemas of their options without reading modules.
type SchemaSource interface {
	OptionsSchema(plugin string) []byte
}

// OptionsSchema returns the JSON Schema of a plugin's options, from a custom section of its module. It returns nil if
// there is none or the file cannot be read or has another SHA-256; such errors are reported when the module is loaded.
func OptionsSchema(bundled SchemaSource, p *config.Plugin) []byte {
	if p.File == "" {
		return bundled.OptionsSchema(p.Name)
	}
	module, err := os.ReadFile(p.File)
	if sum := sha256.Sum256(module); err != nil || hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil
	}
	for _, section := range []string{abi.SectionOptions + "." + p.Name, abi.SectionOptions} {
		if schema, ok := wasm.Custom(module, section); ok {
			return schema
		}
	}
	return nil
}

// AddOptionsSchema returns a module with the JSON Schema of a plugin's options added, as a custom section. plugin is
// empty for a module of one plugin.
func AddOptionsSchema(module []byte, plugin string, schema []byte) ([]byte, error) {
	if err := config.CheckOptionsSchema(schema); err != nil {
		return nil, err
	}
	name := abi.SectionOptions
	if plugin != "" {
		name += "." + plugin
	}
	if _, exists := wasm.Custom(module, name); exists {
		return nil, fmt.Errorf("the module already has a section %s", name)
	}
	return wasm.AppendCustom(module, name, schema), nil
}
