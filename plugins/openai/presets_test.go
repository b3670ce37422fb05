package openai

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// preset returns the use of the plugin by a provider with this preset.
func preset(tb testing.TB, name string) plugintest.Use {
	tb.Helper()
	text := fmt.Sprintf("[providers.p]\npreset = %q\nbase_url = \"https://upstream.example\"\n", name)
	c, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"openai"}})
	if err != nil {
		tb.Fatal(err)
	}
	p := c.Provider("p")
	return plugintest.Use{Settings: string(p.Options), Paths: p.Paths, Headers: p.Headers}
}

// TestPresets sends the same requests to every upstream that differs from OpenAI only in its options. There is one golden file per upstream with the
// requests that it receives and the warnings for the client.
func TestPresets(t *testing.T) {
	files, err := filepath.Glob("testdata/presets/requests/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d requests, %v", len(files), err)
	}
	for _, name := range config.PresetNames("openai") {
		if name == "openai" {
			continue
		}
		s := suite
		s.Use = preset(t, name)
		for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
			b := s.Bind(t, form)
			t.Run(name+"/"+form.String(), func(t *testing.T) {
				var all strings.Builder
				for _, file := range files {
					request, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					v := plugintest.Vector{Target: "a/model", Request: request, Options: []byte(s.Use.Settings), Status: 200}
					if strings.HasPrefix(filepath.Base(file), "lowered-") {
						v.ClientForm = "messages"
					}
					r := v.Run(b, false)
					fmt.Fprintf(&all, "== %s\n%s%s", strings.TrimSuffix(filepath.Base(file), ".json"), strings.TrimPrefix(r.Request, "POST "), r.Warnings)
					if r.Request == "" {
						all.WriteString(r.Response)
					}
					all.WriteString("\n")
				}
				golden := filepath.Join("testdata", "presets", name+".txt")
				if flag.Lookup("update").Value.String() == "true" {
					if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), all.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", golden, diff)
				}
			})
		}
	}
}
