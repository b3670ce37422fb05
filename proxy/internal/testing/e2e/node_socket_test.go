//go:build node

package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestNodeCodexSocket has Codex run its tools over a WebSocket, with a provider of Messages, without a fallback to POST.
func TestNodeCodexSocket(t *testing.T) {
	work := t.TempDir()
	marker := filepath.Join(work, "marker")
	p := agenttest.New(t, "exec_command", fmt.Sprintf(`{"cmd":"echo x >> %s"}`, marker))
	g := proxytest.Start(t, proxytest.Keys+p.Config("codex")+fmt.Sprintf("[[models]]\nid = \"some-model\"\nmax_tokens = %d\nthinking = true\ntargets = [{ provider = \"codex\", model = \"claude\" }]\n", agenttest.MaxTokens))
	out := runCodex(t, g, "some-model", work, "Touch a file twice.", "supports_websockets = true\n")
	if !bytes.Contains(out, []byte(agenttest.Answer)) || bytes.Contains(out, []byte("Falling back")) {
		t.Error("codex has not printed the answer, or has fallen back")
	}
	if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
		t.Errorf("the tool wrote %q, error %v", ran, err)
	}
	g.Log.Await(t, "path", "/v1/responses", "status", "101")
	p.Check(t, 1, true)
}

// TestNodeCodexDrain has Codex run its tools over a WebSocket of the first of two gateways, which drains during the second
// response. That one is complete, Codex connects to the second gateway, and the provider gets no request twice.
func TestNodeCodexDrain(t *testing.T) {
	work := t.TempDir()
	marker := filepath.Join(work, "marker")
	p := agenttest.New(t, "exec_command", fmt.Sprintf(`{"cmd":"echo x >> %s"}`, marker))
	target, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	var first *proxytest.Gateway
	var turns atomic.Int64
	draining := make(chan error, 1)
	forward := httputil.NewSingleHostReverseProxy(target)
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"exec_command"`)) && turns.Add(1) == 2 {
			go func() { draining <- first.Stop(time.Minute) }()
			for !first.Server.Draining() {
				runtime.Gosched()
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(gate.Close)
	p.URL = gate.URL
	config := "[server]\nreasoning_key = \"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"\n" + proxytest.Keys + p.Config("codex") +
		fmt.Sprintf("[[models]]\nid = \"some-model\"\nmax_tokens = %d\nthinking = true\ntargets = [{ provider = \"codex\", model = \"claude\" }]\n", agenttest.MaxTokens)
	first = proxytest.Start(t, config)
	second := proxytest.Start(t, config)
	out := runCodex(t, &proxytest.Gateway{URL: "http://" + balance(t, first, second)}, "some-model", work, "Touch a file twice.", "supports_websockets = true\n")
	if !bytes.Contains(out, []byte(agenttest.Answer)) || bytes.Contains(out, []byte("Falling back")) {
		t.Error("codex has not printed the answer, or has fallen back")
	}
	if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
		t.Errorf("the tool wrote %q, error %v", ran, err)
	}
	if err := <-draining; err != nil {
		t.Errorf("the first gateway: %v", err)
	}
	second.Log.Await(t, "path", "/v1/responses", "method", "GET", "status", "101")
	p.Check(t, 1, true)
}

// balance returns the address of a balancer that connects each client to the first gateway, or to the second one while the
// first one drains.
func balance(t *testing.T, first, second *proxytest.Gateway) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			addr := first.Addr
			if first.Server.Draining() {
				addr = second.Addr
			}
			gateway, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			pipe := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}
			go pipe(client, gateway)
			go pipe(gateway, client)
		}
	}()
	return ln.Addr().String()
}

// TestNodeSocket drives the WebSocket of the official Node client.
func TestNodeSocket(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	runNode(t, "socket.mjs", g)
	if sent := string(provider.Requests()[1].Body); !strings.Contains(sent, "an answer") {
		t.Errorf("the provider gets %s", sent)
	}
}
