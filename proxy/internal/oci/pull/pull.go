// Package pull gets the modules of plugins that are named by references: from a folder on disk, or else from their
// registry, whose blobs it stores there.
//
// It owns that folder, which holds manifests and layers by digest, so a plugin that was pulled once is available while
// its registry is not. A blob is verified each time it is read, so a damaged or swapped one is pulled again and never
// used. The least recently used blobs are removed when the folder is too large.
//
// Concurrency: a Puller belongs to one goroutine at a time. Pullers, in any process, can share a folder.
package pull

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
)

// timeout limits how long pulling one module takes.
const timeout = 2 * time.Minute

// errOffline is the error for a blob that is not stored if registries must not be asked.
var errOffline = errors.New("it is not in the cache folder")

// Options configure a Puller.
type Options struct {
	Dir      string                                  // of compiled plugins; "" stores nothing
	Registry func(name string) distribution.Registry // how to reach a registry
	Offline  bool                                    // use what is stored, and no registry
	Keep     bool                                    // what cannot be stored is an error
	Log      *slog.Logger                            // may be nil
}

// Puller gets modules. Close it.
type Puller struct {
	blobs  blobs
	client *distribution.Client
	o      Options
}

// New returns a Puller. It neither connects nor creates a folder.
func New(o Options) *Puller {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Puller{blobs: newBlobs(o.Dir), client: distribution.New(o.Registry), o: o}
}

// Retry sets the pauses before requests are sent again, for tests.
func (p *Puller) Retry(pauses ...time.Duration) { p.client.Retry(pauses...) }

// Close closes the connections to registries.
func (p *Puller) Close() { p.client.Close() }

// Resolve returns the digest that a tag names now, which is not stored.
func (p *Puller) Resolve(ctx context.Context, r oci.Reference) (oci.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.client.Resolve(ctx, r)
}

// Pin returns a reference with a digest: its own, or else the one that its tag names now.
func (p *Puller) Pin(ctx context.Context, r oci.Reference) (oci.Reference, error) {
	if r.Digest != "" {
		return r, nil
	}
	var err error
	r.Digest, err = p.Resolve(ctx, r)
	return r, err
}

// Module returns the module that a reference with a digest names.
func (p *Puller) Module(ctx context.Context, r oci.Reference) ([]byte, error) {
	manifest, err := p.Manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	layer, err := manifest.Module()
	if err != nil {
		return nil, err
	}
	content, err := p.Blob(ctx, r, layer)
	if err != nil {
		return nil, err
	}
	return oci.ExtractModule(layer, content)
}

// Manifest returns the manifest with a reference's digest.
func (p *Puller) Manifest(ctx context.Context, r oci.Reference) (*oci.Manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	content, err := p.find(r.Digest, func() ([]byte, error) { return p.client.Manifest(ctx, r) })
	if err != nil {
		return nil, err
	}
	return oci.ParseManifest(content)
}

// Blob returns a blob of a manifest.
func (p *Puller) Blob(ctx context.Context, r oci.Reference, d oci.Descriptor) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.find(d.Digest, func() ([]byte, error) { return p.client.Blob(ctx, r, d) })
}

// find returns a stored blob, or else pulls and stores it. A blob that cannot be stored is used nevertheless.
func (p *Puller) find(digest oci.Digest, pull func() ([]byte, error)) ([]byte, error) {
	content, err := p.blobs.read(digest)
	if err == nil {
		return content, nil
	}
	if p.o.Offline {
		return nil, fmt.Errorf("%s: %w", digest, errOffline)
	}
	if content, err = pull(); err != nil {
		return nil, err
	}
	switch err := p.blobs.write(digest, content); {
	case err != nil && p.o.Keep:
		return nil, err
	case err != nil:
		p.o.Log.Warn("cannot store what was pulled from a registry; a start needs the registry", "digest", string(digest), "error", err)
	}
	return content, nil
}
