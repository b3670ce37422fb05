package distribution_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var module = []byte("\x00asm\x01\x00\x00\x00")

// newClient returns a client for registries on the loopback address, with the test's credential.
func newClient(t *testing.T, change func(*distribution.Registry)) *distribution.Client {
	t.Helper()
	c := distribution.New(func(name string) distribution.Registry {
		r := distribution.Registry{Name: name, PlainHTTP: true, AllowPrivate: true, Username: ocitest.Username, Password: ocitest.Password}
		if change != nil {
			change(&r)
		}
		return r
	})
	distribution.SetPauses(c, 0, 0)
	t.Cleanup(c.Close)
	return c
}

// fetch pulls a manifest and its only layer.
func fetch(c *distribution.Client, r oci.Reference) ([]byte, error) {
	manifest, err := c.Manifest(context.Background(), r)
	if err != nil {
		return nil, err
	}
	m, err := oci.ParseManifest(manifest)
	if err != nil {
		return nil, err
	}
	return c.Blob(context.Background(), r, m.Layers[0])
}

// TestHTTPS pulls over HTTPS with a token, with the registry's certificate authority and with others, and is redirected
// from HTTPS to HTTP.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	registry := ocitest.NewTLS(t, ocitest.TokenLogin)
	plain := ocitest.New(t, ocitest.Anonymous)
	r := registry.PutPlugin("acme/mine", "", oci.TypeWasm, module)
	own, other := x509.NewCertPool(), x509.NewCertPool()
	own.AppendCertsFromPEM(registry.CA())
	other.AddCert(certtest.SelfSigned(t, "", time.Now().Add(-time.Hour), time.Now().Add(time.Hour)).Leaf)
	for _, tt := range []struct {
		name  string
		roots *x509.CertPool
		err   string
	}{{"own", own, ""}, {"other", other, "certificate"}, {"system", nil, "certificate"}} {
		registry.Requests()
		got, err := fetch(newClient(t, func(s *distribution.Registry) { s.PlainHTTP, s.Roots = false, tt.roots }), r)
		switch {
		case tt.err == "":
			if err != nil || !bytes.Equal(got, module) {
				t.Errorf("%s: got %q, error %v", tt.name, got, err)
			}
		case err == nil || !strings.Contains(err.Error(), tt.err) || len(registry.Requests()) > 0:
			t.Errorf("%s: error %v, or the registry has received a request", tt.name, err)
		}
	}
	registry.Intercept(func(w http.ResponseWriter, q *http.Request) bool {
		http.Redirect(w, q, "http://"+plain.Name()+q.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	if _, err := fetch(newClient(t, func(s *distribution.Registry) { s.PlainHTTP, s.Roots = false, own }), r); err == nil || !strings.Contains(err.Error(), "a URL that is not https") || len(plain.Requests()) > 0 {
		t.Errorf("redirect to HTTP: error %v", err)
	}
}

// TestPull pulls with each kind of authentication, with the right credential, a wrong one and none.
func TestPull(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		auth      ocitest.Auth
		user      string
		password  string
		err       string
		wantToken int // requests for a token
	}{
		{"open", ocitest.Anonymous, "", "", "", 0},
		{"basic", ocitest.Basic, ocitest.Username, ocitest.Password, "", 0},
		{"basic, wrong", ocitest.Basic, ocitest.Username, "wrong", "refuses the credential of [registries.", 0},
		{"basic, anonymous", ocitest.Basic, "", "", "needs a credential: set auth in [registries.", 0},
		{"token", ocitest.TokenLogin, ocitest.Username, ocitest.Password, "", 1},
		{"token, wrong", ocitest.TokenLogin, ocitest.Username, "wrong", "refuses the credential of [registries.", 1},
		{"token, anonymous", ocitest.TokenLogin, "", "", "needs a credential", 1},
		{"token for everyone", ocitest.TokenOpen, "", "", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			registry := ocitest.New(t, tt.auth)
			c := newClient(t, func(r *distribution.Registry) { r.Username, r.Password = tt.user, tt.password })
			got, err := fetch(c, registry.PutPlugin("acme/mine", "", oci.TypeWasm, module))
			requests := registry.Requests()
			if n := count(requests, "GET /token"); n != tt.wantToken {
				t.Errorf("%d requests for a token, want %d: %q", n, tt.wantToken, requests)
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || !bytes.Equal(got, module) {
				t.Errorf("got %q, error %v", got, err)
			}
		})
	}
}

func count(all []string, want string) (n int) {
	for _, s := range all {
		if s == want {
			n++
		}
	}
	return n
}

// TestRejectsSwappedContent has the registry send other content than that of the digest.
func TestRejectsSwappedContent(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	r := registry.PutPlugin("acme/mine", "", oci.TypeWasm, module)
	other := registry.Manifest("acme/mine", string(registry.PutPlugin("acme/mine", "", oci.TypeWasm, []byte("\x00asm\x01\x00\x00\x01")).Digest))
	for name, path := range map[string]struct {
		of      string
		content []byte
		want    string
	}{
		"manifest":       {"/manifests/", other, "has the digest sha256:"},
		"blob":           {"/blobs/", []byte("\x00asm\x01\x00\x00\x01"), "has the digest sha256:"},
		"shorter blob":   {"/blobs/", module[:4], "has 4 bytes, not 8"},
		"longer blob":    {"/blobs/", append(module[:8:8], 0), "too large"},
		"empty manifest": {"/manifests/", nil, "has the digest sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			registry.Intercept(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.Contains(q.URL.Path, path.of) {
					return false
				}
				_, _ = w.Write(path.content)
				return true
			})
			registry.Requests()
			got, err := fetch(newClient(t, nil), r)
			if err == nil || !strings.Contains(err.Error(), path.want) {
				t.Errorf("got %q, error %v, want %q", got, err, path.want)
			}
			if requests := registry.Requests(); len(requests) > 2 {
				t.Errorf("content that is wrong was requested again: %q", requests)
			}
		})
	}
}

