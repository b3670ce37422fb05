package plugindev

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/pull"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// maxText limits a text that Pull reads, in bytes.
const maxText = 1 << 20

// Published is a plugin in a registry.
type Published struct {
	Reference   string // with the digest that pins the plugin
	Annotations map[string]string
	Size        int64 // of the layer with the module, in bytes

	reference oci.Reference
	manifest  *oci.Manifest
	puller    *pull.Puller
}

// FindPublished looks up a plugin by tag or digest. Close the result.
func FindPublished(ctx context.Context, cfg *config.Config, reference string) (p *Published, err error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	puller := pull.New(pull.Options{Registry: modules.Registries(cfg)})
	defer func() {
		if err != nil {
			puller.Close()
		}
	}()
	if r, err = puller.Pin(ctx, r); err != nil {
		return nil, err
	}
	m, err := puller.Manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	module, err := m.Module()
	if err != nil {
		return nil, err
	}
	return &Published{Reference: r.String(), Annotations: m.Annotations, Size: module.Size, reference: r, manifest: m, puller: puller}, nil
}

// Close closes the connections to the registry.
func (p *Published) Close() { p.puller.Close() }

// Module returns the module.
func (p *Published) Module(ctx context.Context) ([]byte, error) {
	return p.puller.Module(ctx, p.reference)
}

// Text returns a file of at most 1 MiB that was pushed with the plugin, or nil if there is none with this name.
func (p *Published) Text(ctx context.Context, name string) ([]byte, error) {
	for _, l := range p.manifest.Layers {
		switch {
		case l.Annotations[AnnotationTitle] != name:
		case l.Size > maxText:
			return nil, fmt.Errorf("%s has %d bytes, more than %d", name, l.Size, maxText)
		default:
			return p.puller.Blob(ctx, p.reference, l)
		}
	}
	return nil, nil
}
