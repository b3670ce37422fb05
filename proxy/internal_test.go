package proxy

import (
	"runtime"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// TestCloseWaitsForReplacedGenerations, as their plugins need the engine, which is closed last.
func TestCloseWaitsForReplacedGenerations(t *testing.T) {
	cfg, err := config.Parse("gateway.toml", []byte("[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\nmodels = [\"*\"]\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	old := s.acquire() // as a request does that is in flight
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	last := s.current.Load()
	go func() {
		<-last.closed
		for s.current.Load() != nil {
			runtime.Gosched()
		}
		old.release()
	}()
	s.Close()
	select {
	case <-old.closed:
	default:
		t.Error("closed while a generation was in use")
	}
}

// TestPanicInClosingGeneration is counted, and does not keep Close waiting.
func TestPanicInClosingGeneration(t *testing.T) {
	cfg, err := config.Parse("gateway.toml", []byte("[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\nmodels = [\"*\"]\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	old := s.current.Load()
	old.providers["broken"] = &provider{name: "broken", client: new(upstream.Client)} // nothing of it was made
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	<-old.closed
	if n := s.metrics.Totals().Panics; n != 1 {
		t.Errorf("%d panics", n)
	}
	s.Close()
}

// TestCheckIntervalWithoutProvider is about a request that waits for its router's plugin: no provider's heartbeat says how
// often its client is checked.
func TestCheckIntervalWithoutProvider(t *testing.T) {
	x := &completion{conn: new(downstream.Conn), stream: true}
	if d := x.checkInterval(); d != downstream.CheckInterval {
		t.Errorf("%s", d)
	}
}
