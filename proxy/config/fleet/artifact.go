package fleet

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/pull"
)

// kind is a kind of signed document. In a registry, it is an artifact with two layers: the content and its signature.
type kind struct {
	artifactType string
	mediaType    string // of the content
	title        string // name of the content's file
	comment      string // trusted comment of the signature, so that no document can pass for one of another kind
	limit        int64  // size of the content
}

var (
	bundles = kind{
		artifactType: "application/vnd.sluice.bundle.v1", mediaType: "application/vnd.sluice.bundle.v1+toml",
		title: "bundle.toml", comment: "sluice bundle v1", limit: 16 << 20,
	}
	rollouts = kind{
		artifactType: "application/vnd.sluice.rollout.v1", mediaType: "application/vnd.sluice.rollout.v1+json",
		title: "rollout.json", comment: "sluice rollout v1", limit: 256 << 10,
	}
)

const (
	signatureType  = "application/vnd.sluice.signature.v1"
	signatureLimit = 4 << 10
)

// Signed is a signed document whose signature has been verified.
type Signed struct {
	Content   []byte
	Signature []byte // a file of minisign
	Key       PublicKey
}

// open pulls a document and verifies it. Nothing that is too large is read.
func (k *kind) open(ctx context.Context, p *pull.Puller, r oci.Reference, keys []PublicKey) (*Signed, error) {
	m, err := p.Manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	if m.ArtifactType != k.artifactType || len(m.Layers) != 2 || m.Layers[0].MediaType != k.mediaType || m.Layers[1].MediaType != signatureType {
		return nil, fmt.Errorf("%s is not a %s with its signature, but of type %.60q", r, k.title, m.ArtifactType)
	}
	if size := m.Layers[0].Size; size > k.limit {
		return nil, fmt.Errorf("%s: %s has %d bytes, more than %d", r, k.title, size, k.limit)
	}
	if size := m.Layers[1].Size; size > signatureLimit {
		return nil, fmt.Errorf("%s: the signature has %d bytes, more than %d", r, size, signatureLimit)
	}
	s := new(Signed)
	if s.Content, err = p.Blob(ctx, r, m.Layers[0]); err != nil {
		return nil, err
	}
	if s.Signature, err = p.Blob(ctx, r, m.Layers[1]); err != nil {
		return nil, err
	}
	if s.Key, err = verify(keys, s.Content, s.Signature, k.comment); err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	return s, nil
}

// push signs a document and pushes it.
func (k *kind) push(ctx context.Context, c *distribution.Client, r oci.Reference, content []byte, key SecretKey) (oci.Digest, error) {
	if int64(len(content)) > k.limit {
		return "", fmt.Errorf("%s has %d bytes, more than %d", k.title, len(content), k.limit)
	}
	return c.PushArtifact(ctx, r, k.artifactType, []distribution.Layer{
		{Title: k.title, MediaType: k.mediaType, Content: content},
		{Title: k.title + ".minisig", MediaType: signatureType, Content: key.sign(content, k.comment)},
	}, nil)
}
