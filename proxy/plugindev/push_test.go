package plugindev_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestPush pushes a plugin twice, and gets its module as a gateway does.
func TestPush(t *testing.T) {
	schema := []byte(`{"properties":{"a":{}}}`)
	wasm, err := modules.AddOptionsSchema([]byte("\x00asm\x01\x00\x00\x00"), "", schema)
	if err != nil {
		t.Fatal(err)
	}
	registry := ocitest.New(t, ocitest.TokenLogin)
	cfg := &config.Config{Registries: []config.Registry{{
		Name: registry.Name(), PlainHTTP: true, Username: ocitest.Username, Secret: config.FileSecret{Secret: ocitest.Password},
	}}}
	tag := "oci://" + registry.Name() + "/acme/mine:1.2"
	push := func() string {
		t.Helper()
		pinned, err := plugindev.Push(t.Context(), cfg, tag, plugindev.Module{Name: "mine", Wasm: wasm},
			[]plugindev.File{{Title: "README.md", MediaType: "text/markdown", Content: []byte("# mine")}}, map[string]string{plugindev.AnnotationVersion: "1.2"})
		if err != nil {
			t.Fatal(err)
		}
		return pinned
	}
	pinned := push()
	if again := push(); again != pinned || !strings.HasPrefix(pinned, tag+"@sha256:") {
		t.Errorf("pushed as %s, and again as %s", pinned, again)
	}
	r, err := oci.ParseReference(pinned)
	if err != nil {
		t.Fatal(err)
	}
	puller := new(modules.Sources).NewPuller(cfg)
	defer puller.Close()
	if got, err := puller.Module(t.Context(), r); err != nil || string(got) != string(wasm) {
		t.Errorf("got a module of %d bytes, error %v", len(got), err)
	}
	var m oci.Manifest
	if err := json.Unmarshal(registry.Manifest("acme/mine", "1.2"), &m); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range m.Layers {
		names = append(names, l.Annotations[plugindev.AnnotationTitle])
	}
	if d := cmp.Diff([]string{"plugin.wasm", "options.json", "README.md"}, names); d != "" || m.Annotations[plugindev.AnnotationVersion] != "1.2" {
		t.Errorf("annotations %v, layers (-want +got):\n%s", m.Annotations, d)
	}
}

// TestPushFails pushes without a credential.
func TestPushFails(t *testing.T) {
	registry := ocitest.New(t, ocitest.Basic)
	_, err := plugindev.Push(t.Context(), new(config.Config), "oci://"+registry.Name()+"/a:1", plugindev.Module{Wasm: []byte("x")}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "needs a credential") {
		t.Errorf("got error %v", err)
	}
	for reference, want := range map[string]string{
		"oci://a/b:1": "", "oci://a/b": "neither a digest nor a tag", "oci://a/b@" + string(oci.DigestOf(nil)): "has a digest", "a/b:1": "must start with oci://",
	} {
		err := plugindev.CheckReference(reference)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", reference, err, want)
		}
	}
}
