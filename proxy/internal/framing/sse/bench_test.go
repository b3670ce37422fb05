package sse_test

import (
	"os"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
)

// BenchmarkRead reads a recorded stream as a whole, in pieces of the size of a small connection buffer, and in tiny
// pieces.
func BenchmarkRead(b *testing.B) {
	body, err := os.ReadFile("testdata/anthropic-plain.sse")
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		size int
	}{{"whole", len(body)}, {"1KiB", 1 << 10}, {"16B", 16}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var d sse.Decoder
			events := 0
			for b.Loop() {
				for p := body; len(p) > 0; {
					k := min(bb.size, len(p))
					d.Feed(p[:k])
					p = p[k:]
					for {
						_, ok, err := d.Next()
						if err != nil {
							b.Fatal(err)
						}
						if !ok {
							break
						}
						events++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}
