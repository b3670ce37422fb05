package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// expiresSoon is how long before its expiry a certificate causes a warning.
const expiresSoon = 14 * day

// TLS is the table [server.tls]: the server's certificate and key, and which certificates clients may present.
type TLS struct {
	CertFile string // PEM: the certificate, then its intermediates
	KeyFile  string // PEM

	ClientCA  string // PEM: the authorities of client certificates; "" if clients are not asked for a certificate
	ClientCRL string // PEM or DER: their revocation lists; "" for none
	Required  bool   // connections without a valid client certificate are refused
}

// ByCertificate is the issuer of an Identity for client certificates, and CertificateIssuer is its name.
const (
	ByCertificate     = -1
	CertificateIssuer = "certificate"
)

// ClientCAs are the authorities of client certificates, and what they have revoked.
type ClientCAs struct {
	Authorities []*x509.Certificate
	Lists       []*x509.RevocationList
}

// asksClients reports whether clients are asked for a certificate.
func (t *TLS) asksClients() bool { return t != nil && t.ClientCA != "" }

// LoadClients reads the files with the authorities and revocation lists of client certificates. It returns nil if
// clients are not asked for one.
func (t *TLS) LoadClients() (*ClientCAs, error) {
	if !t.asksClients() {
		return nil, nil
	}
	clients, inList, err := t.loadClients(readCredentialFile)
	if err != nil && inList {
		return nil, fmt.Errorf("revocation list %s: %w", t.ClientCRL, err)
	}
	if err != nil {
		return nil, fmt.Errorf("authorities of clients %s: %w", t.ClientCA, err)
	}
	return clients, nil
}

// loadClients is LoadClients with another way to read files. inList reports that the error is in the revocation lists.
func (t *TLS) loadClients(read func(name string) ([]byte, error)) (clients *ClientCAs, inList bool, err error) {
	file, err := read(t.ClientCA)
	if err != nil {
		return nil, false, withoutPath(err)
	}
	clients = new(ClientCAs)
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, false, err
		case !c.IsCA:
			return nil, false, fmt.Errorf("the certificate of %s is not that of an authority", c.Subject)
		}
		clients.Authorities = append(clients.Authorities, c)
	}
	if len(clients.Authorities) == 0 {
		return nil, false, errors.New("contains no PEM certificate")
	}
	if t.ClientCRL == "" {
		return clients, false, nil
	}
	if file, err = read(t.ClientCRL); err != nil {
		return nil, true, withoutPath(err)
	}
	if clients.Lists, err = parseRevocationLists(file, clients.Authorities); err != nil {
		return nil, true, err
	}
	return clients, false, nil
}

// parseRevocationLists parses revocation lists, and checks that authorities have signed them.
func parseRevocationLists(file []byte, authorities []*x509.Certificate) (lists []*x509.RevocationList, err error) {
	var ders [][]byte
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "X509 CRL" {
			ders = append(ders, block.Bytes)
		}
	}
	if len(ders) == 0 {
		ders = append(ders, file)
	}
	for _, der := range ders {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return nil, errors.New("is not a revocation list in PEM or DER")
		}
		for _, e := range list.Extensions {
			if e.Critical { // the list is only a part, or about other certificates than those of its issuer
				return nil, fmt.Errorf("the list of %s has the critical extension %s, which is not supported: want complete lists", list.Issuer, e.Id)
			}
		}
		if !slices.ContainsFunc(authorities, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(c) == nil
		}) {
			return nil, fmt.Errorf("the list of %s is not signed by an authority in client_ca", list.Issuer)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// PairError is an error in one of the two files of a TLS.
type PairError struct {
	Key  bool // the error is in the key file, not in the certificate
	File string
	Err  error
}

// Error returns the file and what is wrong with it.
func (e *PairError) Error() string {
	what := "certificate"
	if e.Key {
		what = "key"
	}
	return fmt.Sprintf("TLS %s %s: %v", what, e.File, e.Err)
}

// Unwrap returns Err.
func (e *PairError) Unwrap() error { return e.Err }

// Load reads both files and checks that they match. The certificate has its Leaf. Errors are *PairErrors, and do not
// quote the files. For a nil TLS, which means plain HTTP, the certificate is nil.
func (t *TLS) Load() (*tls.Certificate, error) {
	if t == nil {
		return nil, nil
	}
	return t.load(readCredentialFile)
}

func (t *TLS) load(read func(name string) ([]byte, error)) (*tls.Certificate, error) {
	cert, err := read(t.CertFile)
	if err == nil {
		err = checkCertificate(cert)
	}
	if err != nil {
		return nil, &PairError{File: t.CertFile, Err: withoutPath(err)}
	}
	key, err := read(t.KeyFile)
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(cert, key)
	}
	if err != nil {
		return nil, &PairError{Key: true, File: t.KeyFile, Err: withoutPath(err)}
	}
	return &pair, nil
}