// TestManifestTooLarge announces and sends manifests of 10 GB, and checks that little of them is read.
func TestManifestTooLarge(t *testing.T) {
	t.Parallel()
	const size = 10 << 30
	for name, length := range map[string]string{"announced": fmt.Sprint(size), "in chunks": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			registry := ocitest.New(t, ocitest.Anonymous)
			registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				chunk := bytes.Repeat([]byte{' '}, 1<<20)
				for sent.Load() < size {
					n, err := w.Write(chunk)
					if sent.Add(int64(n)); err != nil {
						break
					}
				}
				return true
			})
			_, err := newClient(t, nil).Manifest(t.Context(), oci.Reference{Registry: registry.Name(), Repository: "a", Digest: oci.DigestOf(nil)})
			if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Kind != upstream.TooLarge {
				t.Errorf("got error %v", err)
			}
			if n := sent.Load(); n > 64<<20 {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

// TestCompressedManifest has the registry send a manifest that is compressed for transfer, and is far too large without.
func TestCompressedManifest(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	bomb := ocitest.Archive(ocitest.File{Content: make([]byte, 2*oci.MaxManifest)}) // gzip
	registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
		return true
	})
	_, err := newClient(t, nil).Manifest(t.Context(), oci.Reference{Registry: registry.Name(), Repository: "a", Digest: oci.DigestOf(nil)})
	if err == nil || !strings.Contains(err.Error(), "compression ratio too high") {
		t.Errorf("got error %v", err)
	}
}

// TestBlobTooLarge checks that a blob is not requested if the manifest says that it is too large.
func TestBlobTooLarge(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	_, err := newClient(t, nil).Blob(t.Context(), oci.Reference{Registry: registry.Name(), Repository: "a"}, oci.Descriptor{Digest: oci.DigestOf(nil), Size: oci.MaxModule + 1})
	if err == nil || !strings.Contains(err.Error(), "more than 67108864") || len(registry.Requests()) != 0 {
		t.Errorf("got error %v", err)
	}
}

