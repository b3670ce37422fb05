//go:build !race

package identity_test

import (
	"testing"

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

func BenchmarkToken(b *testing.B) {
	i := issuertest.New(b)
	g := open(b, i, "", "")
	header := [][]byte{[]byte("Bearer " + i.Token(claims{"sub": "alice"}))}
	b.ReportAllocs()
	for b.Loop() {
		if _, e := g.keys.Authenticate(header, g.now()); e != nil {
			b.Fatal(e)
		}
	}
}
