package upstream

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/tcpconn"
)

// attemptDelay is how long an attempt may take before the next address is also tried (RFC 8305, section 5).
const attemptDelay = 250 * time.Millisecond

// connector connects to one host and port. It ignores proxy settings.
type connector struct {
	host, port string
	names      *names // nil if the host is not resolved here
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
}

// newConnector returns the connector for a configuration. literal means that the host is an IP address.
func newConnector(cfg *Config, host, port string, literal bool) *connector {
	c := &connector{host: host, port: port, dial: cfg.Dial}
	if cfg.Dial != nil {
		return c
	}
	d := &net.Dialer{KeepAlive: -1} // see keepAlive
	c.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		keepAlive(conn)
		return conn, err
	}
	if cfg.Received {
		d.ControlContext = controlReceived(cfg.AllowPrivate)
	}
	if literal {
		return c
	}
	// An address in the configuration is intended, and so is localhost. Any other name is resolved by a name server,
	// which may not be trustworthy.
	if !cfg.Received && !cfg.AllowPrivate && !strings.EqualFold(host, "localhost") {
		d.ControlContext = controlAddress
	}
	c.names = newNames(host, cfg.Resolver, cfg.Now)
	return c
}

// keepAlive makes the kernel close a connection within about a minute after its peer has vanished, even if there is
// nothing to send.
func keepAlive(c net.Conn) {
	tcpconn.KeepAlive(c, 10*time.Second+rand.N(20*time.Second), 5*time.Second+rand.N(5*time.Second), 4)
}

// connect connects to the host.
func (c *connector) connect(ctx context.Context) (net.Conn, error) {
	if c.names == nil {
		return c.dial(ctx, "tcp", net.JoinHostPort(c.host, c.port))
	}
	addrs, err := c.names.lookup(ctx)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 1 {
		return c.dial(ctx, "tcp", net.JoinHostPort(addrs[0].String(), c.port))
	}
	return c.race(ctx, interleave(addrs))
}

// race tries the addresses in order. It starts the next attempt when one has failed or has taken longer than
// attemptDelay (RFC 8305). It returns the first connection and closes the others. If all attempts fail, it returns the
// error of the first address.
func (c *connector) race(ctx context.Context, addrs []netip.Addr) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
		at   int
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result)
	started, ended := 0, 0
	defer func() {
		// This ends the other attempts at once.
		cancel()
		for range started - ended {
			if r := <-results; r.conn != nil {
				r.conn.Close()
			}
		}
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	first := result{at: len(addrs)}
	for ended < len(addrs) {
		select {
		case <-next.C:
			if started == len(addrs) {
				continue
			}
			at := started
			started++
			go func() {
				conn, err := c.attempt(ctx, addrs[at])
				results <- result{conn, err, at}
			}()
			next.Reset(attemptDelay)
		case r := <-results:
			ended++
			if r.err == nil {
				return r.conn, nil
			}
			if r.at < first.at {
				first = r
			}
			next.Reset(0)
		}
	}
	return nil, first.err
}

// attempt connects to one address.
func (c *connector) attempt(ctx context.Context, addr netip.Addr) (conn net.Conn, err error) {
	defer rescue.Into(&err)
	return c.dial(ctx, "tcp", net.JoinHostPort(addr.String(), c.port))
}

// interleave alternates the addresses of both families, keeping the order within each. The first address determines the
// preferred family (RFC 8305, section 4).
func interleave(addrs []netip.Addr) []netip.Addr {
	var families [2][]netip.Addr
	for _, a := range addrs {
		f := 0
		if a.Is4() != addrs[0].Is4() {
			f = 1
		}
		families[f] = append(families[f], a)
	}
	out := make([]netip.Addr, 0, len(addrs))
	for i := range addrs {
		for _, f := range families {
			if i < len(f) {
				out = append(out, f[i])
			}
		}
	}
	return out
}

func (c *connector) close() {
	if c.names != nil {
		c.names.close()
	}
}
