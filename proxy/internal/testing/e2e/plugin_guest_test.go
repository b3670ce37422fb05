package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestRejectedHeadersAreNotSent has a plugin ignore that the host rejected some headers, and checks that the request is
// sent with the allowed header only.
func TestRejectedHeadersAreNotSent(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: one\n\ndata: end\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, quietServer+guest(t, "hostile", "key")+hostileProvider("p", provider.URL(), "headers-ignored"))
	if r := g.Chat(t, canaryRequest("p/headers-ignored", false)); r.Status != 200 || content(r.Body) != "one" {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	sent := provider.Requests()[0]
	if sent.Path != "/v1/chat" || sent.Header.Get("X-Allowed") != "yes" || sent.Header.Get("X-Api-Key") != "sk-upstream-hostile-canary" {
		t.Errorf("sent %s", sent.Head)
	}
	for _, name := range []string{"Authorization", "X-Injected"} {
		if v := sent.Header.Values(name); len(v) > 0 {
			t.Errorf("sent %s: %q", name, v)
		}
	}
}

// TestInvalidUTF8IsReplaced checks that clients get valid UTF-8 even if a provider or its plugin produces invalid
// UTF-8.
//
// covers: F95
func TestInvalidUTF8IsReplaced(t *testing.T) {
	for _, how := range []string{"bytes", "escaped-bytes"} {
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: "+how+"\n\n", "data: end\n\n"), upstreamtest.LastChunk(),
		})
		g := proxytest.Start(t, quietServer+guest(t, "hostile", "key")+hostileProvider("p", provider.URL(), "honest"))
		for _, stream := range []bool{false, true} {
			r := g.Chat(t, canaryRequest("p/honest", stream))
			if r.Status != 200 || content(r.Body) != "bad \uFFFD\uFFFD text" || !utf8.ValidString(r.Body) {
				t.Errorf("%s: %d %q", how, r.Status, r.Body)
			}
		}
	}
}

// TestFallbackAfterPluginFailure checks that the next target is tried if a plugin fails before the first byte.
func TestFallbackAfterPluginFailure(t *testing.T) {
	for _, how := range []string{"panic", "loop", "output", "half", "path-above"} {
		t.Run(how, func(t *testing.T) {
			unreached := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
			events := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: loop\n\n"), upstreamtest.AwaitClose()})
			g := proxytest.Start(t, quietServer+demoProvider+guest(t, "hostile", "key")+hostileProvider("request", unreached.URL())+hostileProvider("event", events.URL())+fmt.Sprintf(`
[[models]]
id      = "three"
targets = [
  { provider = "request", model = %q, priority = 1 },
  { provider = "event", model = "honest", priority = 2 },
  { provider = "demo", model = "demo", fallback = true },
]
`, how))
			want := normalized(g.Chat(t, canaryRequest("demo", true)).Body)
			// Twice, because the failures of the first request must not affect the second.
			for range 2 {
				r := g.Chat(t, canaryRequest("three", true))
				if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" || normalized(r.Body) != want {
					t.Errorf("%d from %q after %s attempts: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Header.Get("X-Gateway-Attempts"), r.Body)
				}
			}
			if unreached.Connections() != 0 {
				t.Error("the gateway connected to the provider of the failed request")
			}
		})
	}
}

