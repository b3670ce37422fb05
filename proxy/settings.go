package proxy

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// settings are what the configuration says of connections and requests as such. A Reload puts others in their place,
// which count from the next request, write or connection on. fasthttp has fields for them, but these cannot change once
// it serves.
type settings struct{ atomic.Pointer[config.Server] }

// track is told by fasthttp what a connection is at. A request gets its time from its first byte on, and the first one
// of a connection from the connection's beginning.
func (s *Server) track(c net.Conn, state fasthttp.ConnState) {
	cc, ok := c.(*clientConn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		cc.forgive()
		if before := cc.phase.Swap(phaseActive); before == phaseIdle || s.clients.finishing.Load() {
			cc.limit = s.settings.Load().ReadTimeout
		}
	case fasthttp.StateIdle:
		cc.delivered()
		cc.forgive()
		cc.phase.Store(phaseIdle)
		cc.limit = s.settings.Load().IdleTimeout
	case fasthttp.StateClosed:
		cc.delivered()
	}
}

// forgive forgets that a read was woken.
func (c *clientConn) forgive() {
	if c.woken.Swap(false) {
		c.readBy = time.Time{}
	}
}

// patience is how long reads may take from now on. A connection on which that cannot be set is closed, which the next
// read says.
func (c *clientConn) patience(d time.Duration) {
	c.limit, c.readBy = 0, time.Now().Add(d)
	_ = c.SetReadDeadline(c.readBy)
}

// arm gives the read that begins the time that it gets. A request that came in one piece needs no deadline of its own,
// and that for the next one is set to a quarter more, so that it serves for several: each costs a microsecond.
func (c *clientConn) arm() {
	d := c.limit
	if d == 0 {
		return
	}
	c.limit = 0
	if c.phase.Load() != phaseIdle {
		c.patience(d)
		return
	}
	now := time.Now()
	if c.readBy.Before(now.Add(d)) || c.readBy.After(now.Add(d+d/4)) {
		c.patience(d + d/4)
	}
}
