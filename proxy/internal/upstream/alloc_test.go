//go:build !race

package upstream_test

import (
	"context"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestRequestAllocations also counts the server's allocations, but this server is a plain loop that makes none.
func TestRequestAllocations(t *testing.T) {
	s := newFastServer(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_1\r\nContent-Length: 11\r\n\r\n{\"ok\":true}")
	c := fastClient(t, s)
	r := post(`{"model":"m"}`)
	r.Headers = []upstream.Header{{Name: "anthropic-version", Value: "2023-06-01"}}
	buf := make([]byte, 0, 1<<10)
	ctx := context.Background()
	n := testing.AllocsPerRun(200, func() {
		resp, err := c.Do(ctx, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resp.ReadAll(buf[:0], 1<<10); err != nil {
			t.Fatal(err)
		}
		resp.Close()
	})
	// The Response is allocated, because it outlives the use of its connection: closing it twice must be harmless.
	if n > 1 {
		t.Errorf("%v allocations per request, want 1", n)
	}
}

// TestRequestAllocationsWithToken checks that a cached token costs no more than a configured key.
func TestRequestAllocationsWithToken(t *testing.T) {
	u, _ := tokenServer(t, nil)
	s := newFastServer(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}")
	c, err := upstream.New(upstream.Config{BaseURL: "http://" + s.ln.Addr().String(), Credential: credential.Credential{Google: &credential.Google{File: accountFile(t, u)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := post(`{"model":"m"}`)
	buf := make([]byte, 0, 1<<10)
	n := testing.AllocsPerRun(200, func() {
		resp, err := c.Do(context.Background(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resp.ReadAll(buf[:0], 1<<10); err != nil {
			t.Fatal(err)
		}
		resp.Close()
	})
	if n > 1 {
		t.Errorf("%v allocations per request, want 1", n)
	}
}

func TestReadingBodyDoesNotAllocate(t *testing.T) {
	more := make(chan struct{})
	s := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Loop(upstreamtest.Wait(more), upstreamtest.Write("9\r\ndata: a\n\n\r\n")),
	})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	n := testing.AllocsPerRun(200, func() {
		more <- struct{}{}
		if p, err := resp.Next(); err != nil || string(p) != "data: a\n\n" {
			t.Fatal(string(p), err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per event, want 0", n)
	}
}
