package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// TestContainsAllPlugins checks that the program contains every bundled plugin with the right kind, in both forms.
func TestContainsAllPlugins(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the module of all plugins")
	}
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		for _, name := range plugins.Names() {
			p := plugintest.Suite{Package: "plugins/all", Plugin: name}.Load(t, form)
			router, filter := name == "router", slices.Contains([]string{"blocklist", "secrets"}, name)
			if p.Router() != router || p.Filter() != filter || p.Provider() == (router || filter) {
				t.Errorf("%v: %s has the wrong kind: provider %t, router %t, filter %t", form, name, p.Provider(), p.Router(), p.Filter())
			}
		}
	}
}

func TestRejectsUnknownPlugin(t *testing.T) {
	err := plugintest.Suite{Package: "plugins/all", Plugin: "openapi"}.TryLoad(t)
	if want := "the module contains " + strings.Join(plugins.Names(), ", "); err == nil || !strings.Contains(err.Error(), "plugin openapi: ") || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to contain %q", err, want)
	}
}
