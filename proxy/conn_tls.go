package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"crypto/tls"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// secure is TLS towards clients. Its certificate can be replaced while it serves: handshakes that begin from then on show
// the new one.
type secure struct {
	config      *tls.Config
	certificate atomic.Pointer[tls.Certificate]
	log         *slog.Logger
}

// handshakes counts connections that never got as far as a request, because they began in another protocol or in a wrong
// way. Port scanners make many of them, so they are no lines in the log.
type handshakes struct {
	failed     atomic.Int64
	plainOnTLS atomic.Int64 // HTTP where HTTPS is spoken
	tlsOnPlain atomic.Int64 // the reverse
}

// maxHandshake is how long a handshake may take, or the time for a request, if that is less.
const maxHandshake = 10 * time.Second

// newSecure loads the certificate of a configuration; nil for a gateway without TLS.
func newSecure(files *config.TLS, log *slog.Logger) (*secure, error) {
	if files == nil {
		return nil, nil
	}
	pair, err := files.Load()
	if err != nil {
		return nil, err
	}
	s := &secure{log: log}
	s.certificate.Store(pair)
	s.config = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
	}
	return s, nil
}

// renewed loads the certificate of another configuration. It is nil where there is none to be taken over: whether clients
// speak TLS at all is decided at the start.
func (s *secure) renewed(files *config.TLS) (*tls.Certificate, error) {
	if s == nil || files == nil {
		return nil, nil
	}
	return files.Load()
}

// wrap puts TLS on a connection. The handshake comes with the first read, on the connection's own goroutine.
func (s *secure) wrap(c *clientConn) {
	c.secure, c.tls = s, tls.Server(&c.socket, s.config)
	c.Conn = c.tls
}

// shake makes the handshake. It is false for a connection that cannot have a request, and that has been told so.
func (c *clientConn) shake() bool {
	limit := c.settings.Load().ReadTimeout
	c.shaking.Store(true)
	defer c.shaking.Store(false)
	c.patience(min(limit, maxHandshake))
	err := c.tls.Handshake()
	if err == nil {
		c.patience(limit)
		return true
	}
	if r, ok := errors.AsType[tls.RecordHeaderError](err); ok && r.Conn != nil && looksLikeHTTP(r.RecordHeader) {
		c.open.handshakes.plainOnTLS.Add(1)
		_, _ = c.socket.Write(refusal(&apierror.Error{
			Status: 400, Type: apierror.TypeInvalidRequest, Code: "https_required", Message: "HTTP was sent to a port that speaks HTTPS: the address begins with https://.",
		}))
		c.tls, c.Conn, c.unread = nil, &c.socket, true
	} else {
		c.open.handshakes.failed.Add(1)
		c.socket.failed.Store(true) // TLS has said what it has to say
	}
	c.secure.log.Debug("TLS handshake", "remote", c.RemoteAddr().String(), "error", err)
	return false
}

// looksLikeHTTP tells a request of a client that thinks that this is HTTP.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "TRACE", "CONNE", "PRI *":
		return true
	}
	return false
}

// tlsHandshake is the first byte that a TLS client sends, and that no request can begin with.
const tlsHandshake = 0x16

// misplaced tells a client that speaks TLS where HTTP is spoken. It gets no answer, as it would not read one.
func (c *clientConn) misplaced(first []byte) bool {
	if first[0] != tlsHandshake {
		return false
	}
	c.open.handshakes.tlsOnPlain.Add(1)
	return true
}