// checkCertificate parses the first certificate of a file. Errors after it are attributed to the key.
func checkCertificate(file []byte) error {
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			_, err := x509.ParseCertificate(block.Bytes)
			return err
		}
	}
	return errors.New("contains no PEM certificate")
}

// withoutPath removes the file's name, or the prefix of package tls, from an error.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if text, ok := strings.CutPrefix(err.Error(), "tls: "); ok {
		return errors.New(text)
	}
	return err
}

// tls reads [server.tls] and its files, so that errors in them are found with the configuration.
func (l *loader) tls(t table) {
	if !t.exists() {
		return
	}
	cert, certAt := t.required("cert")
	key, keyAt := t.required("key")
	ca, caAt := t.text("client_ca")
	crl, crlAt := t.text("client_crl")
	required := t.choice("client", "request", "require") == "require"
	for _, name := range []string{"client", "client_crl"} {
		if caAt == nil && t.has(name) {
			t.fail(t.lookUp(name), name, "needs client_ca")
		}
	}
	t.finish()
	if certAt == nil || keyAt == nil {
		return
	}
	pair := &TLS{
		CertFile: l.relative(certAt, cert), KeyFile: l.relative(keyAt, key), ClientCA: l.relative(caAt, ca), ClientCRL: l.relative(crlAt, crl), Required: required,
	}
	l.cfg.Server.TLS = pair
	if pair.asksClients() {
		clients, inList, err := pair.loadClients(l.o.ReadFile)
		switch {
		case err != nil && inList:
			t.fail(crlAt, "client_crl", "%s: %v", show(crlAt), err)
		case err != nil:
			t.fail(caAt, "client_ca", "%s: %v", show(caAt), err)
		default:
			for _, list := range clients.Lists {
				if !list.NextUpdate.IsZero() && l.o.Now.After(list.NextUpdate) {
					t.warn(crlAt, "client_crl", "the list of %s should have been replaced by %s; it still applies", list.Issuer, list.NextUpdate.UTC().Format(dateForm))
				}
			}
		}
	}
	c, err := pair.load(l.o.ReadFile)
	if e, ok := errors.AsType[*PairError](err); ok {
		if e.Key {
			t.fail(keyAt, "key", "%s: %v", show(keyAt), e.Err)
		} else {
			t.fail(certAt, "cert", "%s: %v", show(certAt), e.Err)
		}
		return
	}
	switch leaf := c.Leaf; {
	case l.o.Now.After(leaf.NotAfter):
		t.warn(certAt, "cert", "the certificate expired on %s: clients will reject it", leaf.NotAfter.UTC().Format(dateForm))
	case l.o.Now.Before(leaf.NotBefore):
		t.warn(certAt, "cert", "the certificate is not valid before %s: clients will reject it until then", leaf.NotBefore.UTC().Format(dateForm))
	case leaf.NotAfter.Sub(l.o.Now) < expiresSoon:
		t.warn(certAt, "cert", "the certificate expires on %s", leaf.NotAfter.UTC().Format(dateForm))
	}
}

// dateForm is the format of times in warnings.
const dateForm = "2006-01-02 15:04 MST"
