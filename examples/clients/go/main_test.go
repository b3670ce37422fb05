package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

const configuration = proxytest.Keys + `
[providers.demo]
plugin = "demo"

[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`

func TestAskWritesEveryResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway with the bundled plugins")
	}
	g := proxytest.Start(t, configuration)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := openai.NewClient(option.WithBaseURL(g.URL+"/v1"), option.WithAPIKey(proxytest.Key),
		option.WithHTTPClient(&http.Client{Transport: transport}))
	var out strings.Builder
	if err := ask(t.Context(), &out, client, "demo"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[name] = text
	}
	if got["model"] != "demo" || got["completion"] == "" || got["stream"] != got["completion"] ||
		!strings.HasPrefix(got["tool"], `temperature {"place":`) || got["after the tool"] == "" {
		t.Errorf("output:\n%s", &out)
	}
}

// TestClientMatchesDefaultConfiguration compares the address and the key in the program with those of the default
// configuration.
func TestClientMatchesDefaultConfiguration(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	toml, err := os.ReadFile("../../../gateway.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ program, configuration string }{
		{`WithBaseURL("http://127.0.0.1:8080/v1")`, `:-127.0.0.1:8080}"`},
		{`WithAPIKey("sk-local")`, `:-sk-local}"`},
	} {
		if !strings.Contains(string(source), want.program) || !strings.Contains(string(toml), want.configuration) {
			t.Errorf("the program has %s: %v; gateway.toml has %s: %v", want.program, strings.Contains(string(source), want.program),
				want.configuration, strings.Contains(string(toml), want.configuration))
		}
	}
}
