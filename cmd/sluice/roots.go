package main

import (
	"crypto/x509"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// systemRoots are the files in which Unix systems keep their root certificates.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// useBundledRoots makes providers' certificates verifiable on a system without root certificates, such as an empty
// container image. Root certificates of the system take precedence. If one of systemRoots exists, the bundle is not
// even parsed, which would take milliseconds and a megabyte.
func useBundledRoots() {
	if os.Getenv("SSL_CERT_FILE") == "" {
		for _, path := range systemRoots {
			if info, err := os.Stat(path); err == nil && info.Size() > 0 {
				return
			}
		}
	}
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue // use the others
		}
		if root.Constraint == nil {
			pool.AddCert(cert)
		} else {
			pool.AddCertWithConstraint(cert, root.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
}
