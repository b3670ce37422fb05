package distribution

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// Registry is how a registry is reached.
type Registry struct {
	Name         string         // host or host:port, as in references
	PlainHTTP    bool           // HTTP instead of HTTPS
	Roots        *x509.CertPool // certificates that verify those of the registry, and of hosts that it names; nil for those of the system
	AllowPrivate bool           // its name, and hosts that it names, may have private and loopback addresses
	Username     string         // "" for anonymous access
	Password     string
	Mirrors      []string // names of registries to pull from first
}

// Client accesses registries. Close it.
type Client struct {
	registry func(name string) Registry
	redactor *credential.Redactor
	sessions map[sessionKey]*session
	pauses   []time.Duration // before each retry
}

// sessionKey identifies a session.
type sessionKey struct {
	registry, repository string
	push                 bool
}

// New returns a Client. registry returns how to reach a registry, for any name. It does not connect.
func New(registry func(name string) Registry) *Client {
	return &Client{
		registry: registry, redactor: credential.NewRedactor(), sessions: map[sessionKey]*session{},
		pauses: []time.Duration{250 * time.Millisecond, time.Second},
	}
}

// Retry sets the pauses before requests are sent again, for tests.
func (c *Client) Retry(pauses ...time.Duration) { c.pauses = pauses }

// Close closes the connections.
func (c *Client) Close() {
	for _, s := range c.sessions {
		s.client.Close()
	}
}

// Resolve returns the digest of the manifest that a tag names now.
func (c *Client) Resolve(ctx context.Context, r oci.Reference) (oci.Digest, error) {
	manifest, err := c.pull(ctx, r, "/manifests/"+r.Tag, oci.ManifestTypes, oci.MaxManifest, func(content []byte) error {
		_, err := oci.ParseManifest(content)
		return err
	})
	if err != nil {
		return "", err
	}
	return oci.DigestOf(manifest), nil
}

// Manifest returns the manifest with a reference's digest.
func (c *Client) Manifest(ctx context.Context, r oci.Reference) ([]byte, error) {
	return c.pull(ctx, r, "/manifests/"+string(r.Digest), oci.ManifestTypes, oci.MaxManifest, r.Digest.Check)
}

// Blob returns a blob of a reference's repository.
func (c *Client) Blob(ctx context.Context, r oci.Reference, d oci.Descriptor) ([]byte, error) {
	if d.Size > oci.MaxModule {
		return nil, fmt.Errorf("the blob %s has %d bytes, more than %d", d.Digest, d.Size, oci.MaxModule)
	}
	return c.pull(ctx, r, "/blobs/"+string(d.Digest), "", int(d.Size), func(content []byte) error {
		if int64(len(content)) != d.Size {
			return fmt.Errorf("the blob %s has %d bytes, not %d as in the manifest", d.Digest, len(content), d.Size)
		}
		return d.Digest.Check(content)
	})
}

