package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestGatewayAsItsOwnProvider checks that a loop ends after a few hops, with one request per hop.
func TestGatewayAsItsOwnProvider(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.self]
plugin   = "openai"
base_url = "http://%s/v1"
auth     = { secret = %q }

[[models]]
id      = "gpt"
targets = [{ provider = "self", model = "gpt" }, { provider = "self", model = "gpt", fallback = true, priority = 2 }]
`, ln.Addr(), proxytest.Key))
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(ln) }()
	for _, body := range []string{ask, askStream} {
		r := g.Do(t, "POST", "/v1/chat/completions", body)
		wantError(t, r, 400, "invalid_request_error", "loop_detected", "")
	}
	n := 0
	for _, line := range g.Log.Lines() {
		if line["msg"] == "request" && line["path"] == "/v1/chat/completions" {
			n++
		}
	}
	// Per client request: itself, and one for each gateway that a request may pass.
	if n != 2*6 {
		t.Errorf("got %d requests for 2 requests of the client, want 12", n)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestClientHopsHeader checks that a client can only lower the remaining number of hops.
//
// covers: F136
func TestClientHopsHeader(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`))})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for said, sent := range map[string]string{
		"": "1", "0": "1", "3": "4", "4": "5", "-4": "1", "+1": "1", "1e3": "1", "many": "1", "99999999999999999999": "1", "3, 4": "1",
		"5": "", "6": "", "65535": "",
	} {
		var headers []string
		if said != "" {
			headers = []string{"X-Sluice-Hops: " + said}
		}
		r := g.Do(t, "POST", "/v1/chat/completions", ask, headers...)
		if sent == "" {
			wantError(t, r, 400, "invalid_request_error", "loop_detected", "")
			if r.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: no x-should-retry: false", said)
			}
			continue
		}
		all := provider.Requests()
		if got := all[len(all)-1].Header.Values("X-Sluice-Hops"); r.Status != 200 || strings.Join(got, " ") != sent {
			t.Errorf("hops %q: got %q upstream, want %s", said, got, sent)
		}
	}
}
