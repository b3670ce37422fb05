package proxytest

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

// Pair is a certificate for 127.0.0.1 that vouches for itself, and its key.
type Pair struct {
	Cert, Key []byte // PEM
	Roots     *x509.CertPool
	Serial    *big.Int
}

// NewPair makes a Pair that is valid between two moments.
func NewPair(tb testing.TB, from, to time.Time) *Pair {
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
		SerialNumber: serial, Subject: pkix.Name{CommonName: "proxytest"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Pair{
		Cert:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		Roots:  x509.NewCertPool(),
		Serial: serial,
	}
	if !p.Roots.AppendCertsFromPEM(p.Cert) {
		tb.Fatal("the certificate cannot be read")
	}
	return p
}

// GoodPair makes a Pair that is valid today and for some time.
func GoodPair(tb testing.TB) *Pair {
	tb.Helper()
	now := time.Now()
	return NewPair(tb, now.Add(-time.Hour), now.AddDate(1, 0, 0))
}

// Write puts the pair into a folder as cert.pem and key.pem, over what is there, and returns their names.
func (p *Pair) Write(tb testing.TB, dir string) (cert, key string) {
	tb.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	replace(tb, cert, p.Cert)
	replace(tb, key, p.Key)
	return cert, key
}

// Table is the table [server.tls] for a Pair in a folder.
func (p *Pair) Table(tb testing.TB, dir string) string {
	tb.Helper()
	cert, key := p.Write(tb, dir)
	return fmt.Sprintf("[server.tls]\ncert = %q\nkey = %q\n", cert, key)
}

// trust is what a client needs to know of a certificate that vouches for itself.
func trust(tb testing.TB, file string) *tls.Config {
	tb.Helper()
	cert, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		tb.Fatalf("%s holds no certificate", file)
	}
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// replace writes a file as a whole: whoever reads it meanwhile sees the old one or the new one.
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
