package modules_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestSchemaOfPulledPlugin reads the schema of a plugin in a registry, and once more while the registry is down.
func TestSchemaOfPulledPlugin(t *testing.T) {
	module, err := modules.AddOptionsSchema([]byte("\x00asm\x01\x00\x00\x00"), "", []byte(`{"properties":{"a":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	registry := ocitest.New(t, ocitest.TokenLogin)
	r := registry.PutPlugin("acme/mine", "", oci.TypeWasm, module)
	cfg, err := config.Parse("f", []byte(`
[registries."`+registry.Name()+`"]
auth = { username = "`+ocitest.Username+`", secret = "`+ocitest.Password+`" }
[plugins.mine]
file = "`+r.String()+`"
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	read := func(from modules.Sources) string {
		return string(modules.OptionsSchema(t.Context(), noSchemas{}, cfg, cfg.Plugin("mine"), from))
	}
	if got := read(modules.Sources{CacheDir: cache, Offline: true}); got != "" {
		t.Errorf("offline: got schema %s", got)
	}
	for range 2 {
		if got := read(modules.Sources{CacheDir: cache}); got != `{"properties":{"a":{}}}` {
			t.Errorf("got schema %s", got)
		}
		registry.Stop()
	}
}

// TestLoadErrors checks the errors for a plugin in a registry: the position, and what the registry has instead.
func TestLoadErrors(t *testing.T) {
	registry := ocitest.New(t, ocitest.Anonymous)
	host, err := plugin.New(plugin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	missing := oci.Reference{Registry: registry.Name(), Repository: "acme/mine", Digest: oci.DigestOf(nil)}
	for name, tt := range map[string]struct {
		reference oci.Reference
		want      string
	}{
		"missing":  {missing, "f:1:1: plugins.mine: plugin mine: registry "},
		"not Wasm": {registry.PutPlugin("acme/mine", "", oci.TypeWasm, []byte("<html>")), "is a page of HTML or XML"},
	} {
		cfg := &config.Config{Path: "f", Plugins: []config.Plugin{{Name: "mine", File: tt.reference.String(), Reference: tt.reference, InUse: true, Pos: config.Position{Line: 1, Column: 1}}}}
		set, err := modules.Load(t.Context(), host, cfg, modules.Sources{})
		if set != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", name, err, tt.want)
		}
	}
}
