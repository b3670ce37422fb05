package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// SchemaSource is a folder of bundled plugins that returns the schemas of their options without reading modules.
type SchemaSource interface {
	OptionsSchema(plugin string) []byte
}

// OptionsSchema returns the JSON Schema of a plugin's options, from a custom section of its module. It returns nil if
// there is none or the module cannot be read or pulled, or has another SHA-256; such errors are reported when the module
// is loaded.
func OptionsSchema(ctx context.Context, bundled SchemaSource, cfg *config.Config, p *config.Plugin, from Sources) []byte {
	if p.File == "" {
		return bundled.OptionsSchema(p.Name)
	}
	var module []byte
	var err error
	if p.Reference != (oci.Reference{}) {
		puller := from.NewPuller(cfg)
		defer puller.Close()
		module, err = puller.Module(ctx, p.Reference)
	} else if module, err = os.ReadFile(p.File); err == nil {
		if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != p.SHA256 {
			return nil
		}
	}
	if err != nil {
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
