package e2e_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// blackholeProxy starts a toxiproxy in front of a server that accepts connections and drops all data.
func blackholeProxy(t *testing.T, server *upstreamtest.Server) (address string) {
	t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()), "provider", "127.0.0.1:0", server.Addr())
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	for _, stream := range []string{"upstream", "downstream"} {
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(`{"type":"timeout","stream":"` + stream + `","attributes":{"timeout":0}}`)); err != nil {
			t.Fatal(err)
		}
	}
	return p.Listen
}

// unusedAddress returns an address at which connections are refused.
func unusedAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestUnreachableProviders checks that clients get the documented error, or the response of a fallback, and that the
// cause is logged.
//
// covers: F27 F33
func TestUnreachableProviders(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for network timeouts")
	}
	silent := upstreamtest.Script{upstreamtest.AwaitClose()}
	unreached := upstreamtest.New(t, silent)
	secure := func(o upstreamtest.TLS) *upstreamtest.Server { return upstreamtest.NewTLS(t, o, silent) }
	untrusted, expired, old := secure(upstreamtest.TLS{}), secure(upstreamtest.TLS{Expired: true}), secure(upstreamtest.TLS{MaxVersion: tls.VersionTLS10})
	cases := []struct {
		name, url, timeout string
		failure, cause     string
	}{
		{"refused", "http://" + unusedAddress(t), "", seenUnreachable, "connection refused"}, // covers: F27
		// covers: F28
		{"accepted, and data dropped", "http://" + blackholeProxy(t, unreached), `first_byte = "100ms"`, seenTooLate, "first byte timeout of 100ms"},
		// covers: F32
		{"unknown authority", untrusted.URL(), "", seenUnreachable, "certificate signed by unknown authority"},
		{"expired", expired.URL(), "", seenUnreachable, "certificate has expired"},
		{"TLS 1.0", old.URL(), "", seenUnreachable, "protocol version not supported"},
		{"plain HTTP", "https://" + upstreamtest.New(t, upstreamtest.Script{upstreamtest.Write("HTTP/1.1 400 Bad Request\r\n\r\n")}).Addr(), "", seenUnreachable, "TLS handshake failed"},
		// covers: F33
		{"stalled handshake", "https://" + blackholeProxy(t, secure(upstreamtest.TLS{})), `tls = "100ms"`, seenTooLate, "TLS handshake timeout"},
	}
	if hole := upstreamtest.Blackhole(t, "127.0.0.1", 0); hole != "" {
		cases = append(cases, struct{ name, url, timeout, failure, cause string }{
			"SYN dropped", "http://" + hole, `connect = "100ms"`, seenTooLate, "connect timeout", // covers: F28
		})
	}
	config := quietServer + demoProvider
	for i, c := range cases {
		for _, w := range wires {
			name := fmt.Sprintf("%s-%d", w.plugin, i)
			config += fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\nmax_conns = 1\ntimeout = { %s }\nbreaker = { enabled = false }\n", name, w.plugin, c.url, c.timeout)
			config += fmt.Sprintf("[[models]]\nid = %q\nretry = { attempts = 1 }\nmax_tokens = 1000\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", name)
			config += fmt.Sprintf("[[models]]\nid = \"%s-or-demo\"\nmax_tokens = 1000\ntargets = [{ provider = %[1]q, model = \"m\" }, { provider = \"demo\", model = \"demo\", fallback = true }]\n", name)
		}
	}
	g := proxytest.Start(t, config)
	t.Run("all", func(t *testing.T) {
		for i, c := range cases {
			for _, w := range wires {
				t.Run(c.name+"/"+w.plugin, func(t *testing.T) {
					t.Parallel()
					model := fmt.Sprintf("%s-%d", w.plugin, i)
					for _, stream := range []bool{true, false} {
						r := g.Chat(t, canaryRequest(model, stream))
						fails(c.failure).check(t, g, r, stream, false)
						if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], c.cause) || line["attempts"] != "1" {
							t.Errorf("logged as %v, want cause %q", line, c.cause)
						}
						r = g.Chat(t, canaryRequest(model+"-or-demo", stream))
						if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" || r.Header.Get("X-Gateway-Attempts") != "2" {
							t.Errorf("with a fallback: got %d from %s: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Body)
						}
						g.Log.Await(t, "msg", "attempt failed", "request", r.RequestID(), "provider", model)
					}
				})
			}
		}
	})
	for _, s := range []*upstreamtest.Server{unreached, untrusted, expired, old} {
		if n := len(s.Requests()); n != 0 {
			t.Errorf("an unreachable or untrusted provider received %d requests", n)
		}
	}
	if log := g.Log.String(); strings.Contains(log, canary) || strings.Contains(log, "sk-upstream") {
		t.Error("the log contains text of a client, or a credential")
	}
}

