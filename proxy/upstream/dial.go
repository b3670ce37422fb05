package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// newDialer dials the addresses that the name server gives, IPv6 and IPv4 racing as RFC 6555 says. It knows of no proxy.
func newDialer(cfg *Config, literal bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	if cfg.Dial != nil {
		return cfg.Dial
	}
	d := &net.Dialer{
		Resolver: cfg.Resolver,
		// A peer that vanished without a word is noticed within a minute, also while it has nothing to send.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 20 * time.Second, Interval: 10 * time.Second, Count: 4},
	}
	// An address that stands in the configuration is meant. What a name leads to is for a name server to say, and that
	// may be somebody else's.
	if !cfg.AllowPrivate && !literal {
		d.ControlContext = controlAddress
	}
	return d.DialContext
}

// newTLS makes the settings for a host from those of the configuration.
func newTLS(t *tls.Config, host string) (*tls.Config, error) {
	if t == nil {
		t = &tls.Config{}
	}
	if t.InsecureSkipVerify {
		return nil, errors.New("TLS without verification is not supported")
	}
	t = t.Clone()
	t.MinVersion = max(t.MinVersion, tls.VersionTLS12)
	t.NextProtos = []string{"http/1.1"}
	if t.ServerName == "" {
		t.ServerName = host
	}
	if t.ClientSessionCache == nil {
		t.ClientSessionCache = tls.NewLRUClientSessionCache(256)
	}
	return t, nil
}

// dial connects and shakes hands, each within its own time and both within the request's.
func (c *Client) dial(ctx context.Context, deadline time.Time) (*conn, error) {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	dctx, cancel := context.WithTimeout(ctx, c.cfg.Timeouts.Connect)
	raw, err := c.dialer(dctx, "tcp", c.address)
	cancel()
	if err != nil {
		return nil, dialError(ctx, dctx, err, Unreachable, "connect")
	}
	cn := newConn(raw, c.cfg.Ticks, c.cfg.ReadBuffer)
	if c.tls == nil {
		return cn, nil
	}
	// The handshake ends before anything ticks.
	hctx, cancel := context.WithTimeout(ctx, c.cfg.Timeouts.TLS)
	defer cancel()
	t := tls.Client(&cn.line, c.tls)
	if err := t.HandshakeContext(hctx); err != nil {
		raw.Close()
		return nil, dialError(ctx, hctx, err, TLS, "TLS handshake")
	}
	cn.rw, cn.line.tls = t, true
	return cn, nil
}

// dialError tells a caller that has gone, a deadline and a failure apart. ctx is the request's, step the one of the step
// that failed.
func dialError(ctx, step context.Context, err error, kind ErrorKind, what string) error {
	e := &Error{Kind: kind, Phase: PhaseConnect, Cause: err}
	ne, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Kind, e.Cause = Cancelled, context.Cause(ctx)
	case ctx.Err() != nil:
		e.Kind, e.Reason = Timeout, "total timeout"
	case errors.Is(step.Err(), context.DeadlineExceeded), ok && ne.Timeout():
		e.Kind, e.Reason = Timeout, what+" timeout"
	}
	return e
}
