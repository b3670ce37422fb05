package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/upstream"
	"github.com/sluice-gateway/sluice/proxy/upstream/upstreamtest"
)

func TestFaults27_Refused(t *testing.T) {
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
		t.Fatalf("%v", err)
	}
	if st := c.Stats(); st.Open != 0 {
		t.Errorf("%+v", st)
	}
}

// blackhole is a Config.Dial whose connections never come.
func blackhole(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestFaults28_Blackhole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		set    func(*upstream.Timeouts)
		reason string
	}{
		{"faults/28 connect timeout", func(t *upstream.Timeouts) { t.Connect = 20 * time.Millisecond }, "connect timeout"},
		{"faults/28 total timeout", func(t *upstream.Timeouts) { t.Total = 20 * time.Millisecond }, "total timeout"},
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
				t.Fatalf("%v", err)
			}
		})
	}
	t.Run("faults/28 the client goes meanwhile", func(t *testing.T) {
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
		if kindOf(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
			t.Fatalf("%v", err)
		}
	})
}

// Nothing is sent for a client that has left while the connection was made.
func TestWatcherIsAskedBehindASlowDial(t *testing.T) {
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
	if kindOf(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
		t.Fatalf("%v", err)
	}
	ended(t, s)
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// nameServer answers every query for an address; it is one UDP socket on 127.0.0.1.
type nameServer struct {
	conn  net.PacketConn
	code  atomic.Int32 // RCODE, -1 for silence
	addrs atomic.Pointer[[]netip.Addr]
	done  chan struct{}

	mu      sync.Mutex
	clients []net.Conn // closed at the end: the resolver waits on for answers that nobody needs any more
	over    bool
}

func newNameServer(t *testing.T, addrs ...string) *nameServer {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nameServer{conn: pc, done: make(chan struct{})}
	n.set(addrs...)
	go n.serve()
	t.Cleanup(func() {
		pc.Close()
		<-n.done
		n.mu.Lock()
		defer n.mu.Unlock()
		n.over = true
		for _, c := range n.clients {
			c.Close()
		}
	})
	return n
}

func (n *nameServer) set(addrs ...string) {
	var l []netip.Addr
	for _, a := range addrs {
		l = append(l, netip.MustParseAddr(a))
	}
	n.addrs.Store(&l)
}

func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.over {
			return nil, net.ErrClosed
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "udp", n.conn.LocalAddr().String())
		if err == nil {
			n.clients = append(n.clients, c)
		}
		return c, err
	}}
}

func (n *nameServer) serve() {
	defer close(n.done)
	q := make([]byte, 1500)
	for {
		k, from, err := n.conn.ReadFrom(q)
		if err != nil {
			return
		}
		if code := n.code.Load(); code >= 0 && k > 12 {
			n.conn.WriteTo(n.answer(q[:k], byte(code)), from)
		}
	}
}

