package upstreamtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// TLS describes the certificate and the versions of a TLS server. The zero value is a valid certificate for 127.0.0.1.
type TLS struct {
	Host       string // the name in the certificate; "" is 127.0.0.1
	Expired    bool
	MaxVersion uint16 // 0 is the newest
}

// NewTLS starts a server with TLS and a self-signed certificate.
func NewTLS(tb testing.TB, o TLS, scripts ...Script) *Server {
	tb.Helper()
	cert, pool := certificate(tb, o)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: o.MaxVersion}
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
	cert := SelfSigned(tb, o.Host, from, to)
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	return cert, pool
}

// SelfSigned returns a self-signed server certificate for a host; "" is 127.0.0.1. It has its Leaf.
func SelfSigned(tb testing.TB, host string, from, to time.Time) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "upstreamtest"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if host == "" {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	} else {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
