package e2e_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/sluice-gateway/sluice/examples/plugins/upstream"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// exampleGateway starts a gateway with the example configuration, its plugin and its upstream.
func exampleGateway(t *testing.T) (client openai.Client) {
	t.Helper()
	wasm := plugintest.Build(t, "examples/plugins/go-provider")
	toml, err := os.ReadFile("../../../../examples/plugins/go-provider/gateway.toml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"plugin.wasm": wasm, "gateway.toml": toml} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(upstream.Handler{})
	t.Cleanup(server.Close)
	env := map[string]string{"UPSTREAM_URL": server.URL}
	cfg, err := config.Load(filepath.Join(dir, "gateway.toml"), config.Options{
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Dev: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("the example configuration has warnings: %v", cfg.Warnings)
	}
	s, err := proxy.New(t.Context(), proxy.Options{Config: cfg, CacheDir: proxytest.CacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), proxytest.EventTimeout)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-served); err != nil {
			t.Errorf("shut down the gateway: %v", err)
		}
	})
	return openai.NewClient(option.WithBaseURL("http://"+ln.Addr().String()+"/v1"), option.WithAPIKey("sk-local"),
		option.WithHTTPClient(&http.Client{Transport: transport}), option.WithMaxRetries(0))
}

func TestExampleProviderResponds(t *testing.T) {
	client := exampleGateway(t)
	question := openai.ChatCompletionNewParams{Model: "go-provider", Messages: []openai.ChatCompletionMessageParamUnion{
		openai.UserMessage("Good \"morning\", grüß dich"),
	}}
	whole, err := client.Chat.Completions.New(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole.Choices[0].Message.Content; got != "Good \"morning\", grüß dich" || whole.Usage.CompletionTokens != 4 {
		t.Errorf("non-streaming response %s", whole.RawJSON())
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), question)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := acc.Choices[0].Message.Content; got != whole.Choices[0].Message.Content || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("streaming response %+v", acc.ChatCompletion)
	}
}
