package upstreamtest

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

// TLS describes the certificate and the versions of a TLS server. The zero value is a valid certificate for 127.0.0.1.
type TLS struct {
	Host       string // name in the certificate; "" means 127.0.0.1
	Expired    bool
	MaxVersion uint16 // 0 means the newest
	ClientAuth tls.ClientAuthType
}

// NewTLS starts a server with TLS and a self-signed certificate.
func NewTLS(tb testing.TB, o TLS, scripts ...Script) *Server {
	tb.Helper()
	cert, pool := certificate(tb, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: o.MaxVersion, ClientAuth: o.ClientAuth}
	if o.MaxVersion != 0 {
		conf.MinVersion = tls.VersionTLS10
	}
	return start(tb, &Server{ln: tls.NewListener(ln, conf), scheme: "https", roots: &tls.Config{RootCAs: pool}}, scripts)
}

// ClientTLS returns a configuration that trusts the server's certificate.
func (s *Server) ClientTLS() *tls.Config { return s.roots.Clone() }

func certificate(tb testing.TB, o TLS) (tls.Certificate, *x509.CertPool) {
	tb.Helper()
	from, to := time.Now().Add(-2*time.Hour), time.Now().Add(time.Hour)
	if o.Expired {
		to = time.Now().Add(-time.Hour)
	}
	cert := certtest.SelfSigned(tb, o.Host, from, to)
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	return cert, pool
}
