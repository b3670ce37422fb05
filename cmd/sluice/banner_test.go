package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// writes counts calls of Write, between which the log may write a line.
type writes struct {
	strings.Builder
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return w.Builder.Write(p)
}

func TestBanner(t *testing.T) {
	const openai = "[providers.openai]\nplugin = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n"
	many := "[providers.demo]\nplugin = \"demo\"\n"
	for i := range maxBannerModels + 3 {
		many += fmt.Sprintf("[[models]]\nid = \"m%d\"\ntargets = [{ provider = \"demo\", model = \"d\" }]\n", i)
	}
	for _, c := range []struct {
		name, toml      string
		want, forbidden []string
	}{
		{"listed models only", openai + "list_models = { every = \"1h\" }\n",
			[]string{"  …      the models that openai lists\n", "List the models, and try one:\n\n  curl http://127.0.0.1:8080/v1/models\n", `"model":"MODEL"`}, []string{"No model", "off"}},
		{"all providers off", openai + "enabled = false\n", []string{"openai: enabled is false", "No model is available, since all providers are off."}, []string{"curl"}},
		{"nothing to serve", openai, []string{"No model is available: none is configured for the providers that are on"}, []string{"curl", "are off"}},
		{"many models", many, []string{"m39", "and 3 more; `sluice models` lists them", `"model":"m0"`}, []string{"m40"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse("gateway.toml", []byte(c.toml), config.Options{Bundled: plugins.Names(), Env: os.LookupEnv})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			var out writes
			printBanner(&out, cfg, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, ln, time.Second)
			if out.n != 1 {
				t.Errorf("the banner was written in %d calls, want 1", out.n)
			}
			for _, want := range append(c.want, "\nHealth, metrics and status: http://"+ln.Addr().String()+"/\n") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the banner lacks %q:\n%s", want, out.String())
				}
			}
			for _, bad := range c.forbidden {
				if strings.Contains(out.String(), bad) {
					t.Errorf("the banner contains %q:\n%s", bad, out.String())
				}
			}
		})
	}
}
