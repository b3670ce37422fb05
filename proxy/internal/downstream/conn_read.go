package downstream

import (
	"errors"
	"io"
	"os"
	"time"
)

// Read reads for the HTTP server.
func (c *Conn) Read(p []byte) (int, error) {
	if c.takeover.active || len(c.takeover.buffered) > 0 {
		return c.takeover.read(p)
	}
	for {
		c.startReadTimeout() // before the check, which notices a shutdown whose deadline this has overwritten
		grace, done := c.shutdown()
		if done {
			return 0, io.EOF
		}
		if grace > 0 {
			c.setReadTimeout(grace)
		}
		if c.tls != nil && !c.inputStarted {
			if !c.handshake() {
				return 0, io.EOF
			}
			c.inputStarted, c.ready = true, time.Now()
			continue
		}
		if c.limited {
			if c.inputLeft <= 0 {
				return 0, errInputLimit
			}
			p = p[:min(int64(len(p)), c.inputLeft)]
		}
		n, err := c.Conn.Read(p)
		c.inputLeft -= int64(n)
		if !c.inputStarted && n > 0 {
			if c.isTLSOnPlain(p[:n]) {
				return 0, io.EOF
			}
			c.inputStarted = true
		}
		c.inputEnded = c.inputEnded || err == io.EOF
		switch {
		case n > 0 || !errors.Is(err, os.ErrDeadlineExceeded):
			return c.idleEOF(n, err)
		case c.interrupted.CompareAndSwap(true, false):
			c.setReadTimeout(c.conns.limits.Load().ReadTimeout)
		case grace == 0:
			return c.idleEOF(n, err)
		}
		// After an interruption, or at the end of the grace, shutdown decides again.
	}
}

var errInputLimit = errors.New("the request is too large")

// LimitInput allows n more bytes of the request to be read. Reads beyond that fail.
func (c *Conn) LimitInput(n int64) { c.limited, c.inputLeft = true, n }

// ExtendInput allows n bytes in addition to those that LimitInput allowed.
func (c *Conn) ExtendInput(n int64) { c.inputLeft += n }

// InputLimitReached reports whether all bytes that LimitInput and ExtendInput allowed have been read.
func (c *Conn) InputLimitReached() bool { return c.limited && c.inputLeft <= 0 }

// idleEOF replaces an error between two requests with io.EOF, because there is no request to respond to. Otherwise
// fasthttp, which takes the first request after a takeover for the connection's first one, would respond to the error.
func (c *Conn) idleEOF(n int, err error) (int, error) {
	if n == 0 && err != nil && c.phase.Load() == phaseIdle {
		err = io.EOF
	}
	return n, err
}

// shutdown reports, before a read, whether the gateway's shutdown closes this connection (done), and if not, how long
// the connection may wait for its next request; 0 means that its timeouts are unchanged. A request whose first bytes
// have arrived is still served.
func (c *Conn) shutdown() (grace time.Duration, done bool) {
	if c.conns.ending.Load() {
		return 0, true
	}
	if !c.conns.finishing.Load() {
		return 0, false
	}
	switch c.phase.Load() {
	case phaseNew:
		grace = c.firstRequestLeft(c.ready)
		return grace, grace <= 0
	case phaseIdle:
		return restGrace, !readable(c.raw)
	}
	return 0, false
}

// firstRequestLeft returns how long a connection that the client could use since then may still take, during a shutdown,
// until its first request arrives. A busy machine may read late what has arrived in time, so that counts as arrived.
func (c *Conn) firstRequestLeft(since time.Time) time.Duration {
	left := firstRequestGrace + firstRequestRoundTrips*roundTrip(c.raw) - time.Since(since)
	if left < restGrace && readable(c.raw) {
		return restGrace
	}
	return left
}

// setReadTimeout sets the deadline of reads to d from now. An error can be ignored: it means that the connection is
// closed, so the next read fails.
func (c *Conn) setReadTimeout(d time.Duration) {
	c.readTimeout, c.readDeadline = 0, time.Now().Add(d)
	_ = c.Conn.SetReadDeadline(c.readDeadline)
}

// startReadTimeout starts the pending timeout, if any, before a read. Setting a deadline costs a microsecond, so the
// deadline of an idle connection is set up to a quarter later than necessary, and then serves several requests. A
// request that arrives in one piece needs no deadline of its own.
func (c *Conn) startReadTimeout() {
	d := c.readTimeout
	if d == 0 {
		return
	}
	c.readTimeout = 0
	if c.phase.Load() != phaseIdle {
		c.setReadTimeout(d)
		return
	}
	now := time.Now()
	if c.readDeadline.Before(now.Add(d)) || c.readDeadline.After(now.Add(d+d/4)) {
		c.setReadTimeout(d + d/4)
	}
}

// clearInterrupted forgets that shutdown interrupted a read.
func (c *Conn) clearInterrupted() {
	if c.interrupted.Swap(false) {
		c.readDeadline = time.Time{}
	}
}

// SetActive starts the timeout for reading a request whose first byte has arrived. The timeout of a connection's first
// request started when the connection was accepted.
func (c *Conn) SetActive() {
	c.clearInterrupted()
	if before := c.phase.Swap(phaseActive); before == phaseIdle || c.conns.finishing.Load() {
		c.readTimeout = c.conns.limits.Load().ReadTimeout
	}
}

// SetIdle is called when a response has been written. It starts the timeout for the next request.
func (c *Conn) SetIdle() {
	c.delivered()
	c.clearInterrupted()
	c.linger, c.limited = 0, false
	c.phase.Store(phaseIdle)
	c.readTimeout = c.conns.limits.Load().IdleTimeout
}

// SetClosed is called when the HTTP server is done with the connection.
func (c *Conn) SetClosed() { c.delivered() }
