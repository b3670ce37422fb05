package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// pairProvider returns a provider with a plugin, and its model. Both have the plugin's name.
func pairProvider(plugin string) string {
	return fmt.Sprintf("[providers.%[1]s]\nplugin = %[1]q\n[[models]]\nid = %[1]q\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", plugin)
}

// TestPluginsOfOneModule checks that each table selects the plugin of its name, and that the plugins of one file are
// loaded and removed independently.
func TestPluginsOfOneModule(t *testing.T) {
	pair := plugintest.Build(t, "./proxy/plugintest/testdata/pair")
	left, right, middle := guestFile(t, "left", "shared", pair), guestFile(t, "right", "shared", pair), guestFile(t, "middle", "shared", pair)
	both := quietServer + left + right + middle + pairProvider("left") + pairProvider("right") +
		"[[models]]\nid = \"any\"\ntargets = [{ provider = \"left\", model = \"m\" }, { provider = \"right\", model = \"m\" }]\n" +
		"[router]\nplugin = \"middle\"\n"
	g := proxytest.Start(t, both)
	ask := func(model, text, want string) {
		t.Helper()
		r := g.Chat(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, text))
		if r.Status != 200 || !strings.Contains(r.Body, fmt.Sprintf(`"content":%q`, want)) {
			t.Errorf("%s: status %d: %s, want %q", model, r.Status, r.Body, want)
		}
	}
	ask("left", "one", "left heard one")
	ask("right", "two", "right heard two")
	ask("any", "three", "right heard two") // the router names the last target
	if err := g.Reload(t, quietServer+right+pairProvider("right")); err != nil {
		t.Fatal(err)
	}
	ask("right", "four", "right heard four")
	if err := g.Reload(t, both); err != nil {
		t.Fatal(err)
	}
	ask("left", "five", "left heard five")
}

// TestPluginKindMustMatchUse expects an error if a provider is configured as a router, or a router as a provider.
func TestPluginKindMustMatchUse(t *testing.T) {
	if testing.Short() {
		t.Skip("loads the bundled plugins for each case")
	}
	pair := plugintest.Build(t, "./proxy/plugintest/testdata/pair")
	use := func(name string) string { return guestFile(t, name, "key", pair) }
	for _, c := range []struct{ name, text, reason string }{
		{"bundled router", pairProvider("router"), "gateway.toml:8:12: providers.router: plugin router is a router, not a provider"},
		{"router of a file", use("middle") + pairProvider("middle"), "providers.middle: plugin middle is a router, not a provider"},
		{"provider of a file", demoProvider + use("left") + "[router]\nplugin = \"left\"\n", "router: plugin left is a provider, not a router"},
		{"plugin that the file lacks", use("up") + pairProvider("up"), `plugin up: start: failed: the module has no plugin of that name: "the module contains left, middle, right"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse("gateway.toml", []byte(quietServer+c.text), config.Options{Bundled: plugins.Names()})
			if err != nil {
				t.Fatal(err)
			}
			s, err := proxy.New(t.Context(), proxy.Options{Config: cfg, Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir()})
			if err == nil {
				s.Close()
				t.Fatal("the gateway starts, want an error")
			}
			if !strings.Contains(err.Error(), c.reason) {
				t.Errorf("error %q, want %q", err, c.reason)
			}
		})
	}
}
