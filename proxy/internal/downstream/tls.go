package downstream

import (
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"
)

// tlsServer is TLS towards clients. Its certificate can be replaced while it serves.
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

// handshakes counts connections that never got as far as a request, because they began in another protocol or in a wrong
// way. Port scanners make many of them, so that they are not logged.
type handshakes struct {
	failed     atomic.Int64
	plainOnTLS atomic.Int64
	tlsOnPlain atomic.Int64
}

// Handshakes are counts of connections that did not get as far as a request.
type Handshakes struct {
	Failed     int64
	PlainOnTLS int64 // HTTP where HTTPS is spoken
	TLSOnPlain int64 // the reverse
}

// Handshakes returns the counts since the start.
func (g *Conns) Handshakes() Handshakes {
	h := &g.handshakes
	return Handshakes{Failed: h.failed.Load(), PlainOnTLS: h.plainOnTLS.Load(), TLSOnPlain: h.tlsOnPlain.Load()}
}

// maxHandshake is how long a handshake may take, unless the time for a request is less.
const maxHandshake = 10 * time.Second

// startTLS puts TLS on the connection. The handshake comes with the first read, on the connection's own goroutine.
func (c *Conn) startTLS(s *tlsServer) {
	c.tls = tls.Server(&c.socket, s.config)
	c.Conn = c.tls
}

// handshake reports false for a connection that cannot have a request, and that has been told so.
func (c *Conn) handshake() bool {
	limit := c.conns.limits.Load().ReadTimeout
	c.inHandshake.Store(true)
	defer c.inHandshake.Store(false)
	c.setReadTimeout(min(limit, maxHandshake))
	if c.conns.finishing.Load() {
		// The check follows the deadline, which may have overwritten that of wake.
		c.setReadTimeout(c.firstRequestLeft())
	}
	err := c.tls.Handshake()
	if err == nil {
		c.setReadTimeout(limit)
		return true
	}
	if r, ok := errors.AsType[tls.RecordHeaderError](err); ok && r.Conn != nil && looksLikeHTTP(r.RecordHeader) {
		c.conns.handshakes.plainOnTLS.Add(1)
		_, _ = c.socket.Write(c.conns.options.HTTPSRequired())
		c.tls, c.Conn, c.linger = nil, &c.socket, lingerShort
	} else {
		c.conns.handshakes.failed.Add(1)
		c.socket.failed.Store(true) // TLS has sent its alert
	}
	c.conns.options.Log.Debug("TLS handshake failed", "remote", c.RemoteAddr().String(), "error", err)
	return false
}

// looksLikeHTTP recognises the request of a client that takes the port for one of HTTP.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "TRACE", "CONNE", "PRI *":
		return true
	}
	return false
}

// handshakeRecord is the first byte that a TLS client sends, and with which no request can begin.
const handshakeRecord = 0x16

// isTLSOnPlain recognises a client that speaks TLS to a port of HTTP. It gets no response, as it would not read one.
func (c *Conn) isTLSOnPlain(first []byte) bool {
	if first[0] != handshakeRecord {
		return false
	}
	c.conns.handshakes.tlsOnPlain.Add(1)
	return true
}
