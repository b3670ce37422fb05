package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// expiresSoon is how long before its expiry a certificate causes a warning.
const expiresSoon = 14 * day

// TLS is the table [server.tls]: the server's certificate and key.
type TLS struct {
	CertFile string // PEM: the certificate, then its intermediates
	KeyFile  string // PEM
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
	t.finish()
	if certAt == nil || keyAt == nil {
		return
	}
	pair := &TLS{CertFile: l.relative(certAt, cert), KeyFile: l.relative(keyAt, key)}
	l.cfg.Server.TLS = pair
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
