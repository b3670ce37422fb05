package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestReplacePluginDuringStreams replaces a plugin's file while it serves. The old version serves open streams to their
// end, even if its instances trap and have to be replaced. New requests use the new version. The old version is closed
// after its last stream.
//
// covers: F99
func TestReplacePluginDuringStreams(t *testing.T) {
	const streams = 30
	first := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/hostile")
	second := bytes.ReplaceAll(first, []byte("version-one"), []byte("version-two"))
	if bytes.Equal(first, second) {
		t.Fatal("the plugin does not contain its version")
	}
	proceed := make(chan struct{})
	held := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: version\n\n"), upstreamtest.Wait(proceed),
		upstreamtest.Chunk("data: version\n\n", "data: end\n\n"), upstreamtest.LastChunk(),
	})
	short := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: version\n\ndata: end\n\n"), upstreamtest.LastChunk(),
	})
	traps := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: version\n\n"), upstreamtest.Wait(proceed),
		upstreamtest.Chunk("data: panic\n\n"), upstreamtest.AwaitClose(),
	})
	config := func(wasm []byte) string {
		return quietServer + guestFile(t, "hostile", "key", wasm) + hostileProvider("held", held.URL(), "honest") +
			hostileProvider("short", short.URL(), "honest") + hostileProvider("traps", traps.URL(), "honest")
	}
	g := proxytest.Start(t, config(first))

	begun := make([]*rawClient, streams)
	for i := range begun {
		begun[i] = dial(t, g)
		model := "held/honest"
		if i%3 == 0 {
			model = "traps/honest"
		}
		begun[i].post(fmt.Sprint("old-", i), canaryRequest(model, true))
		begun[i].readUntil(`"version-one"},"finish_reason":null}]}` + "\n\n")
	}
	if err := g.Reload(t, config(second)); err != nil {
		t.Fatal(err)
	}
	if p := pluginStatus(t, g, "hostile"); p.Generations != 2 {
		t.Errorf("%d generations of the plugin while streams of the first are open, want 2", p.Generations)
	}
	for _, stream := range []bool{true, false} {
		if r := g.Chat(t, canaryRequest("short/honest", stream)); r.Status != 200 || content(r.Body) != "version-two" {
			t.Errorf("new request: status %d: %s, want version-two", r.Status, r.Body)
		}
	}
	close(proceed)
	var reading sync.WaitGroup
	for i, c := range begun {
		reading.Go(func() {
			rest := c.readUntil("0\r\n\r\n")
			if i%3 == 0 {
				if !strings.Contains(rest, `"code":"plugin_crashed"`) || strings.Contains(rest, "[DONE]") {
					t.Errorf("a trapped stream ends with %s, want plugin_crashed", rest)
				}
				return
			}
			if content(rest) != "version-one" || !strings.HasSuffix(rest, "data: [DONE]\n\n\r\n0\r\n\r\n") {
				t.Errorf("an open stream ends with %s, want version-one", rest)
			}
		})
	}
	reading.Wait()
	for deadline := time.Now().Add(proxytest.EventTimeout); ; runtime.Gosched() {
		p := pluginStatus(t, g, "hostile")
		if p.Generations == 1 && p.Used == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the old plugin is still open: %+v", p)
		}
	}
	if r := g.Chat(t, canaryRequest("short/honest", true)); r.Status != 200 || content(r.Body) != "version-two" {
		t.Errorf("request after the streams: status %d: %s, want version-two", r.Status, r.Body)
	}
}

// TestReloadOfInvalidPlugin reloads configurations with invalid plugins, and checks that the error names the plugin and
// the cause, and that the loaded version keeps serving.
//
// covers: F81 F97
func TestReloadOfInvalidPlugin(t *testing.T) {
	good := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/keeper")
	config := func(wasm []byte) string {
		return quietServer + guestFile(t, "keeper", "key", wasm) + "[providers.p]\nplugin = \"keeper\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", model = \"m\" }]\n"
	}
	newer := minimalModule("sluice_abi_v2")
	export(newer, abi.ExportRequest, 2, w.I32Const(0))
	starts := minimalModule("sluice_abi_v1")
	export(starts, abi.ExportRequest, 2, w.I32Const(0))
	starts.Start(starts.Func(nil, nil, nil, w.Unreachable))
	g := proxytest.Start(t, config(good))
	for reason, wasm := range map[string][]byte{
		"built for abi_v2, but this gateway supports abi_v1": newer.Bytes(),
		"neither a provider nor a router":                    minimalModule("sluice_abi_v1").Bytes(),
		"unreachable":                                        starts.Bytes(),
		"malformed":                                          good[:len(good)/2],
	} {
		err := g.Reload(t, config(wasm))
		if _, ok := errors.AsType[*proxy.BuildError](err); !ok || !strings.Contains(err.Error(), "plugin keeper: ") || !strings.Contains(err.Error(), reason) {
			t.Errorf("reload: %v, want an error that names the plugin and %q", err, reason)
		}
		if r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"still here"}]}`); r.Status != 200 || !strings.Contains(r.Body, "still here") {
			t.Errorf("request after the reload: status %d: %s", r.Status, r.Body)
		}
	}
	if p := pluginStatus(t, g, "keeper"); p.Generations != 1 {
		t.Errorf("%d generations of the plugin, want 1", p.Generations)
	}
}
