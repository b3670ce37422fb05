package e2e_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

func TestShutdownWaitsForStreams(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	c := dial(t, g)
	c.post("waits", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(proxytest.EventTimeout) }()
	awaitListenerClosed(t, g)
	select {
	case err := <-stopped:
		t.Fatalf("the shutdown ended before the stream: %v", err)
	default:
	}
	close(proceed)
	if rest := c.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %q", rest)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// awaitListenerClosed waits until the gateway accepts no more connections.
func awaitListenerClosed(t *testing.T, g *proxytest.Gateway) {
	t.Helper()
	deadline := time.Now().Add(proxytest.EventTimeout)
	for {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			return
		}
		// The connection may still have entered the listener's queue. Then it is closed without a response.
		_ = c.SetReadDeadline(deadline)
		_, _ = io.Copy(io.Discard, c)
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the gateway still accepts connections")
		}
	}
}

func TestShutdownDeadlineEndsStreams(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.AwaitClose(),
	})
	g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), `idle = "3s"`, `idle = "1m"`, 1))
	c := dial(t, g)
	c.post("cut", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)
	if err := g.Stop(10 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v, want %v", err, context.DeadlineExceeded)
	}
	rest, err := io.ReadAll(c.r)
	if err != nil || !strings.Contains(string(rest), `"code":"gateway_shutdown"`) || strings.Contains(string(rest), "[DONE]") || !strings.HasSuffix(string(rest), "0\r\n\r\n") {
		t.Errorf("the stream ended with %v: %s, want gateway_shutdown", err, rest)
	}
	if line := g.Log.Request(t, "cut"); line["code"] != "gateway_shutdown" || line["complete"] != "false" {
		t.Errorf("logged %v, want code gateway_shutdown and complete=false", line)
	}
	awaitEnd(t, provider)
}

func TestServeAfterShutdownReturns(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Server.Serve(ln); err != nil {
		t.Error(err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
	}
}
