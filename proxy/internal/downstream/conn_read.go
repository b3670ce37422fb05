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
		c.startReadTimeout() // before the check: a wake that came too late for the deadline is seen by the check
		grace, done := c.shutdown()
		if done {
			return 0, io.EOF
		}
		if grace > 0 {
			c.setReadTimeout(grace)
		}
		if c.tls != nil && !c.greeted {
			if !c.handshake() {
				return 0, io.EOF
			}
			c.greeted = true
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
		if !c.greeted && n > 0 {
			if c.isTLSOnPlain(p[:n]) {
				return 0, io.EOF
			}
			c.greeted = true
		}
		c.inputEnded = c.inputEnded || err == io.EOF
		switch {
		case n > 0 || !errors.Is(err, os.ErrDeadlineExceeded):
			return c.idleEOF(n, err)
		case grace > 0:
			return 0, io.EOF
		case !c.woken.CompareAndSwap(true, false):
			return c.idleEOF(n, err)
		}
		c.setReadTimeout(c.conns.limits.Load().ReadTimeout)
	}
}

var errInputLimit = errors.New("the request is larger than it may be")

// LimitInput lets n more bytes of the request be read; a read of more fails.
func (c *Conn) LimitInput(n int64) { c.limited, c.inputLeft = true, n }

// ExtendInput adds to the bytes that LimitInput allowed.
func (c *Conn) ExtendInput(n int64) { c.inputLeft += n }

// InputLimitReached reports whether all bytes that may be read have been.
func (c *Conn) InputLimitReached() bool { return c.limited && c.inputLeft <= 0 }

// idleEOF makes an error between two requests io.EOF: there is nothing to respond to. fasthttp would take the first
// request after a takeover for the connection's first one, and respond to the error.
func (c *Conn) idleEOF(n int, err error) (int, error) {
	if n == 0 && err != nil && c.phase.Load() == phaseIdle {
		err = io.EOF
	}
	return n, err
}

// shutdown reports, before a read, whether the gateway's shutdown ends this connection, or else how long it may wait for
// its next request; 0: as long as ever. A request of which something has come is read and answered.
func (c *Conn) shutdown() (grace time.Duration, done bool) {
	if c.conns.ending.Load() {
		return 0, true
	}
	if !c.conns.finishing.Load() {
		return 0, false
	}
	switch c.phase.Load() {
	case phaseNew:
		grace = c.firstRequestLeft()
		return grace, grace <= 0
	case phaseIdle:
		return restGrace, !readable(c.raw)
	}
	return 0, false
}

// firstRequestLeft returns how long a connection's first request may still take to come during a shutdown.
func (c *Conn) firstRequestLeft() time.Duration {
	return firstRequestGrace + firstRequestRoundTrips*roundTrip(c.raw) - time.Since(c.accepted)
}

// setReadTimeout gives reads d from now on. A connection that takes no deadline is closed, which the next read finds.
func (c *Conn) setReadTimeout(d time.Duration) {
	c.readTimeout, c.readDeadline = 0, time.Now().Add(d)
	_ = c.Conn.SetReadDeadline(c.readDeadline)
}

// startReadTimeout gives the read that begins its time. A request that came in one piece needs no deadline, and that for
// the next request is set to a quarter more, so that one serves several requests: setting it costs a microsecond.
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

// clearWoken forgets that shutdown interrupted a read.
func (c *Conn) clearWoken() {
	if c.woken.Swap(false) {
		c.readDeadline = time.Time{}
	}
}

// SetActive starts the time for a request whose first byte has come; that of a connection's first request started with
// the connection.
func (c *Conn) SetActive() {
	c.clearWoken()
	if before := c.phase.Swap(phaseActive); before == phaseIdle || c.conns.finishing.Load() {
		c.readTimeout = c.conns.limits.Load().ReadTimeout
	}
}

// SetIdle starts the time for the next request: the response to this one has been written.
func (c *Conn) SetIdle() {
	c.delivered()
	c.clearWoken()
	c.linger, c.limited = 0, false
	c.phase.Store(phaseIdle)
	c.readTimeout = c.conns.limits.Load().IdleTimeout
}

// SetClosed says that the HTTP server is done with the connection.
func (c *Conn) SetClosed() { c.delivered() }
