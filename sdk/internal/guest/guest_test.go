package guest

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

type provides struct{ Provider }

type routes struct{ Router }

type both struct {
	provides
	routes
}

func (both) Configure(int32, []byte) int32 { return OK }

func TestSinglePluginHasAnyName(t *testing.T) {
	for _, name := range []string{"", "mine"} {
		var r registry
		r.add(name, func() Guest { return provides{} })
		for _, asked := range []string{"", "mine", "theirs"} {
			if r.make(asked) == nil {
				t.Errorf("the plugin registered as %q is not found as %q", name, asked)
			}
		}
	}
}

func TestSeveralPluginsAreChosenByName(t *testing.T) {
	var r registry
	r.add("b", func() Guest { return provides{} })
	r.add("a", func() Guest { return routes{} })
	r.add("c", func() Guest { return both{} })
	for name, want := range map[string]abi.PluginKind{
		"a": abi.PluginRouter, "b": abi.PluginProvider, "c": abi.PluginProvider | abi.PluginRouter,
		"": abi.PluginUnknown, "d": abi.PluginUnknown, "ab": abi.PluginUnknown,
	} {
		g := r.make(name)
		if kind := pluginKind(g); kind != want || (g == nil) != (want == abi.PluginUnknown) {
			t.Errorf("%q has kind %d, want %d", name, kind, want)
		}
	}
	if got := r.describe(); got != "the module contains a, b, c" {
		t.Errorf("described as %q", got)
	}
	if got := (registry{}).describe(); !strings.Contains(got, "Register in func init") {
		t.Errorf("no plugin is described as %q", got)
	}
	if (registry{}).make("a") != nil {
		t.Error("New found a plugin in an empty registry")
	}
}

func TestRejectsAmbiguousPlugins(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"", "", "register each with RegisterAs"}, {"a", "", "register each with RegisterAs"}, {"", "a", "register each with RegisterAs"},
		{"a", "a", "registered as a"},
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, c.want) {
					t.Errorf("%q and %q: panic %q, want %q", c.first, c.second, said, c.want)
				}
			}()
			var r registry
			r.add(c.first, nil)
			r.add(c.second, nil)
		}()
	}
}
