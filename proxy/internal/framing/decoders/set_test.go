package decoders_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestOpenResetsDecoders(t *testing.T) {
	var s decoders.Set
	for _, c := range []struct {
		framing       abi.Framing
		partial, body string
	}{
		{abi.FramingSSE, "data: lost", "data: a\n\n"},
		{abi.FramingNDJSON, `{"lost"`, "a\n"},
		{abi.FramingSSE, "event: lost\n", "data: a\n\n"},
		{abi.FramingAWSEventStream, "\x00\x00", ""},
	} {
		d := s.Open(c.framing, 0)
		d.Feed([]byte(c.partial))
		if _, ok, err := d.Next(); ok || err != nil {
			t.Fatalf("framing %d: partial event: Next = %v, %v", c.framing, ok, err)
		}
		d = s.Open(c.framing, 0)
		d.Feed([]byte(c.body))
		ev, ok, err := d.Next()
		if want := c.body != ""; ok != want || err != nil || want && (string(ev.Data) != "a" || len(ev.Name) > 0) {
			t.Errorf("framing %d: event %q %q, %v, %v", c.framing, ev.Name, ev.Data, ok, err)
		}
		if _, ok, err := d.End(); ok || err != nil {
			t.Errorf("framing %d: End = %v, %v", c.framing, ok, err)
		}
	}
	if s.Open(abi.FramingJSON, 0) != nil {
		t.Error("Open returned a decoder for JSON")
	}
}

func TestOpenDoesNotAllocate(t *testing.T) {
	var s decoders.Set
	if n := testing.AllocsPerRun(100, func() { s.Open(abi.FramingNDJSON, 0).Reset() }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
