//go:build !race

package eventstream_test

import (
	"bytes"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
)

// TestReadingAllocatesLikeSDK checks that reading a body does not allocate more than decoding it with the AWS SDK
// alone, however it is split.
func TestReadingAllocatesLikeSDK(t *testing.T) {
	body := recordings(t)["converse-stream-text-nova"]
	var (
		reader  bytes.Reader
		frames  sdk.Decoder
		payload = make([]byte, 0, 2<<10)
	)
	floor := testing.AllocsPerRun(100, func() {
		for reader.Reset(body); reader.Len() > 0; {
			if _, err := frames.Decode(&reader, payload); err != nil {
				t.Fatal(err)
			}
		}
	})
	for name, size := range map[string]int{"whole": len(body), "pieces of 100": 100, "byte by byte": 1} {
		t.Run(name, func(t *testing.T) {
			var d eventstream.Decoder
			n := testing.AllocsPerRun(100, func() {
				for p := body; len(p) > 0; {
					k := min(size, len(p))
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
					}
				}
			})
			if n > floor {
				t.Errorf("%v allocations per body, want the SDK's %v", n, floor)
			}
		})
	}
}

// TestAnnouncedLengthIsNotAllocated checks that the length in the prelude does not cause an allocation before the bytes
// arrive.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	head := raw(1<<20, 0, nil, nil)[:12]
	var d eventstream.Decoder
	n := testing.AllocsPerRun(100, func() {
		d.Reset()
		d.Feed(head)
		if _, ok, err := d.Next(); ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