// pull gets the content of a path below the reference's repository from the first registry, mirrors included, that has
// it and for which check returns nil. The content has at most limit bytes.
func (c *Client) pull(ctx context.Context, r oci.Reference, path, accept string, limit int, check func([]byte) error) ([]byte, error) {
	var errs []error
	for _, name := range append(c.registry(r.Registry).Mirrors, r.Registry) {
		s, err := c.session(sessionKey{registry: name, repository: r.Repository})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var content []byte
		err = c.retry(ctx, func() error {
			var err error
			content, err = s.get(ctx, path, accept, limit)
			return err
		})
		if err == nil {
			if err = check(content); err == nil {
				return content, nil
			}
			err = fmt.Errorf("registry %s: %w", name, err)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// PushBlob uploads a blob, unless the repository has it.
func (c *Client) PushBlob(ctx context.Context, r oci.Reference, content []byte) error {
	s, err := c.session(sessionKey{r.Registry, r.Repository, true})
	if err != nil {
		return err
	}
	return c.retry(ctx, func() error { return s.pushBlob(ctx, content) })
}

// PushManifest uploads a manifest whose blobs have been uploaded, and sets the reference's tag to it, if there is one.
func (c *Client) PushManifest(ctx context.Context, r oci.Reference, manifest []byte) error {
	s, err := c.session(sessionKey{r.Registry, r.Repository, true})
	if err != nil {
		return err
	}
	name := r.Tag
	if name == "" {
		name = string(oci.DigestOf(manifest))
	}
	return c.retry(ctx, func() error {
		return s.expect(ctx, http.StatusCreated, func() *upstream.Request {
			return &upstream.Request{Method: http.MethodPut, Path: s.path("/manifests/" + name), ContentType: oci.TypeManifest, Body: manifest}
		})
	})
}

// Layer is a layer of an artifact to push.
type Layer struct {
	Title, MediaType string // Title is a file name
	Content          []byte
}

// titleAnnotation is OCI's annotation for the file name of a layer.
const titleAnnotation = "org.opencontainers.image.title"

// PushArtifact pushes an artifact without a configuration, sets the reference's tag to it, and returns its digest. The
// same artifact has the same digest each time.
func (c *Client) PushArtifact(ctx context.Context, r oci.Reference, artifactType string, layers []Layer, annotations map[string]string) (oci.Digest, error) {
	empty := []byte("{}")
	manifest := oci.Manifest{
		SchemaVersion: 2, MediaType: oci.TypeManifest, ArtifactType: artifactType, Annotations: annotations,
		Config: oci.Descriptor{MediaType: oci.TypeEmpty, Digest: oci.DigestOf(empty), Size: int64(len(empty))},
	}
	if err := c.PushBlob(ctx, r, empty); err != nil {
		return "", err
	}
	for _, l := range layers {
		if err := c.PushBlob(ctx, r, l.Content); err != nil {
			return "", err
		}
		manifest.Layers = append(manifest.Layers, oci.Descriptor{
			MediaType: l.MediaType, Digest: oci.DigestOf(l.Content), Size: int64(len(l.Content)), Annotations: map[string]string{titleAnnotation: l.Title},
		})
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	return oci.DigestOf(content), c.PushManifest(ctx, r, content)
}

// retry calls f until it succeeds, or fails in a way that does not go away, or all retries have failed.
func (c *Client) retry(ctx context.Context, f func() error) error {
	for _, pause := range c.pauses {
		err := f()
		if err == nil || !temporary(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
	return f()
}

// temporary reports whether a request may succeed when it is repeated.
func temporary(err error) bool {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status == http.StatusTooManyRequests || e.status >= 500 && e.status != http.StatusNotImplemented
	}
	e, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		return false
	}
	if _, forbidden := errors.AsType[*upstream.AddressError](err); forbidden {
		return false
	}
	return e.Kind == upstream.Unreachable || e.Kind == upstream.Timeout || e.Kind == upstream.Truncated
}

// statusError is the error for a response with an unexpected status.
type statusError struct {
	registry, target string
	status           int
	anonymous        bool // the registry is accessed without a credential
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("registry %s: %s: status %d", e.registry, e.target, e.status)
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		if e.anonymous {
			return s + fmt.Sprintf(": the repository does not exist, or needs a credential: set auth in [registries.%q]", e.registry)
		}
		return s + fmt.Sprintf(": the registry refuses the credential of [registries.%q]", e.registry)
	case http.StatusNotFound:
		return s + ": it does not exist"
	}
	return s
}

// newUpstream returns the client for a host. received says that the host was named by the registry.
func (c *Client) newUpstream(r *Registry, host string, plain, received bool, auth credential.Credential) (*upstream.Client, error) {
	scheme := "https://"
	if plain {
		scheme = "http://"
	}
	var conf *tls.Config
	if r.Roots != nil {
		conf = &tls.Config{RootCAs: r.Roots}
	}
	return upstream.New(upstream.Config{
		TLS:  conf,
		Name: r.Name, BaseURL: scheme + host, Credential: auth, Redactor: c.redactor, AllowPrivate: r.AllowPrivate, Received: received,
		MaxConns: 4, Timeouts: upstream.Timeouts{FirstByte: 15 * time.Second, Idle: 15 * time.Second, Total: 5 * time.Minute},
	})
}

// parseReceived parses a URL that a registry has sent, relative to a base. Its errors do not quote it, because it may
// contain a credential.
func parseReceived(r *Registry, base *url.URL, text string) (*url.URL, error) {
	u, err := base.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Opaque != "":
		return nil, fmt.Errorf("registry %s: the registry has sent an invalid URL", r.Name)
	case u.Scheme != "https" && !(u.Scheme == "http" && r.PlainHTTP):
		return nil, fmt.Errorf("registry %s: the registry has sent a URL that is not https", r.Name)
	}
	return u, nil
}

// target returns the path and query of a URL for a request.
func target(u *url.URL) string {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path
}

// IsMissing reports whether a pull failed because a registry does not have what was asked for.
func IsMissing(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.status == http.StatusNotFound
}
