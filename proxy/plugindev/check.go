package plugindev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Report describes a plugin that the gateway would accept.
type Report struct {
	Kind     string // such as "a provider"
	Provider bool
	Router   bool
	ABI      string // version of the plugin ABI that it was written for
	HostABI  string // version of the gateway's plugin ABI
	Size     int    // size of the module, in bytes
	SHA256   string
	Memory   int // memory of an idle instance, in bytes

	Exports []string            // exported functions
	Imports map[string][]string // imported functions, by module

	Schema  bool     // whether the module describes its options
	Options []string // each as "name (type, required, default 1): description", sorted by name

	Rejected error    // the error with which the plugin rejects the settings of its vectors, or empty settings if it has none; nil if it accepts them
	Tested   []Tested // results of its vectors
	Warnings []string // what the gateway accepts, but is most likely a mistake
}

// Check loads a module as the gateway does, with the same errors, and runs its vectors, if there are any.
func Check(ctx context.Context, h *Host, m Module, vectors *Suite) (*Report, error) {
	p, err := h.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	module, err := wasm.Parse(m.Wasm)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(m.Wasm)
	r := &Report{
		Kind: p.plugin.Kind(), Provider: p.Provider(), Router: p.Router(),
		ABI: fmt.Sprintf("%d.%d", abi.Major, p.plugin.Minor()), HostABI: fmt.Sprintf("%d.%d", abi.Major, abi.Minor),
		Size: len(m.Wasm), SHA256: hex.EncodeToString(sum[:]), Memory: int(p.plugin.Stats().Memory), Imports: map[string][]string{},
	}
	for _, x := range module.Exports {
		if x.Kind == wasm.ExternFunc {
			r.Exports = append(r.Exports, x.Name)
		}
	}
	for _, im := range module.Imports {
		r.Imports[im.Module] = append(r.Imports[im.Module], im.Name)
	}
	if err := r.readSchema(m); err != nil {
		return nil, err
	}
	if _, r.Rejected = p.Bind(ctx, vectors.Use); r.Rejected != nil || vectors.Len() == 0 {
		r.Warnings = warnings(m, nil, &mistakes{})
		return r, nil
	}
	r.Tested, err = vectors.Test(ctx, h, m, TestOptions{})
	r.Warnings = warnings(m, r.Tested, &mistakes{})
	return r, err
}

// readSchema lists the options that the module's schema describes.
func (r *Report) readSchema(m Module) error {
	var text []byte
	for _, section := range []string{abi.SectionOptions + "." + m.Name, abi.SectionOptions} {
		if text, r.Schema = wasm.Custom(m.Wasm, section); r.Schema {
			break
		}
	}
	if !r.Schema {
		return nil
	}
	var schema struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type        json.RawMessage `json:"type"`
			Default     json.RawMessage `json:"default"`
			Description string          `json:"description"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		return fmt.Errorf("the schema of the options: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		var about []string
		if kind := strings.Trim(string(p.Type), `"`); kind != "" {
			about = append(about, kind)
		}
		if slices.Contains(schema.Required, name) {
			about = append(about, "required")
		}
		if len(p.Default) > 0 {
			about = append(about, "default "+string(p.Default))
		}
		if len(about) > 0 {
			name += " (" + strings.Join(about, ", ") + ")"
		}
		if p.Description != "" {
			name += ": " + p.Description
		}
		r.Options = append(r.Options, name)
	}
	return nil
}

// Costliest returns the vector with the call that used the largest share of its budget, or nil if there are no vectors.
func (r *Report) Costliest() (costliest *Tested) {
	for i := range r.Tested {
		if t := &r.Tested[i]; costliest == nil || t.Cost.Share > costliest.Cost.Share {
			costliest = t
		}
	}
	return costliest
}
