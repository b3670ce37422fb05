package proxy

import (
	"crypto/sha256"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/delivery"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// TestCloseWaitsForReplacedGenerations: replaced generations need the plugin engine, which is closed last.
func TestCloseWaitsForReplacedGenerations(t *testing.T) {
	cfg, err := config.Parse("gateway.toml", []byte("[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\nmodels = [\"*\"]\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	old := s.acquire() // as a request in flight does
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	last := s.current.Load()
	go func() {
		<-last.closed
		for s.current.Load() != nil {
			runtime.Gosched()
		}
		old.Release()
	}()
	s.Close()
	select {
	case <-old.closed:
	default:
		t.Error("closed while a generation was in use")
	}
}

// TestPanicInClosingGeneration: the panic is counted, and does not block Close.
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
	old.providers["broken"] = &exchange.Provider{Name: "broken", Client: new(upstream.Client)} // not initialised, so that Close panics
	if err := s.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	<-old.closed
	if n := s.metrics.Totals().Panics; n != 1 {
		t.Errorf("got %d panics, want 1", n)
	}
	s.Close()
}

// slowBundle has plugins whose modules cannot be read until release is closed.
type slowBundle struct {
	fs.FS
	began, release chan struct{}
}

func (b *slowBundle) Digest(file string) ([sha256.Size]byte, error) {
	return sha256.Sum256([]byte(file)), nil
}

func (b *slowBundle) ReadFile(file string) ([]byte, error) {
	b.began <- struct{}{}
	<-b.release
	return []byte("no module"), nil
}

// TestReloadDoesNotWaitForEarlierReload: a revoked key must be rejected even while an earlier reload is still
// compiling.
func TestReloadDoesNotWaitForEarlierReload(t *testing.T) {
	const key = "[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\nmodels = [\"*\"]\n"
	parse := func(text string) *config.Config {
		cfg, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"slow", "slower"}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	bundle := &slowBundle{began: make(chan struct{}, 10), release: make(chan struct{})}
	defer close(bundle.release)
	s, err := New(t.Context(), Options{Config: parse(key), Bundled: bundle})
	if err != nil {
		t.Fatal(err)
	}
	reload := func(plugin string) (ended chan error) {
		ended = make(chan error, 1)
		cfg := parse(key + "[providers.slow]\nplugin = \"" + plugin + "\"\nbase_url = \"https://example.com\"\npaths = [\"/v1\"]\n")
		go func() { ended <- s.Reload(t.Context(), cfg) }()
		<-bundle.began
		return ended
	}
	first := reload("slow")
	revoked := parse(strings.ReplaceAll(key, "0123456789abcdef", "another-key-1234"))
	if err := s.Reload(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != ErrSuperseded {
		t.Errorf("the earlier reload returned %v, want ErrSuperseded", err)
	}
	if s.current.Load().config != revoked {
		t.Error("the later configuration is not served")
	}
	if r := s.health.lastReload(); r.failed != 0 || r.succeeded != 1 {
		t.Errorf("got %d failed and %d successful reloads, want 0 and 1", r.failed, r.succeeded)
	}
	// Close does not wait either.
	last := reload("slower")
	s.Close()
	if err := <-last; err == nil {
		t.Error("a reload succeeded in a gateway that was closed")
	}
}

// TestCheckIntervalWithoutProvider: while a request waits for its router's plugin, there is no provider whose heartbeat
// sets the check interval.
func TestCheckIntervalWithoutProvider(t *testing.T) {
	x := &completion{Delivery: delivery.Delivery{Conn: new(downstream.Conn)}, Attempt: new(exchange.Attempt), Exchange: exchange.Exchange{Stream: true}}
	if d := x.Interval(x.heartbeat()); d != downstream.CheckInterval {
		t.Errorf("got an interval of %s, want %s", d, downstream.CheckInterval)
	}
}