// TestRedirects follows redirects to storage without the credential, and to the registry itself with it.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var storageAuth atomic.Value
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		storageAuth.Store(q.Header.Get("Authorization"))
		if q.URL.Query().Get("signature") == "x/y" {
			_, _ = w.Write(module)
		}
	}))
	t.Cleanup(storage.Close)
	for name, tt := range map[string]struct{ location, want string }{
		"storage":         {storage.URL + "/bucket/blob?signature=x%2Fy", ""},
		"itself":          {"/v2/acme/mine/blobs/elsewhere", ""},
		"without end":     {"", "status 307"},
		"no location":     {"none", "status 307"},
		"not HTTP":        {"file:///etc/passwd", "invalid URL"},
		"another scheme":  {"gopher://127.0.0.1/", "not https"},
		"with a user":     {"http://me:canary@127.0.0.1/", "invalid URL"},
		"metadata":        {"http://169.254.169.254/latest/meta-data/", "link-local"},
		"metadata, IPv6":  {"http://[fd00:ec2::254]/latest/meta-data/", "metadata"},
		"metadata, Azure": {"http://168.63.129.16/", "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := ocitest.New(t, ocitest.TokenLogin)
			r := registry.PutPlugin("acme/mine", "", oci.TypeWasm, module)
			registry.Intercept(func(w http.ResponseWriter, q *http.Request) bool {
				switch {
				case q.Header.Get("Authorization") != "Bearer "+ocitest.Token:
					return false
				case strings.HasSuffix(q.URL.Path, "/elsewhere"):
					_, _ = w.Write(module)
				case !strings.Contains(q.URL.Path, "/blobs/"):
					return false
				case tt.location == "none":
					w.WriteHeader(http.StatusTemporaryRedirect)
				case tt.location == "":
					w.Header().Set("Location", q.URL.Path)
					w.WriteHeader(http.StatusTemporaryRedirect)
				default:
					w.Header().Set("Location", tt.location)
					w.WriteHeader(http.StatusTemporaryRedirect)
				}
				return true
			})
			got, err := fetch(newClient(t, nil), r)
			switch {
			case tt.want == "" && (err != nil || !bytes.Equal(got, module)):
				t.Errorf("got %q, error %v", got, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want %q", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "canary"):
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
	if got := storageAuth.Load(); got != "" {
		t.Errorf("the storage received Authorization %q", got)
	}
}

// TestNoPrivateAddresses checks that a registry with a public address cannot send the gateway to a private one, neither
// by a redirect nor by the address of its token service.
func TestNoPrivateAddresses(t *testing.T) {
	t.Parallel()
	reached := false
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(private.Close)
	for name, header := range map[string][2]string{
		"redirect":      {"Location", private.URL + "/"},
		"localhost":     {"Location", strings.Replace(private.URL, "127.0.0.1", "localhost", 1) + "/"},
		"token service": {"WWW-Authenticate", `Bearer realm="` + private.URL + `/token"`},
	} {
		t.Run(name, func(t *testing.T) {
			registry := ocitest.New(t, ocitest.Anonymous)
			registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set(header[0], header[1])
				w.WriteHeader(map[bool]int{true: http.StatusFound, false: http.StatusUnauthorized}[header[0] == "Location"])
				return true
			})
			c := newClient(t, func(r *distribution.Registry) { r.AllowPrivate = false })
			_, err := c.Manifest(t.Context(), oci.Reference{Registry: registry.Name(), Repository: "a", Digest: oci.DigestOf(nil)})
			if _, ok := errors.AsType[*upstream.AddressError](err); !ok {
				t.Errorf("got error %v", err)
			}
			if n := len(registry.Requests()); n != 1 {
				t.Errorf("%d requests, want 1: what is forbidden is not retried", n)
			}
		})
	}
	if reached {
		t.Error("the private address was reached")
	}
}

// TestDowngrade checks that a registry with HTTPS cannot name a host without.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	_, err := distribution.ParseReceived(&distribution.Registry{Name: "registry.test"}, "https://registry.test", "http://storage.test/")
	if err == nil || !strings.Contains(err.Error(), "not https") {
		t.Errorf("got error %v", err)
	}
}

