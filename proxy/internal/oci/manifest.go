package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Limits for what a registry sends, in bytes.
const (
	MaxManifest = 4 << 20 // as in the distribution specification
	MaxModule   = 64 << 20
)

// Media types.
const (
	TypeManifest = "application/vnd.oci.image.manifest.v1+json"
	TypeEmpty    = "application/vnd.oci.empty.v1+json"
	TypeWasm     = "application/wasm"

	typeIndex          = "application/vnd.oci.image.index.v1+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// ManifestTypes are the media types of manifests that ParseManifest accepts, for requests.
const ManifestTypes = TypeManifest + ", " + typeDockerManifest

// moduleTypes are the media types of layers that are a module.
var moduleTypes = map[string]bool{
	TypeWasm: true,
	"application/vnd.wasm.content.layer.v1+wasm":        true,
	"application/vnd.module.wasm.content.layer.v1+wasm": true,
}

// archiveTypes are the media types of layers that are a gzipped tar archive, as image builders make them.
var archiveTypes = map[string]bool{
	"application/vnd.oci.image.layer.v1.tar+gzip":       true,
	"application/vnd.docker.image.rootfs.diff.tar.gzip": true,
}

// Descriptor describes a blob.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      Digest            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Manifest is an image manifest.
type Manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// ParseManifest parses and checks a manifest.
func ParseManifest(data []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("the manifest is not valid: %w", err)
	}
	switch m.MediaType {
	case TypeManifest, typeDockerManifest, "":
	case typeIndex, typeDockerIndex:
		return nil, errors.New("the digest is that of an index of several manifests: name the digest of one of them")
	default:
		return nil, fmt.Errorf("the manifest has the media type %.100q: want %s", m.MediaType, TypeManifest)
	}
	if m.SchemaVersion != 2 {
		return nil, fmt.Errorf("the manifest has schema version %d: want 2", m.SchemaVersion)
	}
	for _, d := range append([]Descriptor{m.Config}, m.Layers...) {
		if !d.Digest.Valid() || d.Size < 0 {
			return nil, errors.New("the manifest has a blob whose digest is not a SHA-256, or without a size")
		}
	}
	return m, nil
}

// Module returns the layer that contains the module: the only one that is a module, or else the only archive.
func (m *Manifest) Module() (Descriptor, error) {
	for _, types := range []map[string]bool{moduleTypes, archiveTypes} {
		var found []Descriptor
		for _, l := range m.Layers {
			if types[l.MediaType] {
				found = append(found, l)
			}
		}
		switch {
		case len(found) > 1:
			return Descriptor{}, fmt.Errorf("the manifest has %d layers of media type %s: want one", len(found), found[0].MediaType)
		case len(found) == 1 && found[0].Size > MaxModule:
			return Descriptor{}, fmt.Errorf("the module has %d bytes, more than %d", found[0].Size, MaxModule)
		case len(found) == 1:
			return found[0], nil
		}
	}
	var have []string
	for _, l := range m.Layers[:min(len(m.Layers), 5)] {
		have = append(have, fmt.Sprintf("%.100q", l.MediaType))
	}
	return Descriptor{}, fmt.Errorf("the manifest has no layer of media type %s or tar+gzip, only %s", TypeWasm, orNone(strings.Join(have, ", ")))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// ExtractModule returns the module in a layer whose content has been verified. In an archive, it is the only file whose
// name ends with .wasm. Nothing is written to disk, so names in the archive have no other effect.
func ExtractModule(d Descriptor, content []byte) ([]byte, error) {
	if !archiveTypes[d.MediaType] {
		return content, nil
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("the layer is not valid gzip: %w", err)
	}
	// The limit covers everything that is decompressed, also files that are skipped.
	archive := tar.NewReader(&limited{from: uncompressed, left: MaxModule})
	var module []byte
	found := false
	for {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, archiveError(err)
		}
		if h.Typeflag != tar.TypeReg || path.Ext(h.Name) != ".wasm" {
			continue
		}
		if found {
			return nil, errors.New("the layer's archive has several files that end with .wasm: want one")
		}
		found = true
		if h.Size > MaxModule { // the holes of a sparse file are not in the archive
			return nil, errTooLarge
		}
		if module, err = io.ReadAll(archive); err != nil {
			return nil, archiveError(err)
		}
	}
	if !found {
		return nil, errors.New("the layer's archive has no file that ends with .wasm")
	}
	return module, nil
}

func archiveError(err error) error {
	if errors.Is(err, errTooLarge) {
		return err
	}
	return fmt.Errorf("the layer is not a valid archive: %w", err)
}

var errTooLarge = fmt.Errorf("the layer has more than %d bytes when decompressed", MaxModule)

// limited is a reader that fails with errTooLarge when it has read more than its limit.
type limited struct {
	from io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, errTooLarge
	}
	n, err := l.from.Read(p[:min(len(p), l.left+1)])
	if l.left -= n; l.left < 0 {
		return n, errTooLarge
	}
	return n, err
}
