package downstream

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"
)

// tlsServer is the TLS configuration for clients' connections. Its certificate can be replaced while it is in use.
type tlsServer struct {
	config      *tls.Config
	certificate atomic.Pointer[tls.Certificate]
}

func newTLSServer(certificate *tls.Certificate) *tlsServer {
	s := new(tlsServer)
	s.certificate.Store(certificate)
	s.config = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
	}
	return s
}

// handshakes counts connections that never got as far as a request, because the handshake failed or the client spoke
// another protocol. Port scanners cause many of them, so they are only logged at debug level.
type handshakes struct {
	failed     atomic.Int64
	plainOnTLS atomic.Int64
	tlsOnPlain atomic.Int64
}

// Handshakes are counts of connections that did not get as far as a request.
type Handshakes struct {
	Failed     int64
	PlainOnTLS int64 // HTTP requests on a TLS port
	TLSOnPlain int64 // TLS handshakes on a plain HTTP port
}

// Handshakes returns the counts since the gateway started.
func (g *Conns) Handshakes() Handshakes {
	h := &g.handshakes
	return Handshakes{Failed: h.failed.Load(), PlainOnTLS: h.plainOnTLS.Load(), TLSOnPlain: h.tlsOnPlain.Load()}
}

// maxHandshake is how long a handshake may take, unless the read timeout is shorter.
const maxHandshake = 10 * time.Second

// startTLS puts TLS on top of the socket. The first read performs the handshake, on the connection's own goroutine.
func (c *Conn) startTLS(s *tlsServer) {
	c.tls = tls.Server(&c.socket, s.config)
	c.Conn = c.tls
}

// handshake performs the TLS handshake. It reports false if that failed; the client has then been sent an alert, or a
// response if it speaks plain HTTP.
func (c *Conn) handshake() bool {
	limit := c.conns.limits.Load().ReadTimeout
	c.inHandshake.Store(true)
	defer c.inHandshake.Store(false)
	c.setReadTimeout(min(limit, maxHandshake))
	if c.conns.finishing.Load() {
		// Check after setting the deadline, because that may have overwritten the deadline set by interruptReads.
		c.setReadTimeout(c.firstRequestLeft(c.accepted))
	}
	err := c.tls.Handshake()
	if err == nil {
		c.setReadTimeout(limit)
		return true
	}
	if r, ok := errors.AsType[tls.RecordHeaderError](err); ok && r.Conn != nil && looksLikeHTTP(r.RecordHeader) {
		c.conns.handshakes.plainOnTLS.Add(1)
		_, _ = c.socket.Write(c.conns.options.HTTPSRequired())
		c.tls, c.Conn, c.linger, c.lingerMax = nil, &c.socket, lingerShort, maxRest
	} else {
		c.conns.handshakes.failed.Add(1)
		c.socket.failed.Store(true) // TLS has sent its alert
	}
	c.conns.options.Log.Debug("TLS handshake failed", "remote", c.RemoteAddr().String(), "error", err)
	return false
}

// looksLikeHTTP reports whether the first bytes on a TLS port begin a plain HTTP request.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "TRACE", "CONNE", "PRI *":
		return true
	}
	return false
}

// handshakeRecord is the first byte that a TLS client sends. No HTTP request begins with it.
const handshakeRecord = 0x16

// isTLSOnPlain reports and counts a client that speaks TLS on a plain HTTP port. The client gets no response because it
// could not read one.
func (c *Conn) isTLSOnPlain(first []byte) bool {
	if first[0] != handshakeRecord {
		return false
	}
	c.conns.handshakes.tlsOnPlain.Add(1)
	return true
}
