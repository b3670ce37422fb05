package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// covers: F27
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	c, err := upstream.New(upstream.Config{Name: "test", BaseURL: "http://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Do(context.Background(), post(""), nil)
	var e *upstream.Error
	if !errors.As(err, &e) || e.Kind != upstream.Unreachable || e.Phase != upstream.PhaseConnect || !errors.Is(err, syscall.ECONNREFUSED) || e.Answered {
		t.Fatalf("got error %v", err)
	}
	if st := c.Stats(); st.Open != 0 {
		t.Errorf("stats: %+v", st)
	}
}

// blackhole is a Config.Dial that never connects.
func blackhole(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// covers: F28
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		set    func(*upstream.Timeouts)
		reason string
	}{
		{"connect timeout", func(t *upstream.Timeouts) { t.Connect = 20 * time.Millisecond }, "connect timeout"},
		{"total timeout", func(t *upstream.Timeouts) { t.Total = 20 * time.Millisecond }, "total timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := upstream.Config{BaseURL: "http://provider.test", Dial: blackhole}
			tt.set(&cfg.Timeouts)
			c, err := upstream.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Do(context.Background(), post(""), nil)
			var e *upstream.Error
			if !errors.As(err, &e) || e.Kind != upstream.Timeout || e.Phase != upstream.PhaseConnect || e.Reason != tt.reason {
				t.Fatalf("got error %v", err)
			}
		})
	}
	t.Run("client disconnect", func(t *testing.T) {
		t.Parallel()
		dialling := make(chan struct{})
		c, err := upstream.New(upstream.Config{BaseURL: "http://provider.test", Dial: func(ctx context.Context, n, a string) (net.Conn, error) {
			close(dialling)
			return blackhole(ctx, n, a)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			<-dialling
			cancel(errGone)
		}()
		_, err = c.Do(ctx, post(""), nil)
		if errorKind(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
			t.Fatalf("got error %v", err)
		}
	})
}

func TestDisconnectDuringDialSendsNothing(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	c := newClient(t, s, func(c *upstream.Config) {
		c.Ticks.First = time.Nanosecond
	})
	_, err := c.Do(context.Background(), post(""), watcher(func(p upstream.Phase, d time.Duration) error {
		if p != upstream.PhaseConnect || d <= 0 {
			t.Errorf("phase %v, %v", p, d)
		}
		return errGone
	}))
	if errorKind(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
		t.Fatalf("got error %v", err)
	}
	awaitClientClose(t, s)
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}

// newNamedClient returns a client that connects to a server by a host name.
func newNamedClient(t *testing.T, s *upstreamtest.Server, n *upstreamtest.NameServer, change func(*upstream.Config)) *upstream.Client {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	scheme, _, _ := strings.Cut(s.URL(), ":")
	return newClient(t, s, func(c *upstream.Config) {
		c.BaseURL = scheme + "://provider.test:" + port
		c.Resolver = n.Resolver()
		c.AllowPrivate = true
		if change != nil {
			change(c)
		}
	})
}

// TestNameThatResolvesToPrivateAddress checks that private addresses are rejected when connecting, whatever the name
// resolved to when it was configured.
func TestNameThatResolvesToPrivateAddress(t *testing.T) {
	t.Parallel()
	s := okServer(t)
	for _, addr := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "172.31.255.255", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fe80::1", "0.0.0.0"} {
		t.Run("I8/"+addr, func(t *testing.T) {
			t.Parallel()
			c := newNamedClient(t, s, upstreamtest.NewNameServer(t, addr), func(c *upstream.Config) { c.AllowPrivate = false })
			_, err := c.Do(context.Background(), post(""), nil)
			var ae *upstream.AddressError
			if errorKind(t, err) != upstream.Unreachable || !errors.As(err, &ae) || ae.Class == "" {
				t.Fatalf("got error %v", err)
			}
		})
	}
	t.Run("I8/rebinding", func(t *testing.T) {
		t.Parallel()
		n := upstreamtest.NewNameServer(t, "127.0.0.1")
		c := newNamedClient(t, s, n, nil)
		if _, _, err := roundTrip(t, c, post("")); err != nil {
			t.Errorf("with AllowPrivate: %v", err)
		}
		strict := newNamedClient(t, s, n, func(c *upstream.Config) { c.AllowPrivate = false })
		if _, err := strict.Do(context.Background(), post(""), nil); errorKind(t, err) != upstream.Unreachable {
			t.Errorf("without AllowPrivate: %v", err)
		}
	})
	t.Run("I8/localhost is allowed", func(t *testing.T) {
		t.Parallel()
		c := newNamedClient(t, s, upstreamtest.NewNameServer(t, "127.0.0.1"), func(c *upstream.Config) {
			c.AllowPrivate = false
			c.BaseURL = strings.Replace(c.BaseURL, "provider.test", "LocalHost", 1)
		})
		if _, _, err := roundTrip(t, c, post("")); err != nil {
			t.Error(err)
		}
	})
}

