package upstream_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestMain ignores the background goroutines of fasthttp's client, which the benchmarks use for comparison.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))
}

// testTimeout is the maximum time that a test waits for an event.
const testTimeout = 10 * time.Second

// newClient returns a client for a server, with short ticks. change may be nil.
func newClient(tb testing.TB, s *upstreamtest.Server, change func(*upstream.Config)) *upstream.Client {
	tb.Helper()
	cfg := upstream.Config{
		Name: "test", BaseURL: s.URL() + "/v1",
		Credential: credential.Credential{Header: "Authorization", Prefix: "Bearer ", Secrets: []string{"sk-canary-0123456789"}},
		Ticks:      upstream.Ticks{First: 10 * time.Millisecond, Slow: 20 * time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := upstream.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		c.Close()
		if s := c.Stats(); s.Open != 0 || s.Idle != 0 || s.InUse != 0 {
			tb.Errorf("connections after Close: %+v", s)
		}
	})
	return c
}

func post(body string) *upstream.Request {
	return &upstream.Request{Method: "POST", Path: "/chat/completions", Body: []byte(body), ContentType: "application/json", Accept: "application/json"}
}

// errorKind returns the kind of an error, or 0 for nil.
func errorKind(tb testing.TB, err error) upstream.ErrorKind {
	tb.Helper()
	if err == nil {
		return 0
	}
	var e *upstream.Error
	if !errors.As(err, &e) {
		tb.Fatalf("not an *upstream.Error: %v", err)
	}
	return e.Kind
}

// roundTrip sends a request and reads the complete response.
func roundTrip(tb testing.TB, c *upstream.Client, r *upstream.Request) (status int, body string, err error) {
	tb.Helper()
	resp, err := c.Do(context.Background(), r, nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Close()
	b, err := resp.ReadAll(nil, 1<<20)
	return resp.Status(), string(b), err
}

// drain calls Next until it fails, and returns the bytes and the error, which is nil for io.EOF.
func drain(resp *upstream.Response) (string, error) {
	var got []byte
	for {
		p, err := resp.Next()
		if err == io.EOF {
			return string(got), nil
		}
		if err != nil {
			return string(got), err
		}
		got = append(got, p...)
	}
}