func TestFailingRouterKeepsConfiguredOrder(t *testing.T) {
	for name, choose := range map[string]w.Op{
		"trap": w.Unreachable, "loop": w.Code(w.Loop(w.Void, w.Br(0)), w.I32Const(0)), "status": w.I32Const(7),
	} {
		t.Run(name, func(t *testing.T) {
			m := minimalModule("sluice_abi_v1")
			export(m, abi.ExportChoose, 2, choose)
			g := proxytest.Start(t, quietServer+demoProvider+guestFile(t, "lost", "shared", m.Bytes())+`
[[models]]
id      = "two"
targets = [{ provider = "demo", model = "second", priority = 2 }, { provider = "demo", model = "first", priority = 1 }]
[router]
plugin = "lost"
`)
			if r := g.Chat(t, canaryRequest("two", false)); r.Status != 200 || !strings.Contains(r.Body, `"model":"first"`) {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			g.Log.Await(t, "msg", "router failed; using the configured order")
		})
	}
}

// minimalModule returns a module with the exports that every plugin needs, but none of a provider, router or filter.
// version is the name of the export that declares the ABI version.
func minimalModule(version string) *w.Module {
	m := new(w.Module)
	m.ExportMemory(2, w.NoMax)
	export(m, version, 0, w.I32Const(0))
	export(m, abi.ExportBuffer, 1, w.I32Const(64<<10))
	export(m, abi.ExportConfigure, 2, w.I32Const(0))
	return m
}

// export exports a function with a number of i32 parameters and an i32 result.
func export(m *w.Module, name string, params int, body w.Op) {
	m.ExportFunc(name, w.Types([]byte{w.I32, w.I32}[:params]...), w.Types(w.I32), nil, body)
}

// TestIsolationSeparatesKeys has a plugin that repeats in every response all prompts that its instance has received.
// Which keys' prompts a client sees depends on the plugin's isolation.
func TestIsolationSeparatesKeys(t *testing.T) {
	const keys = `
[server]
heartbeat = "0s"
[[keys]]
name = "alice"
secret = "sk-alice-0123456789"
[[keys]]
name = "bob"
secret = "sk-bob-0123456789"
`
	provider := "[providers.keeper]\nplugin = \"keeper\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"keeper\", model = \"m\" }]\n"
	client := &http.Client{Transport: &http.Transport{}, Timeout: proxytest.EventTimeout}
	defer client.CloseIdleConnections()
	send := func(t *testing.T, g *proxytest.Gateway, key, text string) string {
		status, body, err := post(client, g, "sk-"+key+"-0123456789", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text))
		if err != nil || status != 200 || !strings.Contains(body, text) {
			t.Errorf("status %d, %v: %s", status, err, body)
		}
		return body
	}
	for _, c := range []struct {
		isolation   string
		own, others bool // whether a key sees its own earlier prompts, and those of the other key
	}{
		{"shared", true, true}, // shows that the plugin does reveal prompts
		{"key", true, false},
		{"call", false, false},
	} {
		t.Run(c.isolation, func(t *testing.T) {
			g := proxytest.Start(t, keys+provider+guest(t, "keeper", c.isolation))
			own, others := false, false
			for i := range 8 {
				a := send(t, g, "alice", fmt.Sprintf("alice-%d.", i))
				b := send(t, g, "bob", fmt.Sprintf("bob-%d.", i))
				own = own || strings.Count(a, "alice-") > 1 || strings.Count(b, "bob-") > 1
				others = others || strings.Contains(a, "bob-") || strings.Contains(b, "alice-")
			}
			if own != c.own || others != c.others {
				t.Errorf("keys see their own prompts: %t, want %t; each other's: %t, want %t", own, c.own, others, c.others)
			}
		})
	}
	// covers: F98
	t.Run("many at once", func(t *testing.T) {
		g := proxytest.Start(t, keys+provider+guest(t, "keeper", "key"))
		var wg sync.WaitGroup
		for _, pair := range [][2]string{{"alice", "bob"}, {"bob", "alice"}} {
			for client := range 4 {
				wg.Go(func() {
					for i := range 25 {
						if body := send(t, g, pair[0], fmt.Sprintf("%s-%d-%d.", pair[0], client, i)); strings.Contains(body, pair[1]+"-") {
							t.Errorf("%s sees a prompt of %s: %s", pair[0], pair[1], body)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

// TestStartRejectsInvalidPlugins checks that the gateway does not start unless all plugins in use can be loaded, and
// that the error names each one that cannot.
func TestStartRejectsInvalidPlugins(t *testing.T) {
	honest := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/keeper")
	other := minimalModule("sluice_abi_v2")
	export(other, abi.ExportRequest, 2, w.I32Const(0))
	traps := minimalModule("sluice_abi_v1")
	export(traps, abi.ExportRequest, 2, w.I32Const(0))
	traps.Start(traps.Func(nil, nil, nil, w.Unreachable))
	connects := new(w.Module)
	connects.Import("env", "connect", w.Types(w.I32, w.I32, w.I32), w.Types(w.I32))
	connects.ExportMemory(2, w.NoMax)
	table := func(name string, wasm []byte) string { return guestFile(t, name, "key", wasm) }

	changed := strings.Replace(table("changed", honest), fmt.Sprintf("%x", sha256.Sum256(honest)), strings.Repeat("0", 64), 1)

	cases := []struct{ name, table, reason string }{
		{"changed", changed, "the SHA-256 of"}, // covers: F81
		{"absent", fmt.Sprintf("[plugins.absent]\nfile = %q\nsha256 = %q\n", filepath.Join(t.TempDir(), "absent.wasm"), strings.Repeat("0", 64)), "does not exist"}, // covers: F81
		{"newer", table("newer", other.Bytes()), "built for abi_v2, but this gateway supports abi_v1"},                                                              // covers: F97
		{"useless", table("useless", minimalModule("sluice_abi_v1").Bytes()), "neither a provider nor a router"},                                                    // covers: F97
		{"traps", table("traps", traps.Bytes()), "unreachable"},                                                                                                     // covers: F97
		{"connects", table("connects", connects.Bytes()), `"connect"`},                                                                                              // covers: F97
		{"half", table("half", honest[:len(honest)/2]), ""},                                                                                                         // covers: F100
		{"text", table("text", []byte("hello\n")), "is not a WebAssembly module"},                                                                                   // covers: F100
		{"empty", table("empty", nil), "is empty"},                                                                                                                  // covers: F100
	}
	start := func(t *testing.T, text string) string {
		t.Helper()
		cfg, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: plugins.Names()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := proxy.New(t.Context(), proxy.Options{Config: cfg, Bundled: proxytest.Bundled(t)})
		if err == nil {
			s.Close()
			t.Fatal("the gateway starts, want an error")
		}
		return err.Error()
	}
	use := func(name string) string { return "[providers.p-" + name + "]\nplugin = \"" + name + "\"\n" }
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := start(t, c.table+use(c.name))
			if !strings.Contains(got, "plugin "+c.name+": ") || !strings.Contains(got, c.reason) {
				t.Errorf("error %q, want it to name plugin %s and %q", got, c.name, c.reason)
			}
		})
	}
	t.Run("names all invalid plugins", func(t *testing.T) {
		good := minimalModule("sluice_abi_v1")
		export(good, abi.ExportRequest, 2, w.I32Const(0))
		text := table("good", good.Bytes()) + use("good")
		for _, c := range cases[2:] {
			text += c.table + use(c.name)
		}
		got := start(t, text)
		for _, c := range cases[2:] {
			if !strings.Contains(got, "plugin "+c.name+": ") {
				t.Errorf("the error does not name plugin %s:\n%s", c.name, got)
			}
		}
		if strings.Contains(got, "plugin good") {
			t.Errorf("the error names the valid plugin:\n%s", got)
		}
	})
	t.Run("unused plugins are not loaded", func(t *testing.T) {
		g := proxytest.Start(t, quietServer+demoProvider+cases[0].table+cases[7].table)
		if r := g.Chat(t, hello); r.Status != 200 {
			t.Errorf("status %d: %s", r.Status, r.Body)
		}
	})
}
