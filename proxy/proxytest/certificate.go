package proxytest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// Pair is a self-signed certificate for 127.0.0.1 and its key.
type Pair struct {
	Cert, Key []byte // PEM
	Roots     *x509.CertPool
	Serial    *big.Int
}

// NewPair returns a Pair that is valid between two times.
func NewPair(tb testing.TB, from, to time.Time) *Pair {
	tb.Helper()
	cert := upstreamtest.SelfSigned(tb, "", from, to)
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

// GoodPair returns a Pair that is currently valid.
func GoodPair(tb testing.TB) *Pair {
	tb.Helper()
	now := time.Now()
	return NewPair(tb, now.Add(-time.Hour), now.AddDate(1, 0, 0))
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

// trust returns a client configuration that trusts a self-signed certificate.
func trust(tb testing.TB, file string) *tls.Config {
	tb.Helper()
	cert, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		tb.Fatalf("%s contains no certificate", file)
	}
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
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