// TestNameResolution covers providers with host names, which a name server of the test resolves.
//
// covers: F29 F31
func TestNameResolution(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts")
	}
	w := wires[0]
	provider := upstreamtest.New(t, upstreamtest.Script{w.good()})
	_, port, err := net.SplitHostPort(provider.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n := upstreamtest.NewNameServer(t, "127.0.0.1")
	usual := net.DefaultResolver
	net.DefaultResolver = n.Resolver()
	defer func() { net.DefaultResolver = usual }()

	config := quietServer
	for _, name := range []string{"absent", "failing", "silent", "good"} {
		config += fmt.Sprintf("[providers.%s]\nplugin = \"openai\"\nbase_url = \"http://%[1]s.test:%s\"\nallow_private = true\ntimeout = { connect = \"500ms\" }\n", name, port)
		config += fmt.Sprintf("[[models]]\nid = %q\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", name)
	}
	config += fmt.Sprintf("[providers.inside]\nplugin = \"openai\"\nbase_url = \"http://inside.test:%s\"\n[[models]]\nid = \"inside\"\ntargets = [{ provider = \"inside\", model = \"m\" }]\n", port)
	g := proxytest.Start(t, config)
	for _, c := range []struct {
		name, model string
		code        int
		cause       string
	}{
		// covers: F29
		{"NXDOMAIN", "absent", upstreamtest.NXDomain, "no such host"},
		{"SERVFAIL", "failing", upstreamtest.ServFail, "lookup failing.test"},
		{"timeout", "silent", upstreamtest.Silence, "lookup silent.test: timed out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.Fail(c.code)
			for _, stream := range []bool{true, false} {
				r := g.Chat(t, canaryRequest(c.model, stream))
				fails(seenUnreachable).check(t, g, r, stream, false)
				if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], c.cause) {
					t.Errorf("logged as %v, want the cause %q", line, c.cause)
				}
			}
		})
	}
	t.Run("private address", func(t *testing.T) {
		n.Answer("127.0.0.1")
		r := g.Chat(t, canaryRequest("inside", false))
		fails(seenUnreachable).check(t, g, r, false, false)
		if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], "address 127.0.0.1 is not allowed: loopback") || strings.Contains(r.Body, "127.0.0.1") {
			t.Errorf("logged as %v; the client received %s", line, r.Body)
		}
		if provider.Connections() != 0 {
			t.Error("the gateway connected to a private address")
		}
	})
	// covers: F31
	t.Run("broken IPv6", func(t *testing.T) {
		p, err := net.LookupPort("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		n.Answer("::1", "127.0.0.1")
		if upstreamtest.Blackhole(t, "::1", p) == "" {
			t.Log("IPv6 connections are refused, not dropped")
		}
		complete("good").check(t, g, g.Chat(t, canaryRequest("good", false)), false, false)
	})
}

// TestAllConnectionsInUse checks that a request above max_conns waits briefly and then gets a 503 with Retry-After.
//
// covers: F7
func TestAllConnectionsInUse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a timeout")
	}
	const all = `{"error":{"message":"All connections to the provider are in use.","type":"service_unavailable_error","param":null,"code":"gateway_overloaded"}}`
	for _, w := range wires {
		t.Run(w.plugin, func(t *testing.T) {
			proceed := make(chan struct{})
			held := upstreamtest.Script{
				upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(w.opening("Hal")), upstreamtest.Wait(proceed),
				upstreamtest.Chunk(w.finish + w.done), upstreamtest.LastChunk(), w.good(),
			}
			provider := upstreamtest.New(t, held, held)
			g := proxytest.Start(t, quietServer+demoProvider+fmt.Sprintf(`
[providers.p]
plugin    = %q
base_url  = %q
max_conns = 2
breaker   = { failures = 1 }
[[models]]
id         = "m"
max_tokens = 1000
targets    = [{ provider = "p", model = "m" }]
[[models]]
id         = "m-or-demo"
max_tokens = 1000
targets    = [{ provider = "p", model = "m" }, { provider = "demo", model = "demo", fallback = true }]
`, w.plugin, provider.URL()))
			var clients []*rawClient
			for i := range 2 {
				c := dial(t, g)
				c.post(fmt.Sprint("held-", i), canaryRequest("m", true))
				c.readUntil(`"content":"Hal"},"finish_reason":null}]}`)
				clients = append(clients, c)
			}
			for _, stream := range []bool{true, false} {
				r := g.Chat(t, canaryRequest("m", stream))
				if r.Status != 503 || r.Body != all || r.Header.Get("Retry-After") != "1" {
					t.Errorf("got %d, retry-after %q: %s", r.Status, r.Header.Get("Retry-After"), r.Body)
				}
				if line := g.Log.Request(t, r.RequestID()); line["code"] != "gateway_overloaded" || !strings.Contains(line["cause"], "no free connection") {
					t.Errorf("logged as %v", line)
				}
				if r = g.Chat(t, canaryRequest("m-or-demo", stream)); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" {
					t.Errorf("with a fallback: got %d from %s", r.Status, r.Header.Get("X-Gateway-Provider"))
				}
			}
			// Reaching max_conns is no failure of the provider, so its circuit must be closed.
			close(proceed)
			for _, c := range clients {
				c.readUntil("data: [DONE]\n\n\r\n0\r\n\r\n")
			}
			complete("good").check(t, g, g.Chat(t, canaryRequest("m", false)), false, false)
			if n := provider.Connections(); n != 2 {
				t.Errorf("got %d connections, want 2", n)
			}
		})
	}
}