// answer repeats the question and answers it with the addresses of its type.
func (n *nameServer) answer(q []byte, code byte) []byte {
	end := 12
	for q[end] != 0 {
		end += 1 + int(q[end])
	}
	end += 5
	typ := binary.BigEndian.Uint16(q[end-4:])
	a := append([]byte{q[0], q[1], 0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if code != 0 {
		return a
	}
	for _, ip := range *n.addrs.Load() {
		raw, want := ip.AsSlice(), uint16(28)
		if ip.Is4() {
			want = 1
		}
		if typ != want {
			continue
		}
		a[7]++
		a = append(a, 0xC0, 12, 0, byte(want), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		a = append(a, raw...)
	}
	return a
}

// named makes a client that reaches a server by a name.
func named(t *testing.T, s *upstreamtest.Server, n *nameServer, change func(*upstream.Config)) *upstream.Client {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	scheme, _, _ := strings.Cut(s.URL(), ":")
	return newClient(t, s, func(c *upstream.Config) {
		c.BaseURL = scheme + "://provider.test:" + port
		c.Resolver = n.resolver()
		c.AllowPrivate = true
		if change != nil {
			change(c)
		}
	})
}

func TestFaults29_NameServer(t *testing.T) {
	t.Parallel()
	s := okServer(t)
	for name, code := range map[string]int32{"faults/29 NXDOMAIN": 3, "faults/29 SERVFAIL": 2, "faults/29 timeout": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNameServer(t, "127.0.0.1")
			n.code.Store(code)
			c := named(t, s, n, func(c *upstream.Config) {
				if code < 0 {
					c.Timeouts.Connect = 50 * time.Millisecond
				}
			})
			_, err := c.Do(context.Background(), post(""), nil)
			var e *upstream.Error
			want := upstream.Unreachable
			if code < 0 {
				want = upstream.Timeout
			}
			if !errors.As(err, &e) || e.Kind != want || e.Phase != upstream.PhaseConnect {
				t.Fatalf("%v", err)
			}
			n.code.Store(0)
			if code < 0 {
				return
			}
			if _, _, err := whole(t, c, post("")); err != nil {
				t.Errorf("it did not recover: %v", err)
			}
		})
	}
}

func TestFaults31_IPv6Broken(t *testing.T) {
	t.Parallel()
	s := okServer(t) // listens on 127.0.0.1 alone
	c := named(t, s, newNameServer(t, "::1", "127.0.0.1"), nil)
	if _, _, err := whole(t, c, post("")); err != nil {
		t.Error(err)
	}
}

// A name may lead to the inside only where that is allowed, however good it looked when it was configured.
func TestI8_NameThatLeadsInside(t *testing.T) {
	t.Parallel()
	s := okServer(t)
	for _, addr := range []string{"127.0.0.1", "::ffff:127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "172.31.255.255", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fe80::1", "0.0.0.0"} {
		t.Run("I8/"+addr, func(t *testing.T) {
			t.Parallel()
			c := named(t, s, newNameServer(t, addr), func(c *upstream.Config) { c.AllowPrivate = false })
			_, err := c.Do(context.Background(), post(""), nil)
			var ae *upstream.AddressError
			if kindOf(t, err) != upstream.Unreachable || !errors.As(err, &ae) || ae.Class == "" {
				t.Fatalf("%v", err)
			}
		})
	}
	t.Run("I8/rebinding", func(t *testing.T) {
		t.Parallel()
		n := newNameServer(t, "127.0.0.1")
		c := named(t, s, n, nil)
		if _, _, err := whole(t, c, post("")); err != nil {
			t.Errorf("allowed: %v", err)
		}
		strict := named(t, s, n, func(c *upstream.Config) { c.AllowPrivate = false })
		if _, err := strict.Do(context.Background(), post(""), nil); kindOf(t, err) != upstream.Unreachable {
			t.Errorf("not allowed: %v", err)
		}
	})
	t.Run("I8/localhost is meant", func(t *testing.T) {
		t.Parallel()
		c := named(t, s, newNameServer(t, "127.0.0.1"), func(c *upstream.Config) {
			c.AllowPrivate = false
			c.BaseURL = strings.Replace(c.BaseURL, "provider.test", "LocalHost", 1)
		})
		if _, _, err := whole(t, c, post("")); err != nil {
			t.Error(err)
		}
	})
}

func TestFaults32_TLSThatMustNotBeTrusted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server upstreamtest.TLS
		change func(*upstream.Config)
		want   func(error) bool
	}{
		{
			"faults/32 expired", upstreamtest.TLS{Expired: true}, nil,
			func(err error) bool {
				var e x509.CertificateInvalidError
				return errors.As(err, &e) && e.Reason == x509.Expired
			},
		},
		{
			"faults/32 wrong host", upstreamtest.TLS{Host: "other.test"}, nil,
			func(err error) bool {
				var e x509.HostnameError
				return errors.As(err, &e)
			},
		},
		{
			"faults/32 unknown CA", upstreamtest.TLS{}, func(c *upstream.Config) { c.TLS = nil },
			func(err error) bool {
				var e x509.UnknownAuthorityError
				return errors.As(err, &e)
			},
		},
		{
			"faults/32 TLS 1.1", upstreamtest.TLS{MaxVersion: tls.VersionTLS11}, nil,
			func(err error) bool { return strings.Contains(err.Error(), "protocol version") },
		},
		{
			"faults/32 TLS 1.1 asked for", upstreamtest.TLS{MaxVersion: tls.VersionTLS11}, func(c *upstream.Config) { c.TLS.MinVersion = tls.VersionTLS10 },
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
			if kindOf(t, err) != upstream.TLS || !tt.want(err) {
				t.Fatalf("%v", err)
			}
			if n := len(s.Requests()); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
	t.Run("faults/32 no TLS at all", func(t *testing.T) {
		t.Parallel()
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Write("HTTP/1.1 400 Bad Request\r\n\r\n"), upstreamtest.AwaitClose()})
		c := newClient(t, s, func(c *upstream.Config) { c.BaseURL = "https://" + s.Addr() })
		if _, err := c.Do(context.Background(), post(""), nil); kindOf(t, err) != upstream.TLS {
			t.Fatalf("%v", err)
		}
	})
}

func TestTLSVersions(t *testing.T) {
	t.Parallel()
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := upstreamtest.NewTLS(t, upstreamtest.TLS{Host: "provider.test", MaxVersion: v}, upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
		c := named(t, s, newNameServer(t, "127.0.0.1"), func(c *upstream.Config) { c.TLS = s.ClientTLS() })
		for range 3 {
			if _, got, err := whole(t, c, post("hello")); err != nil || got != "hello" {
				t.Errorf("%s: %q, %v", tls.VersionName(v), got, err)
			}
		}
		if st := c.Stats(); st.Dialled != 1 || st.Reused != 2 {
			t.Errorf("%s: %+v", tls.VersionName(v), st)
		}
	}
}

func TestFaults33_HandshakeStalls(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	c := newClient(t, s, func(c *upstream.Config) {
		c.BaseURL = "https://" + s.Addr()
		c.Timeouts.TLS = 30 * time.Millisecond
	})
	_, err := c.Do(context.Background(), post(""), nil)
	var e *upstream.Error
	if !errors.As(err, &e) || e.Kind != upstream.Timeout || e.Phase != upstream.PhaseConnect || e.Reason != "TLS handshake timeout" {
		t.Fatalf("%v", err)
	}
	ended(t, s)
	if st := c.Stats(); st.Open != 0 {
		t.Errorf("%+v", st)
	}
}
