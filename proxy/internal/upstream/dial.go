package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"time"
)

// newTLS returns the TLS settings for a host.
func newTLS(t *tls.Config, host string) (*tls.Config, error) {
	if t == nil {
		t = &tls.Config{}
	}
	if t.InsecureSkipVerify {
		return nil, errors.New("InsecureSkipVerify is not supported")
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

// dial connects and performs the TLS handshake, each within its own timeout and both within the request's.
func (c *Client) dial(ctx context.Context, deadline time.Time) (*conn, error) {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	dctx, cancel := context.WithTimeout(ctx, c.cfg.Timeouts.Connect)
	raw, err := c.connector.connect(dctx)
	cancel()
	if err != nil {
		return nil, dialError(ctx, dctx, err, Unreachable, "connect")
	}
	cn := newConn(raw, c.cfg.Ticks, c.memory)
	// Connections that were established together should not all retire together.
	cn.retire = c.cfg.Now().Add(c.cfg.MaxAge - rand.N(c.cfg.MaxAge/10+1))
	if c.tls == nil {
		return cn, nil
	}
	// There are no ticks during the handshake.
	hctx, cancel := context.WithTimeout(ctx, c.cfg.Timeouts.TLS)
	defer cancel()
	t := tls.Client(&cn.tickConn, c.tls)
	if err := t.HandshakeContext(hctx); err != nil {
		raw.Close()
		return nil, dialError(ctx, hctx, err, TLS, "TLS handshake")
	}
	cn.rw, cn.tickConn.tls = t, true
	return cn, nil
}

// dialError distinguishes cancellation, timeouts and failures. ctx is the request's context, and step is the context of
// the step that failed.
func dialError(ctx, step context.Context, err error, kind ErrorKind, what string) error {
	e := &Error{Kind: kind, Phase: PhaseConnect, Cause: err}
	ne, ok := errors.AsType[net.Error](err)
	_, noName := errors.AsType[*nameError](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Kind, e.Cause = Cancelled, context.Cause(ctx)
	case ctx.Err() != nil:
		e.Kind, e.Reason = Timeout, "total timeout"
	case noName:
		// Not a Timeout even if the name server timed out, because the provider did not.
	case errors.Is(step.Err(), context.DeadlineExceeded), ok && ne.Timeout():
		e.Kind, e.Reason = Timeout, what+" timeout"
	}
	return e
}
