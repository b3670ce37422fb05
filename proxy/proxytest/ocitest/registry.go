// Package ocitest is a registry for tests, on 127.0.0.1: it stores manifests and blobs in memory, and serves the parts
// of the OCI distribution API that the gateway uses. A test can require a credential or a token, intercept requests, and
// stop the registry.
//
// Concurrency: a Registry is safe for concurrent use.
package ocitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// The credential and the token that a Registry accepts.
const (
	Username = "acme"
	Password = "registry-password-canary"
	Token    = "registry-token-canary"
)

// Auth is how a Registry authenticates its clients.
type Auth int

// The kinds of authentication.
const (
	Anonymous  Auth = iota // everyone may pull and push
	Basic                  // requests need Username and Password
	TokenLogin             // requests need Token, which the registry's token service returns for Username and Password
	TokenOpen              // requests need Token, which the token service returns to everyone
)

// Registry is a running registry.
type Registry struct {
	server *httptest.Server
	auth   Auth

	mu        sync.Mutex
	blobs     map[string][]byte // by repository and digest
	manifests map[string][]byte // by repository and digest or tag
	requests  []string
	intercept func(http.ResponseWriter, *http.Request) bool
}

// New starts a registry, which is stopped at the end of the test.
func New(tb testing.TB, auth Auth) *Registry {
	tb.Helper()
	return start(tb, auth, httptest.NewServer)
}

// NewTLS starts a registry that is accessed with HTTPS. Its certificate is for 127.0.0.1.
func NewTLS(tb testing.TB, auth Auth) *Registry {
	tb.Helper()
	return start(tb, auth, httptest.NewTLSServer)
}

func start(tb testing.TB, auth Auth, listen func(http.Handler) *httptest.Server) *Registry {
	r := &Registry{auth: auth, blobs: map[string][]byte{}, manifests: map[string][]byte{}}
	r.server = listen(http.HandlerFunc(r.serve))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are the client's errors
	tb.Cleanup(r.server.Close)
	return r
}

// Name returns the registry's name in references: its host and port.
func (r *Registry) Name() string {
	_, name, _ := strings.Cut(r.server.URL, "://")
	return name
}

// CA returns the certificate of a registry that was started with NewTLS, as PEM.
func (r *Registry) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
}

// Stop stops the registry, so that connections to it are refused.
func (r *Registry) Stop() { r.server.Close() }

// Intercept calls f before each request is served. If it returns true, it has responded.
func (r *Registry) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = f
}

// Requests returns the method and path of each request since the last call.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.requests
	r.requests = nil
	return all
}

// Manifest returns the manifest with a digest or tag, or nil.
func (r *Registry) Manifest(repository, name string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manifests[repository+"@"+name]
}

// PutBlob stores a blob and returns its descriptor.
func (r *Registry) PutBlob(repository, mediaType string, content []byte) oci.Descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := oci.DigestOf(content)
	r.blobs[repository+"@"+string(digest)] = content
	return oci.Descriptor{MediaType: mediaType, Digest: digest, Size: int64(len(content))}
}

// PutManifest stores a manifest, sets a tag to it unless that is empty, and returns its reference by digest.
func (r *Registry) PutManifest(repository, tag string, manifest []byte) oci.Reference {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := oci.DigestOf(manifest)
	r.manifests[repository+"@"+string(digest)] = manifest
	if tag != "" {
		r.manifests[repository+"@"+tag] = manifest
	}
	return oci.Reference{Registry: r.Name(), Repository: repository, Digest: digest}
}

// PutPlugin stores a manifest with one layer, sets a tag to it, and returns its reference by digest.
func (r *Registry) PutPlugin(repository, tag, mediaType string, layer []byte) oci.Reference {
	manifest, _ := json.Marshal(oci.Manifest{
		SchemaVersion: 2, MediaType: oci.TypeManifest, Config: r.PutBlob(repository, oci.TypeEmpty, []byte("{}")),
		Layers: []oci.Descriptor{r.PutBlob(repository, mediaType, layer)},
	})
	return r.PutManifest(repository, tag, manifest)
}

var paths = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+|uploads/[^/]*)$`)

func (r *Registry) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, q.Method+" "+q.URL.Path)
	intercept := r.intercept
	r.mu.Unlock()
	if intercept != nil && intercept(w, q) {
		return
	}
	user, password, _ := q.BasicAuth()
	login := user == Username && password == Password
	if q.URL.Path == "/token" {
		if r.auth == TokenLogin && !login || !strings.HasPrefix(q.URL.Query().Get("scope"), "repository:") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"token":%q}`, Token)
		return
	}
	switch {
	case r.auth == Basic && !login:
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case r.auth >= TokenLogin && q.Header.Get("Authorization") != "Bearer "+Token:
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.server.URL+`/token",service="test",scope="repository:x:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	m := paths.FindStringSubmatch(q.URL.Path)
	if m == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	if m[2] == "manifests" {
		r.serveManifest(w, q, m[1], m[3], body)
		return
	}
	r.serveBlob(w, q, m[1], m[3], body)
}

func (r *Registry) serveManifest(w http.ResponseWriter, q *http.Request, repository, name string, body []byte) {
	if q.Method == http.MethodPut {
		var m oci.Manifest
		if json.Unmarshal(body, &m) != nil || slices.ContainsFunc(append(m.Layers, m.Config), func(d oci.Descriptor) bool { return r.blob(repository, string(d.Digest)) == nil }) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if strings.HasPrefix(name, "sha256:") {
			name = ""
		}
		r.PutManifest(repository, name, body)
		w.WriteHeader(http.StatusCreated)
		return
	}
	manifest := r.Manifest(repository, name)
	if manifest == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", oci.TypeManifest)
	_, _ = w.Write(manifest)
}

func (r *Registry) blob(repository, digest string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blobs[repository+"@"+digest]
}

func (r *Registry) serveBlob(w http.ResponseWriter, q *http.Request, repository, name string, body []byte) {
	switch q.Method {
	case http.MethodPost:
		w.Header().Set("Location", "/v2/"+repository+"/blobs/uploads/1?state=a")
		w.WriteHeader(http.StatusAccepted)
		return
	case http.MethodPut:
		if digest := q.URL.Query().Get("digest"); digest != string(oci.DigestOf(body)) || q.URL.Query().Get("state") != "a" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.PutBlob(repository, "", body)
		w.WriteHeader(http.StatusCreated)
		return
	}
	content := r.blob(repository, name)
	if content == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(content)
}

// File is a file of an archive.
type File struct {
	Name    string
	Content []byte
}

// Archive returns a gzipped tar archive, the layer of an image.
func Archive(files ...File) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, f := range files {
		_ = t.WriteHeader(&tar.Header{Name: f.Name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.Content))})
		_, _ = t.Write(f.Content)
	}
	_ = t.Close()
	_ = z.Close()
	return b.Bytes()
}
