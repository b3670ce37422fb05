package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maskWith returns the configuration of a filter that masks a phrase.
func maskWith(mask string) string {
	return fmt.Sprintf("[[filters]]\nplugin = \"blocklist\"\noptions = { phrases = [\"top secret\"], mask = %q }\n", mask)
}

// TestFilterReload adds, changes and removes filters while streams are open. Each stream must keep the filters of the
// configuration with which it started.
func TestFilterReload(t *testing.T) {
	if testing.Short() {
		t.Skip("starts gateways for each API")
	}
	forEachIngress(t, func(t *testing.T, in *ingress) {
		wire := wires[0]
		proceed := make(chan struct{})
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(wire.opening(lead + "A top sec")), upstreamtest.Wait(proceed),
			upstreamtest.Chunk(wire.says("ret.") + wire.finish + wire.done), upstreamtest.LastChunk(),
		})
		config := wire.gatewayConfig(provider.URL())
		g := proxytest.Start(t, config)
		steps := []struct{ filters, want string }{
			{"", "A top secret."}, {maskWith("[one]"), "A [one]."}, {maskWith("[two]"), "A [two]."}, {maskWith("top") + strings.ReplaceAll(maskWith("[three]"), "top secret", "a top"), "[three]."},
			{"", "A top secret."},
		}
		var open []*rawClient
		for i, s := range steps {
			if err := g.Reload(t, config+s.filters); err != nil {
				t.Fatal(err)
			}
			c := dial(t, g)
			c.postTo(in.pathTo("m", true), fmt.Sprint("stream-", i), in.requestBody("m", "x", true))
			open = append(open, c)
			c.readUntil(strings.TrimSpace(lead))
		}
		close(proceed)
		for i, c := range open {
			body := "…" + in.deltaPrefix + escaped(strings.TrimSpace(lead)) + c.readUntil("0\r\n\r\n")
			if got := in.plainText(t, body, true); got != lead+steps[i].want {
				t.Errorf("stream %d: got %q, want %q", i, got, lead+steps[i].want)
			}
		}
		proxytest.AwaitMetrics(t, g.Admin(t), func(m proxytest.Metrics) bool { return m.Sum("sluice_config_generations_open") == 1 })
	})
}

// TestDisconnectFromFilteredStream has clients disconnect while a filter holds back text. The provider's connection
// must be closed, and all resources released.
func TestDisconnectFromFilteredStream(t *testing.T) {
	if testing.Short() {
		t.Skip("starts gateways for each API")
	}
	forEachIngress(t, func(t *testing.T, in *ingress) {
		wire, never := wires[0], make(chan struct{})
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(wire.opening(lead + "A top sec")), upstreamtest.AwaitClose(), upstreamtest.Wait(never),
		})
		g := proxytest.Start(t, wire.gatewayConfig(provider.URL())+maskWith("[x]"))
		admin := g.Admin(t)
		for i, reset := range []bool{false, true} {
			id := fmt.Sprint("leaves-", i)
			c := dial(t, g)
			c.postTo(in.pathTo("m", true), id, in.requestBody("m", "x", true))
			c.readUntil(strings.TrimSpace(lead))
			c.disconnect(reset)
			awaitEnd(t, provider)
			wantDisconnect(t, g, id, nil)
			awaitReleased(t, admin)
		}
	})
}

// trappingFilter is a filter that fails at texts that begin with an exclamation mark.
func trappingFilter() []byte {
	m := minimalModule(abi.ExportVersion)
	i := w.I32
	m.ExportFunc(abi.ExportFilterText, w.Types(i, i, i, i, i, i), w.Types(i), nil,
		w.LocalGet(5), w.If(w.Void, w.I32Const(64<<10), w.I32Load8U, w.I32Const('!'), w.I32Eq, w.If(w.Void, w.Unreachable)), w.I32Const(0))
	return m.Bytes()
}

// TestFilterTraps checks each on_failure with a filter that traps on a text of the request or the response, and that
// concurrent and later requests are not affected.
func TestFilterTraps(t *testing.T) {
	if testing.Short() {
		t.Skip("starts gateways for each API")
	}
	module := trappingFilter()
	forEachIngress(t, func(t *testing.T, in *ingress) {
		wire := wires[0]
		for _, on := range []string{"refuse", "pass"} {
			t.Run(on, func(t *testing.T) {
				proceed := make(chan struct{})
				closing := func(contentType, body string) upstreamtest.Script {
					return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, contentType, body, "Connection: close")}
				}
				const bad, good = "! a text", "a text"
				scripts := []upstreamtest.Script{{
					upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(wire.opening(lead)), upstreamtest.Wait(proceed),
					upstreamtest.Chunk(wire.says(good) + wire.finish + wire.done), upstreamtest.LastChunk(),
				}}
				add := func(stream bool, text string) {
					if stream {
						scripts = append(scripts, closing("text/event-stream", wire.stream(text)))
					} else {
						scripts = append(scripts, closing("application/json", wire.answer(text)))
					}
				}
				for _, stream := range []bool{false, true} {
					add(stream, bad)
					add(stream, good)
					if on == "pass" {
						add(stream, good)
					}
				}
				provider := upstreamtest.New(t, scripts...)
				g := proxytest.Start(t, wire.gatewayConfig(provider.URL())+guestFile(t, "traps", "shared", module)+"[[filters]]\nplugin = \"traps\"\non_failure = \""+on+"\"\n")
				neighbour := dial(t, g)
				neighbour.postTo(in.pathTo("m", true), "neighbour", in.requestBody("m", "x", true))
				neighbour.readUntil(strings.TrimSpace(lead))
				for _, stream := range []bool{false, true} {
					ask := func(text, want string) {
						t.Helper()
						r := g.Do(t, "POST", in.pathTo("m", stream), in.requestBody("m", text, stream))
						if want != "" {
							in.wantText(t, g, r, stream, want)
							return
						}
						line := g.Log.Request(t, r.RequestID())
						if r.Status < 500 && r.Status != 200 || strings.Contains(r.Body, good) || !strings.Contains(r.Body, "A filter of the gateway failed.") || line["code"] != "filter_failed" {
							t.Errorf("stream %v: status %d, %v: %s", stream, r.Status, line, r.Body)
						}
					}
					if on == "pass" {
						ask("x", bad)
						ask("! prompt", good)
					} else {
						ask("x", "")
						ask("! prompt", "")
					}
					ask("x", good)
				}
				close(proceed)
				body := "…" + in.deltaPrefix + strings.TrimSpace(lead) + neighbour.readUntil("0\r\n\r\n")
				if got := in.plainText(t, body, true); got != lead+good {
					t.Errorf("concurrent stream: got %q, want %q", got, lead+good)
				}
			})
		}
	})
}
