package agents_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestRegistryClient reads with another client for registries what the gateway's commands have pushed, and the other way
// round.
func TestRegistryClient(t *testing.T) {
	registry := ocitest.New(t, ocitest.Anonymous)
	open := func(name string) *remote.Repository {
		r, err := remote.NewRepository(registry.Name() + "/acme/" + name)
		if err != nil {
			t.Fatal(err)
		}
		r.PlainHTTP = true
		return r
	}
	// pull copies an artifact to a folder and returns its files.
	pull := func(name, tag string) map[string][]byte {
		t.Helper()
		dir := t.TempDir()
		store, err := file.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := oras.Copy(t.Context(), open(name), tag, store, tag, oras.DefaultCopyOptions); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}

	key, err := fleet.NewSecretKey()
	if err != nil {
		t.Fatal(err)
	}
	bundle := []byte("[[teams]]\nname = \"research\"\n")
	p := fleet.NewPublisher(new(config.Config), key.Public())
	defer p.Close()
	reference := "oci://" + registry.Name() + "/acme/fleet"
	pinned, err := p.PushBundle(t.Context(), reference+":v1", bundle, key)
	if err != nil {
		t.Fatal(err)
	}
	files := pull("fleet", "v1")
	if !bytes.Equal(files["bundle.toml"], bundle) || !bytes.Equal(files["bundle.toml.minisig"], fleet.SignBundle(bundle, key)) || len(files) != 2 {
		t.Errorf("the bundle has %d files: %q", len(files), files)
	}
	now := time.Now().UTC().Truncate(time.Second)
	_, digest, _ := strings.Cut(pinned, "@")
	if err := p.PushRollout(t.Context(), reference+":prod", &fleet.Rollout{Created: now, Expires: now.Add(time.Hour), Next: digest, Stages: []fleet.Stage{{Percent: 100}}}, key); err != nil {
		t.Fatal(err)
	}
	if files := pull("fleet", "prod"); !bytes.Contains(files["rollout.json"], []byte(digest)) || len(files) != 2 {
		t.Errorf("the rollout has %d files: %q", len(files), files)
	}

	module := append([]byte("\x00asm\x01\x00\x00\x00"), "\x00\x02\x01x"...) // with a custom section
	if _, err := plugindev.Push(t.Context(), new(config.Config), "oci://"+registry.Name()+"/acme/mine:1", plugindev.Module{Name: "mine", Wasm: module}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if files := pull("mine", "1"); !bytes.Equal(files["plugin.wasm"], module) || len(files) != 1 {
		t.Errorf("the plugin has %d files: %q", len(files), files)
	}

	store, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	source := filepath.Join(t.TempDir(), "theirs.wasm")
	if err := os.WriteFile(source, module, 0o600); err != nil {
		t.Fatal(err)
	}
	layer, err := store.Add(t.Context(), "theirs.wasm", "application/wasm", source)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := oras.PackManifest(t.Context(), store, oras.PackManifestVersion1_1, "application/wasm", oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Tag(t.Context(), packed, "2"); err != nil {
		t.Fatal(err)
	}
	if _, err := oras.Copy(t.Context(), store, "2", open("theirs"), "2", oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	found, err := plugindev.FindPublished(t.Context(), new(config.Config), "oci://"+registry.Name()+"/acme/theirs:2")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	if got, err := found.Module(t.Context()); err != nil || !bytes.Equal(got, module) {
		t.Errorf("their plugin has %d bytes, %v", len(got), err)
	}
}
