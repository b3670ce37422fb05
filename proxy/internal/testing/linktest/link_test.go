//go:build linux

package linktest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/linktest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// network creates a network. If the machine does not support it, network logs that and returns nil.
func network(t *testing.T, o linktest.Options) *linktest.Network {
	t.Helper()
	n, err := linktest.New(t, o)
	if err != nil {
		t.Logf("NOT TESTED: this machine does not support networks for tests: %v", err)
		return nil
	}
	return n
}

// TestLinkConditions sends a megabyte from the client to the gateway under each condition and checks what arrives.
func TestLinkConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		conditions linktest.Conditions
		minTime    time.Duration // how long the transfer takes at least
		lossy      bool
	}{
		{name: "no faults"},
		{name: "loss and jitter", conditions: linktest.Conditions{Loss: 0.02, Delay: 10 * time.Millisecond, Jitter: 5 * time.Millisecond}, minTime: 30 * time.Millisecond, lossy: true},
		{name: "duplication and reordering", conditions: linktest.Conditions{Duplicate: 0.1, Delay: 2 * time.Millisecond, Jitter: 2 * time.Millisecond}},
		{name: "low bandwidth", conditions: linktest.Conditions{Rate: 1 << 20, Queue: 64 << 10}, minTime: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := network(t, linktest.Options{Seed: 1})
			if n == nil {
				return
			}
			n.ToClient.Set(c.conditions)
			data := make([]byte, 1<<20)
			r := rand.NewChaCha8(sha256.Sum256([]byte(c.name)))
			_, _ = r.Read(data)
			ln, err := n.Gateway.Listen(n.GatewayAddress + ":0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			got := make(chan []byte, 1)
			go func() {
				defer close(got)
				in, err := ln.Accept()
				if err != nil {
					return
				}
				defer in.Close()
				all, _ := io.ReadAll(in)
				got <- all
			}()
			began := time.Now()
			out, err := n.Client.Dial(context.Background(), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			if _, err := out.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := out.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if all := <-got; !bytes.Equal(all, data) {
				t.Errorf("received %d bytes that differ from the %d bytes sent", len(all), len(data))
			}
			if took := time.Since(began); took < c.minTime {
				t.Errorf("the transfer took %s, want at least %s", took, c.minTime)
			}
			if passed, lost := n.ToClient.Counts(); passed < len(data)/linktest.Ethernet || lost > 0 != c.lossy && c.conditions.Rate == 0 {
				t.Errorf("%d packets delivered, %d lost", passed, lost)
			}
		})
	}
}

// TestLinkDown checks that a link that is down drops everything silently.
func TestLinkDown(t *testing.T) {
	t.Parallel()
	n := network(t, linktest.Options{})
	if n == nil {
		return
	}
	n.ToUpstream.Set(linktest.Conditions{Down: true})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := n.Gateway.Dial(ctx, "tcp", n.UpstreamAddress+":9"); err == nil {
		c.Close()
		t.Error("connected over a link that is down")
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got error %v over a link that is down, want a timeout", err)
	}
	n.ToUpstream.Set(linktest.Conditions{})
	if _, err := n.Gateway.Dial(t.Context(), "tcp", n.UpstreamAddress+":9"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got error %v over a link that is up again, want ECONNREFUSED", err)
	}
}
