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
	awaitRefusal(t, g)
	select {
	case err := <-stopped:
		t.Fatalf("the shutdown ended before the stream, with %v", err)
	default:
	}
	close(proceed)
	if rest := c.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the rest is %q", rest)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// awaitRefusal waits until the gateway accepts no more connections.
func awaitRefusal(t *testing.T, g *proxytest.Gateway) {
	t.Helper()
	deadline := time.Now().Add(proxytest.EventTimeout)
	for {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			return
		}
		// The listener's queue may still have taken it: then it is closed unanswered, which ends the wait for it.
		_ = c.SetReadDeadline(deadline)
		_, _ = io.Copy(io.Discard, c)
		c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the gateway goes on accepting connections")
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
		t.Errorf("the shutdown ended with %v", err)
	}
	rest, err := io.ReadAll(c.r)
	if err != nil || !strings.Contains(string(rest), `"code":"gateway_shutdown"`) || strings.Contains(string(rest), "[DONE]") || !strings.HasSuffix(string(rest), "0\r\n\r\n") {
		t.Errorf("%v: %s", err, rest)
	}
	if line := g.Log.Request(t, "cut"); line["code"] != "gateway_shutdown" || line["complete"] != "false" {
		t.Errorf("accounted as %v", line)
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
		t.Errorf("the listener is open: %v", err)
	}
}
