package pull_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/pull"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var module = []byte("\x00asm\x01\x00\x00\x00")

const tarGzip = "application/vnd.oci.image.layer.v1.tar+gzip"

func newPuller(t *testing.T, o pull.Options) *pull.Puller {
	t.Helper()
	o.Registry = func(name string) distribution.Registry {
		return distribution.Registry{Name: name, PlainHTTP: true, AllowPrivate: true}
	}
	p := pull.New(o)
	t.Cleanup(p.Close)
	return p
}

// blobsDir returns the folder of blobs in a cache folder.
func blobsDir(cache string) string { return filepath.Join(cache, "blobs", "sha256") }

// TestModule pulls a module in each layout, and then gets it from disk while the registry is down.
func TestModule(t *testing.T) {
	t.Parallel()
	for name, layer := range map[string]struct {
		mediaType string
		content   []byte
	}{"module": {oci.TypeWasm, module}, "archive": {tarGzip, ocitest.Archive(ocitest.File{Name: "plugin.wasm", Content: module})}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := t.TempDir()
			registry := ocitest.New(t, ocitest.TokenOpen)
			r := registry.PutPlugin("acme/mine", "", layer.mediaType, layer.content)
			for _, stop := range []bool{false, true} {
				if stop {
					registry.Stop()
				}
				got, err := newPuller(t, pull.Options{Dir: cache}).Module(t.Context(), r)
				if err != nil || !bytes.Equal(got, module) {
					t.Fatalf("registry down %t: got %q, error %v", stop, got, err)
				}
			}
			if got, err := newPuller(t, pull.Options{Dir: cache, Offline: true}).Module(t.Context(), r); err != nil || !bytes.Equal(got, module) {
				t.Errorf("offline: got %q, error %v", got, err)
			}
			files, err := os.ReadDir(blobsDir(cache))
			if err != nil || len(files) != 2 || !strings.Contains(files[0].Name()+files[1].Name(), r.Digest.Hex()) {
				t.Errorf("the folder has %v, error %v; want the manifest and the layer", files, err)
			}
		})
	}
}

// TestOffline checks that a module that is not stored is an error, and that no registry is asked.
func TestOffline(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	r := registry.PutPlugin("a", "", oci.TypeWasm, module)
	_, err := newPuller(t, pull.Options{Dir: t.TempDir(), Offline: true}).Module(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "is not in the cache folder") || len(registry.Requests()) > 0 {
		t.Errorf("got error %v", err)
	}
}

// TestWithoutFolder checks that without a folder everything is pulled each time.
func TestWithoutFolder(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	r := registry.PutPlugin("a", "", oci.TypeWasm, module)
	for range 2 {
		if got, err := newPuller(t, pull.Options{}).Module(t.Context(), r); err != nil || !bytes.Equal(got, module) || len(registry.Requests()) != 2 {
			t.Errorf("got %q, error %v", got, err)
		}
	}
}

// TestDamagedBlobs changes stored blobs, and checks that each is pulled again and that the wrong content is never used,
// also if the registry is down.
func TestDamagedBlobs(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"swapped":   func(path string) error { return os.WriteFile(path, []byte("\x00asm\x01\x00\x00\x01"), 0o600) },
		"truncated": func(path string) error { return os.Truncate(path, 3) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"large":     func(path string) error { return os.Truncate(path, oci.MaxModule+10) },
		"missing":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := t.TempDir()
			registry := ocitest.New(t, ocitest.Anonymous)
			r := registry.PutPlugin("a", "", oci.TypeWasm, module)
			load := func() ([]byte, error) { return newPuller(t, pull.Options{Dir: cache}).Module(t.Context(), r) }
			if _, err := load(); err != nil {
				t.Fatal(err)
			}
			for _, stop := range []bool{false, true} {
				if stop {
					registry.Stop()
				}
				files, err := filepath.Glob(filepath.Join(blobsDir(cache), "*"))
				if err != nil || len(files) != 2 {
					t.Fatalf("the folder has %q, error %v", files, err)
				}
				for _, file := range files {
					if err := damage(file); err != nil {
						t.Fatal(err)
					}
				}
				got, err := load()
				if stop && err == nil || !stop && (err != nil || !bytes.Equal(got, module)) {
					t.Errorf("registry down %t: got %q, error %v", stop, got, err)
				}
			}
		})
	}
}

// TestNoSpace checks that a module is used even if it cannot be stored, and that the log has the reason.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	registry := ocitest.New(t, ocitest.Anonymous)
	r := registry.PutPlugin("a", "", oci.TypeWasm, module)
	var log bytes.Buffer
	got, err := newPuller(t, pull.Options{Dir: file, Log: slog.New(slog.NewTextHandler(&log, nil))}).Module(t.Context(), r)
	if err != nil || !bytes.Equal(got, module) || !strings.Contains(log.String(), "cannot store what was pulled") {
		t.Errorf("got %q, error %v, log %s", got, err, &log)
	}
}

// TestSweep checks that the least recently used blobs are removed when there are too many, and unfinished ones when they
// are old.
func TestSweep(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	registry := ocitest.New(t, ocitest.Anonymous)
	var all []oci.Reference
	for i := range byte(3) {
		all = append(all, registry.PutPlugin("a", "", oci.TypeWasm, append(module[:8:8], bytes.Repeat([]byte{i}, 1000)...)))
	}
	p := newPuller(t, pull.Options{Dir: cache})
	pull.SetLimit(p, 3000)
	old := time.Now().Add(-2 * time.Hour)
	if err := os.MkdirAll(blobsDir(cache), 0o700); err != nil {
		t.Fatal(err)
	}
	unfinished := filepath.Join(blobsDir(cache), "new-1")
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(unfinished, old, old); err != nil {
		t.Fatal(err)
	}
	aged := map[string]bool{}
	for i, at := range []int{0, 1, 0, 2} {
		if _, err := p.Module(t.Context(), all[at]); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(blobsDir(cache), "*"))
		for _, f := range files {
			if used := old.Add(time.Duration(i) * time.Minute); !aged[f] {
				if err := os.Chtimes(f, used, used); err != nil {
					t.Fatal(err)
				}
				aged[f] = true
			}
		}
	}
	offline := newPuller(t, pull.Options{Dir: cache, Offline: true})
	for i, want := range []bool{true, false, true} {
		if _, err := offline.Module(t.Context(), all[i]); (err == nil) != want {
			t.Errorf("plugin %d is stored: %t", i, err == nil)
		}
	}
	if _, err := os.Stat(unfinished); err == nil {
		t.Error("an unfinished file was not removed")
	}
}

// TestWrongModule passes what the gateway cannot use: the error says what the registry has.
func TestWrongModule(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	r := registry.PutPlugin("a", "", "text/plain", module)
	if _, err := newPuller(t, pull.Options{}).Module(t.Context(), r); err == nil || !strings.Contains(err.Error(), `only "text/plain"`) {
		t.Errorf("got error %v", err)
	}
	registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(404); return true })
	if _, err := newPuller(t, pull.Options{}).Module(t.Context(), r); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got error %v", err)
	}
}