// covers: F32
func TestRejectsInvalidCertificates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server upstreamtest.TLS
		change func(*upstream.Config)
		want   func(error) bool
	}{
		{
			"expired", upstreamtest.TLS{Expired: true}, nil,
			func(err error) bool {
				var e x509.CertificateInvalidError
				return errors.As(err, &e) && e.Reason == x509.Expired
			},
		},
		{
			"wrong host", upstreamtest.TLS{Host: "other.test"}, nil,
			func(err error) bool {
				var e x509.HostnameError
				return errors.As(err, &e)
			},
		},
		{
			"unknown CA", upstreamtest.TLS{}, func(c *upstream.Config) { c.TLS = nil },
			func(err error) bool {
				var e x509.UnknownAuthorityError
				return errors.As(err, &e)
			},
		},
		{
			"TLS 1.1", upstreamtest.TLS{MaxVersion: tls.VersionTLS11}, nil,
			func(err error) bool { return strings.Contains(err.Error(), "protocol version") },
		},
		{
			"TLS 1.1 configured", upstreamtest.TLS{MaxVersion: tls.VersionTLS11}, func(c *upstream.Config) { c.TLS.MinVersion = tls.VersionTLS10 },
			func(err error) bool { return strings.Contains(err.Error(), "protocol version") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := upstreamtest.NewTLS(t, tt.server, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/plain", "no")})
			c := newClient(t, s, func(c *upstream.Config) {
				c.TLS = s.ClientTLS()
				if tt.change != nil {
					tt.change(c)
				}
			})
			_, err := c.Do(context.Background(), post(""), nil)
			if errorKind(t, err) != upstream.TLS || !tt.want(err) {
				t.Fatalf("got error %v", err)
			}
			if n := len(s.Requests()); n != 0 {
				t.Errorf("%d requests were sent, want none", n)
			}
		})
	}
	t.Run("server without TLS", func(t *testing.T) {
		t.Parallel()
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Write("HTTP/1.1 400 Bad Request\r\n\r\n"), upstreamtest.AwaitClose()})
		c := newClient(t, s, func(c *upstream.Config) { c.BaseURL = "https://" + s.Addr() })
		if _, err := c.Do(context.Background(), post(""), nil); errorKind(t, err) != upstream.TLS {
			t.Fatalf("got error %v", err)
		}
	})
}

func TestTLSVersions(t *testing.T) {
	t.Parallel()
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := upstreamtest.NewTLS(t, upstreamtest.TLS{Host: "provider.test", MaxVersion: v}, upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
		c := newNamedClient(t, s, upstreamtest.NewNameServer(t, "127.0.0.1"), func(c *upstream.Config) { c.TLS = s.ClientTLS() })
		for range 3 {
			if _, got, err := roundTrip(t, c, post("hello")); err != nil || got != "hello" {
				t.Errorf("%s: got %q, error %v", tls.VersionName(v), got, err)
			}
		}
		if st := c.Stats(); st.Dialled != 1 || st.Reused != 2 {
			t.Errorf("%s: stats: %+v", tls.VersionName(v), st)
		}
	}
}

// covers: F33
func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	c := newClient(t, s, func(c *upstream.Config) {
		c.BaseURL = "https://" + s.Addr()
		c.Timeouts.TLS = 30 * time.Millisecond
	})
	_, err := c.Do(context.Background(), post(""), nil)
	var e *upstream.Error
	if !errors.As(err, &e) || e.Kind != upstream.Timeout || e.Phase != upstream.PhaseConnect || e.Reason != "TLS handshake timeout" {
		t.Fatalf("got error %v", err)
	}
	awaitClientClose(t, s)
	if st := c.Stats(); st.Open != 0 {
		t.Errorf("stats: %+v", st)
	}
}
