package e2e_test

import (
	"io"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestHalfClosedClientGetsResponse checks that closing the sending side after a request does not count as a disconnect.
// The gateway distinguishes them by writing a probe.
//
// covers: F21
func TestHalfClosedClientGetsResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for half-closed connections")
	}
	for name, body := range map[string]string{"non-streaming, before the response": ask, "streaming, before the response": askStream} {
		t.Run(name, func(t *testing.T) {
			probed := make(chan struct{})
			provider := upstreamtest.New(t, upstreamtest.Script{
				upstreamtest.ReadRequest(), upstreamtest.Wait(probed), upstreamtest.EventStream(),
				upstreamtest.Chunk(text("Hello"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
			})
			g := proxytest.Start(t, configuration(provider.URL(), ""))
			client := dial(t, g)
			client.post("half", body)
			if err := client.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			client.readUntil("HTTP/1.1 100 Continue\r\n\r\n")
			close(probed)
			wantHello(t, g, client, "")
		})
	}
	t.Run("in the middle of a stream", func(t *testing.T) {
		probed := make(chan struct{})
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(probed),
			upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
		})
		// Without heartbeats, the next write is the probe.
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), `heartbeat = "40ms"`, `heartbeat = "0s"`, 1))
		client := dial(t, g)
		client.post("half", askStream)
		before := client.readUntil(`"Hel"},"finish_reason":null}]}` + "\n\n\r\n")
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		client.readUntil(": keep-alive\n\r\n")
		close(probed)
		wantHello(t, g, client, before)
	})
}

// wantHello reads the rest of a response. before is the part that was already read.
func wantHello(t *testing.T, g *proxytest.Gateway, client *rawClient, before string) {
	t.Helper()
	rest, err := io.ReadAll(client.r)
	answer := before + string(rest)
	if err != nil || !strings.Contains(answer, "HTTP/1.1 200") || content(answer) != "Hello" {
		t.Errorf("got %s, %v, want a response with the text Hello", answer, err)
	}
	if line := g.Log.Request(t, "half"); line["status"] != "200" || line["complete"] != "true" {
		t.Errorf("logged as %v", line)
	}
}