// TestRetries fails requests in several ways, and checks which of them are sent again.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fail     func(http.ResponseWriter)
		failures int
		ok       bool
		requests int
	}{
		"unavailable twice": {func(w http.ResponseWriter) { w.WriteHeader(503) }, 2, true, 3},
		"unavailable":       {func(w http.ResponseWriter) { w.WriteHeader(503) }, 9, false, 3},
		"rate limit":        {func(w http.ResponseWriter) { w.WriteHeader(429) }, 1, true, 2},
		"connection lost":   {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 2, true, 3},
		"truncated": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}, 1, true, 2},
		"not found": {func(w http.ResponseWriter) { w.WriteHeader(404) }, 9, false, 1},
		"forbidden": {func(w http.ResponseWriter) { w.WriteHeader(403) }, 9, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := ocitest.New(t, ocitest.Anonymous)
			r := registry.PutPlugin("a", "", oci.TypeWasm, module)
			var failed atomic.Int32
			registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				if int(failed.Add(1)) > tt.failures {
					return false
				}
				tt.fail(w)
				return true
			})
			_, err := newClient(t, nil).Manifest(t.Context(), r)
			if requests := registry.Requests(); (err == nil) != tt.ok || len(requests) != tt.requests {
				t.Errorf("got error %v after %d requests, want %d", err, len(requests), tt.requests)
			}
		})
	}
}

// TestCancelledRetry checks that a pull that has been given up does not wait for its next retry.
func TestCancelledRetry(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	registry := ocitest.New(t, ocitest.Anonymous)
	registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(503)
		cancel()
		return true
	})
	c := newClient(t, nil)
	distribution.SetPauses(c, time.Hour)
	if _, err := c.Manifest(ctx, oci.Reference{Registry: registry.Name(), Repository: "a", Digest: oci.DigestOf(nil)}); err == nil {
		t.Error("no error")
	}
}

// TestMirrors pulls from mirrors that work, are down, lack the plugin, or have swapped it.
func TestMirrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mirror       func(*ocitest.Registry)
		fromRegistry bool
	}{
		"works": {func(m *ocitest.Registry) { m.PutPlugin("a", "", oci.TypeWasm, module) }, false},
		"down":  {func(m *ocitest.Registry) { m.Stop() }, true},
		"lacks": {func(*ocitest.Registry) {}, true},
		"swapped": {func(m *ocitest.Registry) {
			m.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(module); return true })
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, mirror := ocitest.New(t, ocitest.Anonymous), ocitest.New(t, ocitest.Anonymous)
			r := registry.PutPlugin("a", "", oci.TypeWasm, module)
			tt.mirror(mirror)
			c := newClient(t, func(r *distribution.Registry) {
				if r.Name == registry.Name() {
					r.Mirrors = []string{mirror.Name()}
				}
			})
			if got, err := fetch(c, r); err != nil || !bytes.Equal(got, module) {
				t.Errorf("got %q, error %v", got, err)
			}
			if asked := len(registry.Requests()) > 0; asked != tt.fromRegistry {
				t.Errorf("the registry was asked: %t", asked)
			}
		})
	}
}

// TestResolve looks up a tag before and after it was moved.
func TestResolve(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	c := newClient(t, nil)
	for _, layer := range [][]byte{module, append(module[:8:8], 0)} {
		want := registry.PutPlugin("a", "stable", oci.TypeWasm, layer)
		got, err := c.Resolve(t.Context(), oci.Reference{Registry: registry.Name(), Repository: "a", Tag: "stable"})
		if err != nil || got != want.Digest {
			t.Errorf("got %s, error %v, want %s", got, err, want.Digest)
		}
	}
}

