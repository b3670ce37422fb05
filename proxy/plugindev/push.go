package plugindev

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Annotations of a plugin in a registry. Those that OCI defines have its names.
const (
	AnnotationTitle   = "org.opencontainers.image.title"
	AnnotationVersion = "org.opencontainers.image.version"
	AnnotationLicense = "org.opencontainers.image.licenses"
	AnnotationKind    = "io.github.sluice-gateway.plugin.kind"
	AnnotationABI     = "io.github.sluice-gateway.plugin.abi"
	AnnotationScore   = "io.github.sluice-gateway.plugin.score"
)

// artifactType is the type of a plugin that Push pushes.
const artifactType = "application/vnd.sluice.plugin.v1"

// File is a text that is pushed with a plugin, such as its README. Its Title is its name.
type File = distribution.Layer

// CheckReference returns an error unless Push accepts a reference.
func CheckReference(reference string) error {
	r, err := oci.ParseReference(reference)
	if err == nil && r.Digest != "" {
		err = fmt.Errorf("has a digest, which only a plugin that was pushed has")
	}
	return err
}

// ReferenceTag returns the tag of a reference, or "".
func ReferenceTag(reference string) string {
	r, _ := oci.ParseReference(reference)
	return r.Tag
}

// Push pushes a plugin to a registry under a reference by tag: its module, the schema of its options and the files, each
// as a layer of one manifest. It returns the reference with the digest that pins the plugin. The same plugin has the
// same digest each time.
func Push(ctx context.Context, cfg *config.Config, reference string, m Module, files []File, annotations map[string]string) (pinned string, err error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%s: %w", reference, err)
	}
	if len(m.Wasm) > oci.MaxModule {
		return "", fmt.Errorf("the module has %d bytes, more than %d", len(m.Wasm), oci.MaxModule)
	}
	layers := []File{{Title: "plugin.wasm", MediaType: oci.TypeWasm, Content: m.Wasm}}
	for _, section := range []string{abi.SectionOptions + "." + m.Name, abi.SectionOptions} {
		if schema, ok := wasm.Custom(m.Wasm, section); ok {
			layers = append(layers, File{Title: "options.json", MediaType: "application/schema+json", Content: schema})
			break
		}
	}
	client := distribution.New(modules.Registries(cfg))
	defer client.Close()
	if r.Digest, err = client.PushArtifact(ctx, r, artifactType, append(layers, files...), annotations); err != nil {
		return "", err
	}
	return r.String(), nil
}
