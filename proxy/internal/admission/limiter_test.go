package admission

import (
	"log/slog"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

func newController(requests int, memory int64) *Controller {
	return New(&config.Server{MaxRequests: requests, MaxBodyMemory: memory}, telemetry.NewMetrics(), slog.New(slog.DiscardHandler))
}

// TestGrow fills the memory to the last byte: counting a body in steps must not reject another body that still fits.
func TestGrow(t *testing.T) {
	const memory = 3*growStep + 5
	c := newController(10, memory)
	var body, other int64
	for _, tt := range []struct {
		body  *int64
		n     int
		fits  bool
		total int64
	}{
		{&body, uncountedBody, true, 0},
		{&body, uncountedBody + 1, true, growStep},
		{&body, uncountedBody + growStep, true, growStep},
		{&body, uncountedBody + growStep + 1, true, 2 * growStep},
		{&other, uncountedBody + growStep + 5, true, memory}, // not a whole step
		{&other, uncountedBody + growStep + 6, false, memory},
		{&body, uncountedBody + 2*growStep + 1, false, memory},
	} {
		if e := c.Grow(tt.body, tt.n); (e == nil) != tt.fits || c.BodyMemory() != tt.total {
			t.Errorf("%d bytes: %v, %d counted, want %d", tt.n, e, c.BodyMemory(), tt.total)
		}
	}
	c.Shrink(&body)
	c.Shrink(&body)
	c.Shrink(&other)
	if n := c.BodyMemory(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestReleaseReturnsEverything checks that the release of a request returns its slot and the memory of its response,
// once.
func TestReleaseReturnsEverything(t *testing.T) {
	c := newController(1, 1<<30)
	for range 2 {
		var v, other Reservation
		if e := c.ReserveFor(&v, "key", false, nil); e != nil {
			t.Fatal(e)
		}
		if e := v.GrowResponse(10 * uncountedBody); e != nil || c.BodyMemory() == 0 {
			t.Fatalf("%v, %d bytes counted", e, c.BodyMemory())
		}
		if c.Reserve(&other) == nil {
			t.Fatal("a second request was admitted")
		}
		v.Release()
		v.Release()
		if c.Requests() != 0 || c.BodyMemory() != 0 {
			t.Errorf("%d requests and %d bytes are still counted", c.Requests(), c.BodyMemory())
		}
	}
}

// TestCopiesGiveWay checks that copies of requests are not admitted while clients use most of their capacity, nor
// beyond the limits of copies.
func TestCopiesGiveWay(t *testing.T) {
	const document = 2 * uncountedBody
	admit := func(c *Controller) bool {
		var v Reservation
		var body int64
		requests, memory := c.Copies.Requests(), c.Copies.BodyMemory()
		admitted := c.AdmitCopy(&v, &body, document)
		if !admitted && (c.Copies.Requests() != requests || c.Copies.BodyMemory() != memory || body != 0) {
			t.Error("a rejected copy is counted")
		}
		return admitted
	}
	c := newController(8, 1<<30)
	for range minCopies {
		if !admit(c) {
			t.Error("a copy was rejected below the limit")
		}
	}
	if admit(c) {
		t.Error("a copy was admitted above the limit")
	}
	if c.Requests() != 0 || c.BodyMemory() != 0 {
		t.Error("copies are counted as clients' requests")
	}

	c = newController(8, copyMemoryDivisor*uncountedBody)
	if !admit(c) || admit(c) {
		t.Error("copies do not get exactly their share of the memory")
	}

	c = newController(8, 1<<30)
	clients := make([]Reservation, 8)
	for i := range clients {
		if e := c.Reserve(&clients[i]); e != nil {
			t.Fatal(e)
		}
	}
	if e := c.Reserve(new(Reservation)); e == nil {
		t.Error("a request was admitted above the limit")
	}
	if admit(c) {
		t.Error("a copy was admitted while clients have no capacity left")
	}
	for i := range clients {
		clients[i].Release()
		clients[i].Release()
	}
	if c.Requests() != 0 || !admit(c) {
		t.Error("a copy was rejected after all clients had left")
	}

	var body int64
	if e := c.Grow(&body, 1<<30); e != nil {
		t.Fatal(e)
	}
	if admit(c) {
		t.Error("a copy was admitted while clients' bodies take the memory")
	}
}
