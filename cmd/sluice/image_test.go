package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImageBuildNeedsNoSecret compiles the plugins of a configuration whose variables are not set, as they are when an
// image is built.
func TestImageBuildNeedsNoSecret(t *testing.T) {
	config := writeConfig(t, `
[[keys]]
name   = "a"
secret = "${KEY_OF_A}"
[providers.openai]
plugin = "openai"
auth   = { secret = "${SECRET_OF_OPENAI}" }
`)
	bin := buildSluice(t, true)
	got := run(t, bin, t.TempDir(), nil, []string{"plugin", "compile", "--config", config})
	if got.exit != 0 || !strings.Contains(got.stdout, " plugins compiled in ") {
		t.Errorf("plugin compile: exit code %d, %s%s", got.exit, got.stdout, got.stderr)
	}
	if got := run(t, bin, t.TempDir(), nil, []string{"check", "--config", config}); got.exit != 3 || !strings.Contains(got.stderr, "KEY_OF_A is not set") {
		t.Errorf("check: exit code %d, %s", got.exit, got.stderr)
	}
}

// TestImageRefusesShippedKey starts the gateway as the image does, with the shipped gateway.toml on all interfaces.
func TestImageRefusesShippedKey(t *testing.T) {
	config := filepath.Join("..", "..", "gateway.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	config = writeConfig(t, string(text))
	for listen, refused := range map[string]bool{":0": true, "127.0.0.1:0": false} {
		for key, public := range map[string]bool{"": true, "SLUICE_KEY=sk-local": false, "SLUICE_KEY=sk-mine-0123456789abcdef0123456789abcdef": false} {
			got := run(t, buildSluice(t, true), t.TempDir(), []string{"SLUICE_LISTEN=" + listen, "SLUICE_CONFIG=" + config, key}, []string{"check"})
			if want := refused && public; (got.exit != 0) != want || strings.Contains(got.stderr, "is the public key of the shipped gateway.toml") != want {
				t.Errorf("listening on %s with %q: exit code %d, %s", listen, key, got.exit, got.stderr)
			}
		}
	}
}
