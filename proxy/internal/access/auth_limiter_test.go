package access_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// covers: F135
func TestInvalidKeysAreLimited(t *testing.T) {
	g := new(access.AuthLimiter)
	from := netip.MustParseAddr("192.0.2.7")
	at := now
	for i := range 20 {
		if n, e := g.RecordInvalidKey(from, 20, at); n != 0 || e != nil {
			t.Fatalf("invalid key %d: got %d, %v, want no limit yet", i, n, e)
		}
	}
	for i := range int64(1000) {
		n, e := g.RecordInvalidKey(from, 20, at)
		if n != i+1 || e == nil || e.Status != 429 || e.Kind != apierror.KindRateLimit || e.Code != "too_many_wrong_keys" || e.RetryAfter != 3*time.Second || !e.NoRetry {
			t.Fatalf("invalid key %d beyond the limit: got %d, %v", i, n, e)
		}
	}
	if _, e := g.RecordInvalidKey(netip.MustParseAddr("192.0.2.8"), 20, at); e != nil {
		t.Errorf("another address is limited: %v", e)
	}
	// After 3 seconds one more is permitted, and the count continues. Once the bucket is empty, everything starts over.
	if n, e := g.RecordInvalidKey(from, 20, at.Add(3*time.Second)); n != 0 || e != nil {
		t.Errorf("after 3 s: got %d, %v", n, e)
	}
	if n, e := g.RecordInvalidKey(from, 20, at.Add(3*time.Second)); n != 1001 || e == nil {
		t.Errorf("second one after 3 s: got %d, %v", n, e)
	}
	at = at.Add(2 * time.Minute)
	for range 20 {
		if _, e := g.RecordInvalidKey(from, 20, at); e != nil {
			t.Fatal(e)
		}
	}
	if n, _ := g.RecordInvalidKey(from, 20, at); n != 1 {
		t.Errorf("after 2 minutes: got %d, want 1", n)
	}
}

// TestAddressGrouping checks that all addresses of one client's network count as one.
//
// covers: F135
func TestAddressGrouping(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.7", "192.0.2.7", true},
		{"192.0.2.7", "::ffff:192.0.2.7", true},
		{"192.0.2.7", "192.0.2.6", false},
		{"2001:db8::1", "2001:db8::ffff:2", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"::", "0.0.0.0", false},
		{"", "", true},
		{"", "192.0.2.7", false},
	} {
		g := new(access.AuthLimiter)
		parsed := func(s string) netip.Addr { a, _ := netip.ParseAddr(s); return a }
		if _, e := g.RecordInvalidKey(parsed(c.a), 1, now); e != nil {
			t.Fatal(e)
		}
		if _, e := g.RecordInvalidKey(parsed(c.b), 1, now); (e != nil) != c.same {
			t.Errorf("%s and %s: got %v, want the same network: %t", c.a, c.b, e, c.same)
		}
	}
}

// TestLimiterMemoryIsBounded checks that the least recently used address is evicted.
//
// covers: F135
func TestLimiterMemoryIsBounded(t *testing.T) {
	g := new(access.AuthLimiter)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	const n = 100_000
	for i := range n {
		if _, e := g.RecordInvalidKey(address(i), 1, now); e != nil {
			t.Fatal(e)
		}
	}
	if _, e := g.RecordInvalidKey(address(n-1), 1, now); e == nil {
		t.Error("the latest address has been evicted")
	}
	if _, e := g.RecordInvalidKey(address(0), 1, now); e != nil {
		t.Error("the oldest address has not been evicted")
	}
	if got := g.Networks(); got > 1<<14 {
		t.Errorf("%d networks are remembered", got)
	}
}

func BenchmarkInvalidKey(b *testing.B) {
	for _, addresses := range []int{1, 100_000} {
		b.Run(fmt.Sprint(addresses), func(b *testing.B) {
			g := new(access.AuthLimiter)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				n := i % addresses
				g.RecordInvalidKey(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 20, now)
			}
		})
	}
}