// push pushes a manifest with one layer, and returns its reference.
func push(t *testing.T, c *distribution.Client, r oci.Reference) oci.Reference {
	t.Helper()
	m := oci.Manifest{SchemaVersion: 2, MediaType: oci.TypeManifest, ArtifactType: "application/vnd.test"}
	for i, content := range [][]byte{[]byte("{}"), module} {
		if err := c.PushBlob(t.Context(), r, content); err != nil {
			t.Fatal(err)
		}
		d := oci.Descriptor{MediaType: oci.TypeEmpty, Digest: oci.DigestOf(content), Size: int64(len(content))}
		if i == 0 {
			m.Config = d
		} else {
			m.Layers = append(m.Layers, d)
		}
	}
	manifest, _ := json.Marshal(m)
	if err := c.PushManifest(t.Context(), r, manifest); err != nil {
		t.Fatal(err)
	}
	r.Digest = oci.DigestOf(manifest)
	return r
}

func TestPush(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]ocitest.Auth{"open": ocitest.Anonymous, "basic": ocitest.Basic, "token": ocitest.TokenLogin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := ocitest.New(t, auth)
			c := newClient(t, nil)
			r := push(t, c, oci.Reference{Registry: registry.Name(), Repository: "acme/mine", Tag: "1.2"})
			if got, err := fetch(c, r); err != nil || !bytes.Equal(got, module) {
				t.Errorf("got %q, error %v", got, err)
			}
			if d, err := c.Resolve(t.Context(), r); err != nil || d != r.Digest {
				t.Errorf("the tag names %s, error %v", d, err)
			}
			registry.Requests()
			push(t, c, r)
			if slices.ContainsFunc(registry.Requests(), func(s string) bool { return strings.HasPrefix(s, "POST") }) {
				t.Error("blobs were pushed again")
			}
		})
	}
}

// TestDockerRegistry pushes to and pulls from Debian's docker-registry.
func TestDockerRegistry(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("docker-registry is not installed")
	}
	address := ocitest.StartDockerRegistry(t.Context(), t, program, filepath.Join(t.TempDir(), "data"))
	c := newClient(t, func(r *distribution.Registry) { r.Username = "" })
	r := push(t, c, oci.Reference{Registry: address, Repository: "acme/mine", Tag: "1.2"})
	if got, err := fetch(c, r); err != nil || !bytes.Equal(got, module) {
		t.Errorf("got %q, error %v", got, err)
	}
	if d, err := c.Resolve(t.Context(), r); err != nil || d != r.Digest {
		t.Errorf("the tag names %s, error %v", d, err)
	}
	r.Digest = oci.DigestOf([]byte("missing"))
	if _, err := c.Manifest(t.Context(), r); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got error %v", err)
	}
}

// FuzzChallenge checks that a parsed challenge has what is needed to use it.
func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://auth.test/token",service="a b",scope="repository:x:pull,push"`)
	f.Add(`Bearer realm=a, error="x\"y"`)
	f.Add(`Basic realm="a"`)
	f.Fuzz(func(t *testing.T, header string) {
		if basic, realm, err := distribution.ParseChallenge(header); err == nil && !basic && realm == "" {
			t.Errorf("%q has no realm", header)
		}
	})
}

func TestChallenges(t *testing.T) {
	for header, want := range map[string]string{
		`Bearer realm="https://a/token",service="s"`:            "https://a/token",
		`bearer   service=s , realm="https://a/\"token" ,x="y"`: `https://a/"token`,
		`Basic realm="x"`:  "basic",
		`Digest realm="x"`: "error", ``: "error", `Bearer`: "error", `Bearer realm`: "error", `Bearer realm="a`: "error", `Bearer service="s"`: "error",
		`Bearer realm="a" service="b"`: "error", `Bearer realm=`: "error",
	} {
		basic, realm, err := distribution.ParseChallenge(header)
		got := realm
		switch {
		case err != nil:
			got = "error"
		case basic:
			got = "basic"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
}
