package config_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestPluginsOnly reads the plugins of a file whose variables and files for secrets are missing.
func TestPluginsOnly(t *testing.T) {
	const text = `
[server]
listen        = "${LISTEN}"
cache_dir     = "cache"
reasoning_key = "${REASONING_KEY}"
tls           = { cert = "/nowhere/cert.pem", key = "/nowhere/key.pem" }
[[keys]]
name   = "a"
secret = "${KEY}"
[[keys]]
name   = "b"
secret = { file = "/nowhere/key" }
[store]
url = "${REDIS_URL}"
[plugins.mine]
file    = "${PLUGINS:-/plugins}/mine.wasm"
sha256  = "0000000000000000000000000000000000000000000000000000000000000000"
options = { token = "${TOKEN}" }
[providers.mine]
plugin   = "mine"
base_url = "${BASE_URL}"
auth     = { secret = "${SECRET}" }
[[models]]
id      = "m"
targets = [{ provider = "mine" }]
`
	c, err := config.Parse("/etc/sluice/gateway.toml", []byte(text), config.Options{Bundled: bundled, PluginsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Plugins) != 1 || c.Plugins[0].File != "/plugins/mine.wasm" || c.Server.CacheDir != "/etc/sluice/cache" {
		t.Errorf("plugins %+v, cache %s", c.Plugins, c.Server.CacheDir)
	}
	missing := strings.Replace(text, ":-/plugins", "", 1)
	if _, err := config.Parse("f", []byte(missing), config.Options{Bundled: bundled, PluginsOnly: true}); err == nil || !strings.Contains(err.Error(), "plugins.mine.file: PLUGINS is not set") {
		t.Errorf("a plugin's file that is not set: %v", err)
	}
}
