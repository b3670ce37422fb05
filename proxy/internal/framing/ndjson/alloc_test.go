//go:build !race

package ndjson_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
)

func TestReadingDoesNotAllocate(t *testing.T) {
	body := []byte(`{"message":{"role":"assistant","content":"hello"},"done":false}` + "\n\r\n" + `{"done":true}` + "\r\n")
	for _, tt := range []struct {
		name string
		size int
	}{{"whole", len(body)}, {"cut in the middle", len(body) / 2}, {"pieces of 7", 7}, {"byte by byte", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			var d ndjson.Decoder
			events := 0
			n := testing.AllocsPerRun(100, func() {
				for p := body; len(p) > 0; {
					k := min(tt.size, len(p))
					d.Feed(p[:k])
					p = p[k:]
					for {
						_, ok, err := d.Next()
						if err != nil {
							t.Fatal(err)
						}
						if !ok {
							break
						}
						events++
					}
				}
			})
			if n != 0 || events != 2*101 {
				t.Errorf("%v allocations per body, want 0; %d events, want %d", n, events, 2*101)
			}
		})
	}
}
