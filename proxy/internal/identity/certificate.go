package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// Certificates decides which client certificates are valid.
type Certificates struct {
	roots   *x509.CertPool
	revoked map[revocation]struct{}
}

// revocation identifies a certificate by its issuer's distinguished name and its serial number.
type revocation struct{ issuer, serial string }

// byCertificate stands in for an issuer of tokens.
var byCertificate = &config.Issuer{Name: config.CertificateIssuer, URL: config.CertificateIssuer}

// LoadCertificates reads the authorities of client certificates, and what they have revoked. It returns nil if clients are
// not asked for a certificate.
func LoadCertificates(t *config.TLS) (*Certificates, error) {
	cas, err := t.LoadClients()
	if cas == nil || err != nil {
		return nil, err
	}
	c := &Certificates{roots: x509.NewCertPool(), revoked: make(map[revocation]struct{})}
	for _, authority := range cas.Authorities {
		c.roots.AddCert(authority)
	}
	for _, list := range cas.Lists {
		for i := range list.RevokedCertificateEntries {
			c.revoked[revocation{string(list.RawIssuer), list.RevokedCertificateEntries[i].SerialNumber.String()}] = struct{}{}
		}
	}
	return c, nil
}

// Roots returns the authorities.
func (c *Certificates) Roots() *x509.CertPool { return c.roots }

var (
	errRevoked   = errors.New("it has been revoked")
	errAuthority = errors.New("it is that of an authority, not of a client")
)

// VerifyConnection refuses the handshake of a client whose certificate, or an authority of it, has been revoked.
func (c *Certificates) VerifyConnection(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	_, err := c.check(state.PeerCertificates[0], state.VerifiedChains)
	return err
}

// check returns until when a certificate is valid that has been verified, by the chain that is valid for longest.
func (c *Certificates) check(own *x509.Certificate, chains [][]*x509.Certificate) (until time.Time, err error) {
	if own.IsCA {
		return until, errAuthority
	}
	for _, chain := range chains {
		end, revoked := own.NotAfter, false
		for _, cert := range chain {
			end = earlier(end, cert.NotAfter)
			_, found := c.revoked[revocation{string(cert.RawIssuer), cert.SerialNumber.String()}]
			revoked = revoked || found
		}
		if !revoked && end.After(until) {
			until = end
		}
	}
	if until.IsZero() {
		return until, errRevoked
	}
	return until, nil
}

// verify verifies a chain that a client has presented.
func (c *Certificates) verify(presented []*x509.Certificate, now time.Time) (until time.Time, err error) {
	o := x509.VerifyOptions{Roots: c.roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, cert := range presented[1:] {
		o.Intermediates.AddCert(cert)
	}
	chains, err := presented[0].Verify(o)
	if err != nil {
		return until, err
	}
	return c.check(presented[0], chains)
}

// certificateClaims are the names in a certificate.
type certificateClaims struct{ *x509.Certificate }

func (c certificateClaims) claimTexts(name string) (all []string) {
	switch name {
	case "san.uri":
		for _, u := range c.URIs {
			all = append(all, u.String())
		}
	case "san.dns":
		all = c.DNSNames
	case "san.email":
		all = c.EmailAddresses
	case "subject":
		all = []string{c.Subject.String()}
	case "subject.cn":
		all = []string{c.Subject.CommonName}
	}
	return all
}

// claimOne returns the only value: a certificate with several names of a kind is not one principal.
func (c certificateClaims) claimOne(name string) (string, bool) {
	if all := c.claimTexts(name); len(all) == 1 {
		return all[0], true
	}
	return "", false
}

// AcceptsCertificates reports whether certificates authenticate clients.
func (v *Verifier) AcceptsCertificates() bool { return v.certificates != nil }

// VerifyCertificate returns the principal of a client certificate, or the error to respond with. chain is what the client
// has presented, its own certificate first, and digest the SHA-256 of that. The handshake has verified it; it is verified
// again because its authority may have been removed, or have revoked it, while the connection was open. A certificate that
// has been verified before under this configuration causes no allocation.
func (v *Verifier) VerifyCertificate(chain []*x509.Certificate, digest config.Digest, now time.Time) (*access.Key, *apierror.Error) {
	if v.certificates == nil {
		return nil, nil
	}
	return v.cached(digest, now, func() (*access.Key, time.Time, error) {
		until, err := v.certificates.verify(chain, now)
		if err != nil {
			return nil, until, &Error{Code: InvalidCertificate, Cause: err}
		}
		key, err := v.principal(config.ByCertificate, certificateClaims{chain[0]}, byCertificate)
		if err != nil {
			return nil, until, &Error{Code: NotAllowed, Issuer: byCertificate.Name, Cause: err}
		}
		return key, until, nil
	})
}
