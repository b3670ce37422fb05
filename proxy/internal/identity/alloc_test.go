//go:build !race

package identity_test

import (
	"crypto/sha256"
	"crypto/x509"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

func TestVerifiedTokenDoesNotAllocate(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", "")
	header := [][]byte{[]byte("Bearer " + i.Token(claims{"sub": "alice"}))}
	if n := testing.AllocsPerRun(1000, func() {
		if _, e := g.keys.Authenticate(header, g.now()); e != nil {
			t.Fatal(e)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestVerifiedCertificateDoesNotAllocate(t *testing.T) {
	root := certtest.NewAuthority(t, "root")
	g := openCertificates(t, root, nil, bySAN)
	client := root.Client(nil, "spiffe://acme.example/ns/prod/sa/worker")
	chain, digest := []*x509.Certificate{client.Leaf}, sha256.Sum256(client.Leaf.Raw)
	if n := testing.AllocsPerRun(1000, func() {
		if _, e := g.keys.AuthenticateCertificate(chain, digest, g.now()); e != nil {
			t.Fatal(e, e.Cause)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkToken(b *testing.B) {
	i := issuertest.New(b)
	g := open(b, i, "", "")
	header := [][]byte{[]byte("Bearer " + i.Token(claims{"sub": "alice"}))}
	now := g.now() // reading the clock takes longer than the rest on some machines
	b.ReportAllocs()
	for b.Loop() {
		if _, e := g.keys.Authenticate(header, now); e != nil {
			b.Fatal(e)
		}
	}
}
