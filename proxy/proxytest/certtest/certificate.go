// Package certtest makes self-signed certificates for tests of a gateway and its providers, and certificates of clients.
//
// It imports no package of the gateway, so that a package's tests do not link the whole gateway.
//
// Concurrency: all functions may be called from any goroutine of a test.
package certtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a self-signed certificate for 127.0.0.1 and its key.
type Pair struct {
	Cert, Key []byte // PEM
	Roots     *x509.CertPool
	Serial    *big.Int
}

// New returns a Pair that is valid between two times.
func New(tb testing.TB, from, to time.Time) *Pair {
	tb.Helper()
	cert := SelfSigned(tb, "", from, to)
	secret, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Pair{
		Cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Leaf.Raw}),
		Key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		Roots:  x509.NewCertPool(),
		Serial: cert.Leaf.SerialNumber,
	}
	p.Roots.AddCert(cert.Leaf)
	return p
}

// Valid returns a Pair that is currently valid.
func Valid(tb testing.TB) *Pair {
	tb.Helper()
	now := time.Now()
	return New(tb, now.Add(-time.Hour), now.AddDate(1, 0, 0))
}

// Write writes the pair to cert.pem and key.pem in a directory, and returns their names.
func (p *Pair) Write(tb testing.TB, dir string) (cert, key string) {
	tb.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	replace(tb, cert, p.Cert)
	replace(tb, key, p.Key)
	return cert, key
}

// Table writes the pair to a directory and returns the table [server.tls] for it.
func (p *Pair) Table(tb testing.TB, dir string) string {
	tb.Helper()
	cert, key := p.Write(tb, dir)
	return fmt.Sprintf("[server.tls]\ncert = %q\nkey = %q\n", cert, key)
}

// replace replaces a file atomically.
func replace(tb testing.TB, name string, data []byte) {
	tb.Helper()
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return
	}
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		tb.Fatal(err)
	}
}

// SelfSigned returns a self-signed server certificate for a host; "" means 127.0.0.1. Its Leaf is set.
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
		SerialNumber: serial, Subject: pkix.Name{CommonName: "certtest"}, NotBefore: from, NotAfter: to,
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
