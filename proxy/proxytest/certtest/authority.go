package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// Authority signs certificates of clients.
type Authority struct {
	tb   testing.TB
	leaf *x509.Certificate
	key  *ecdsa.PrivateKey
	list int64 // number of the last revocation list
}

// NewAuthority returns an authority with this name that is its own root.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb}
	a.leaf, a.key = a.sign(nil, authority(name))
	return a
}

// Below returns an authority whose certificate a has signed.
func (a *Authority) Below(name string) *Authority {
	a.tb.Helper()
	b := &Authority{tb: a.tb}
	b.leaf, b.key = a.sign(a, authority(name))
	return b
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.leaf.Raw})
}

// Leaf returns the authority's certificate.
func (a *Authority) Leaf() *x509.Certificate { return a.leaf }

// Client returns a certificate for a client with these URIs. change may change it before it is signed.
func (a *Authority) Client(change func(*x509.Certificate), uris ...string) tls.Certificate {
	a.tb.Helper()
	c := &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			a.tb.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	if change != nil {
		change(c)
	}
	leaf, key := a.sign(a, c)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, a.leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// sign signs a certificate; by nil signs it with its own key.
func (a *Authority) sign(by *Authority, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		a.tb.Fatal(err)
	}
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	}
	parent, secret := c, key
	if by != nil {
		parent, secret = by.leaf, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, secret)
	if err != nil {
		a.tb.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.tb.Fatal(err)
	}
	return leaf, key
}

// Revoke returns a list, in PEM, of certificates that the authority has revoked. change may change it before it is
// signed.
func (a *Authority) Revoke(change func(*x509.RevocationList), revoked ...*x509.Certificate) []byte {
	a.tb.Helper()
	a.list++
	list := &x509.RevocationList{Number: big.NewInt(a.list), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().AddDate(1, 0, 0)}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	if change != nil {
		change(list)
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.leaf, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// KeyPEM returns the private key of a client's certificate.
func KeyPEM(tb testing.TB, c tls.Certificate) []byte {
	tb.Helper()
	secret, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}
