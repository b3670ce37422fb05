package downstream

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"
)

// TLS is what the gateway presents to clients, and what it asks of them.
type TLS struct {
	Certificate *tls.Certificate
	Clients     *ClientAuth // nil if clients are not asked for a certificate
}

// ClientAuth decides which clients' certificates are valid.
type ClientAuth struct {
	Required bool // connections without a certificate are refused
	Roots    *x509.CertPool
	Verify   func(tls.ConnectionState) error // is called when Roots verify the certificate, also for resumed sessions
}

// tlsServer is the TLS configuration for clients' connections. It can be replaced while it is in use.
type tlsServer struct {
	config      atomic.Pointer[tls.Config]
	certificate atomic.Pointer[tls.Certificate]
}

func newTLSServer(t *TLS) *tlsServer {
	s := new(tlsServer)
	s.set(t)
	return s
}

// set replaces the configuration for future handshakes.
func (s *tlsServer) set(t *TLS) {
	s.certificate.Store(t.Certificate)
	if old := s.config.Load(); old != nil && old.ClientAuth == tls.NoClientCert && t.Clients == nil {
		return // clients can go on resuming their sessions
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
	}
	if t.Clients != nil {
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, t.Clients.Roots
		if t.Clients.Required {
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		c.VerifyConnection = t.Clients.Verify
	}
	s.config.Store(c)
}

// tlsConn is a connection with TLS.
type tlsConn struct {
	*tls.Conn
	peer   []*x509.Certificate // the client's; unknown before ClientCertificates is called
	digest [sha256.Size]byte   // of the first
}

// ClientCertificates returns the certificates that the client has presented, its own first, and the digest of its own.
// Without any they are nil.
func (c *Conn) ClientCertificates() ([]*x509.Certificate, [sha256.Size]byte) {
	t := c.tls
	if t == nil {
		return nil, [sha256.Size]byte{}
	}
	if t.peer == nil {
		if t.peer = t.ConnectionState().PeerCertificates; len(t.peer) > 0 {
			t.digest = sha256.Sum256(t.peer[0].Raw)
		}
	}
	return t.peer, t.digest
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
	c.tls = &tlsConn{Conn: tls.Server(&c.socket, s.config.Load())}
	c.Conn = c.tls.Conn
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
