package identity_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

// openCertificates starts a gateway for client certificates of an authority, with a revocation list unless that is nil.
func openCertificates(t testing.TB, authority *certtest.Authority, list []byte, entries string) *gateway {
	t.Helper()
	dir := t.TempDir()
	text := certtest.Valid(t).Table(t, dir) + "client_ca = \"ca.pem\"\n"
	files := map[string][]byte{"ca.pem": authority.PEM()}
	if list != nil {
		files["list.pem"] = list
		text += "client_crl = \"list.pem\"\n"
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Parse(filepath.Join(dir, "gateway.toml"), []byte(text+"[[teams]]\nname = \"red\"\n"+entries), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return openConfig(t, cfg, "")
}

// present presents a certificate, and returns the principal, or the status and code of the error.
func (g *gateway) present(t testing.TB, c tls.Certificate) string {
	t.Helper()
	var chain []*x509.Certificate
	for _, der := range c.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, cert)
	}
	key, e := g.keys.AuthenticateCertificate(chain, sha256.Sum256(chain[0].Raw), g.now())
	switch {
	case e != nil:
		return fmt.Sprint(e.Status, " ", e.Code, ": ", e.Cause)
	case key == nil:
		return "nobody"
	}
	return key.Name() + "/" + key.Team()
}

const bySAN = "[[identities]]\nissuer = \"certificate\"\nwhen = { claim = { \"san.uri\" = [\"spiffe://acme.example/ns/prod/*\"] } }\nname = \"{san.uri}\"\n"

// TestCertificates is the table of client certificates: which are accepted, and as whom.
func TestCertificates(t *testing.T) {
	root, stranger := certtest.NewAuthority(t, "root"), certtest.NewAuthority(t, "root")
	below, gone := root.Below("below"), root.Below("gone")
	const worker = "spiffe://acme.example/ns/prod/sa/worker"
	revoked := root.Client(nil, worker)
	list := root.Revoke(nil, revoked.Leaf, gone.Leaf())
	named := func(c *x509.Certificate) {
		c.DNSNames, c.Subject = []string{"worker.acme.example"}, pkix.Name{CommonName: "worker", Organization: []string{"red"}}
	}
	const (
		invalid = "401 invalid_certificate: client certificate: "
		refused = "403 identity_not_allowed: client certificate: "
	)
	for _, c := range []struct {
		name    string
		present tls.Certificate
		rules   string
		want    string
	}{
		{"a SPIFFE ID", root.Client(nil, worker), bySAN, "certificate:" + worker + "/"},
		{"an intermediate authority", below.Client(nil, worker), bySAN, "certificate:" + worker + "/"},
		{"a host", root.Client(named), "[[identities]]\nissuer = \"certificate\"\nname = \"{san.dns}\"\nwhen = { claim = { subject = [\"*O=red*\"] } }\n", "certificate:worker.acme.example/"},
		{"a common name", root.Client(named), "[[identities]]\nissuer = \"certificate\"\nname = \"{subject.cn}\"\nteam = \"red\"\n", "certificate:worker/red"},
		{"another SPIFFE ID", root.Client(nil, "spiffe://acme.example/ns/test/sa/worker"), bySAN, refused + "no entry of [[identities]] matches"},
		{"no SPIFFE ID", root.Client(named), bySAN, refused + "no entry of [[identities]] matches"},
		{"two SPIFFE IDs", root.Client(nil, worker, worker+"2"), bySAN, refused + "the claim san.uri is missing, or not one text"},
		{"a control character", root.Client(func(c *x509.Certificate) { c.Subject.CommonName = "a\nb" }), "[[identities]]\nissuer = \"certificate\"\nname = \"{subject.cn}\"\n", refused + "the name of the principal"},
		{"an unknown authority", stranger.Client(nil, worker), bySAN, invalid + "x509: certificate signed by unknown authority"},
		{"expired", root.Client(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Unix(1, 0), time.Unix(2, 0) }, worker), bySAN, invalid + "x509: certificate has expired or is not yet valid"},
		{"of a server", root.Client(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, worker), bySAN, invalid + "x509: certificate specifies an incompatible key usage"},
		{"of an authority", root.Client(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, worker), bySAN, invalid + "it is that of an authority, not of a client"},
		{"revoked", revoked, bySAN, invalid + "it has been revoked"},
		{"of a revoked authority", gone.Client(nil, worker), bySAN, invalid + "it has been revoked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := openCertificates(t, root, list, c.rules)
			for range 2 { // the second may be cached
				if got := g.present(t, c.present); !strings.HasPrefix(got, c.want) {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
			if _, e := g.keys.Authenticate(nil, g.now()); e == nil || e.Code != "missing_api_key" {
				t.Errorf("without a key: %v", e)
			}
		})
	}
	t.Run("expires", func(t *testing.T) {
		g := openCertificates(t, root, nil, bySAN)
		short := root.Client(func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		}, worker)
		if got := g.present(t, short); got != "certificate:"+worker+"/" {
			t.Fatalf("got %s", got)
		}
		g.clock.Store(2 * 3600)
		if got := g.present(t, short); !strings.HasPrefix(got, invalid) {
			t.Errorf("after it has expired: %s", got)
		}
	})
	t.Run("tokens only", func(t *testing.T) {
		g := open(t, issuertest.New(t), "", "")
		if got := g.present(t, root.Client(nil, worker)); got != "nobody" || g.keys.AcceptsCertificates() {
			t.Errorf("got %s", got)
		}
	})
}

// TestHandshakeRefusesRevoked checks what a handshake is refused for.
func TestHandshakeRefusesRevoked(t *testing.T) {
	root := certtest.NewAuthority(t, "root")
	good, bad := root.Client(nil, "spiffe://a/b"), root.Client(nil, "spiffe://a/b")
	dir := t.TempDir()
	ca, list := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "list.pem")
	for name, data := range map[string][]byte{ca: root.PEM(), list: root.Revoke(nil, bad.Leaf)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := identity.LoadCertificates(&config.TLS{ClientCA: ca, ClientCRL: list})
	if err != nil {
		t.Fatal(err)
	}
	state := func(c tls.Certificate) tls.ConnectionState {
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.Leaf}, VerifiedChains: [][]*x509.Certificate{{c.Leaf, root.Leaf()}}}
	}
	if err := c.VerifyConnection(tls.ConnectionState{}); err != nil {
		t.Errorf("no certificate: %v", err)
	}
	if err := c.VerifyConnection(state(good)); err != nil {
		t.Errorf("a good certificate: %v", err)
	}
	if err := c.VerifyConnection(state(bad)); err == nil || err.Error() != "it has been revoked" {
		t.Errorf("a revoked certificate: %v", err)
	}
}
