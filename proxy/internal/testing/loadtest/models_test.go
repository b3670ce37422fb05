package loadtest_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// listed is the number of models in the provider's first list.
const listed = 5000

// lister is a provider that lists models: listed in the first response, and one more in each further one.
type lister struct {
	calls       atomic.Int64
	inFlight    atomic.Int64
	maxInFlight atomic.Int64
	hold        chan struct{} // blocks all responses except for the first until it is closed; may be nil
	called      chan struct{} // receives a value for each request
}

func (l *lister) respond(e *loadtest.Exchange) error {
	n := l.calls.Add(1)
	l.maxInFlight.Store(max(l.maxInFlight.Load(), l.inFlight.Add(1)))
	defer l.inFlight.Add(-1)
	l.called <- struct{}{}
	if n > 1 && l.hold != nil {
		<-l.hold
	}
	var b strings.Builder
	b.WriteString(`{"object":"list","data":[`)
	for i := range listed - 1 + int(n) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"listed-%d","object":"model","created":1700000000,"owned_by":"somebody"}`, i)
	}
	b.WriteString("]}")
	_, err := fmt.Fprintf(e, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", b.Len(), b.String())
	return err
}

// startListingGateway starts a gateway whose provider is the lister. Lists expire after a second.
func startListingGateway(t *testing.T, l *lister) *binarytest.Gateway {
	t.Helper()
	l.called = make(chan struct{}, 1<<10)
	provider, err := loadtest.Listen(l.respond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	return binarytest.Start(t, binarytest.Options{Config: gatewayConfig(provider.URL(), "") + "[providers.openai.list_models]\nevery = \"1s\"\n"})
}

// await waits for the next request for a list.
func (l *lister) await(t *testing.T) {
	t.Helper()
	select {
	case <-l.called:
	case <-time.After(binarytest.EventTimeout):
		t.Fatalf("no request for a list after %d", l.calls.Load())
	}
}

// countModels requests the gateway's list of models, and returns the number of the provider's models in it.
func countModels(c *loadtest.Conn) (int, error) {
	status, body, err := c.Do(&loadtest.Request{Path: "/v1/models", Key: key})
	if err != nil || status != 200 {
		return 0, fmt.Errorf("status %d: %w", status, err)
	}
	return bytes.Count(body, []byte(`"id":"`)) - 1, nil // without the configured model
}

// requestModels requests the list repeatedly until stop is closed, and checks the number of models each time.
func requestModels(addr string, stop <-chan struct{}, l *loadtest.Latencies, check func(n int) error) error {
	c, err := loadtest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		began := time.Now()
		n, err := countModels(c)
		if err != nil {
			return err
		}
		l.Add(time.Since(began))
		if err := check(n); err != nil {
			return err
		}
	}
}

// whileListing runs f while requestModels runs on several connections.
func whileListing(t *testing.T, addr string, check func(n int) error, f func()) *loadtest.Latencies {
	t.Helper()
	const clients = 8
	l, stop, errs := &loadtest.Latencies{}, make(chan struct{}), make(chan error, clients)
	for range clients {
		go func() { errs <- requestModels(addr, stop, l, check) }()
	}
	f()
	close(stop)
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	return l
}

// TestLongModelListUnderLoad requests a list of 5,000 models repeatedly while it expires several times. Each response
// must be complete, and at most one request at a time may be sent to the provider.
//
// covers: F12
func TestLongModelListUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	l := &lister{}
	g := startListingGateway(t, l)
	before := usage(t, g.PID)
	times := whileListing(t, g.Addr, func(n int) error {
		if n < listed {
			return fmt.Errorf("got a list of %d models, want at least %d", n, listed)
		}
		return nil
	}, func() {
		for range 4 {
			l.await(t)
		}
	})
	used := usage(t, g.PID).CPU - before.CPU
	printf("a list of %d models: %d responses, %s, %s CPU time of the gateway each; %d requests to the provider",
		listed, times.Count(), times, (used / time.Duration(times.Count())).Round(10*time.Microsecond), l.calls.Load())
	if n := l.maxInFlight.Load(); n != 1 {
		t.Errorf("got %d concurrent requests to the provider, want 1", n)
	}
}

// TestExpiredModelListUnderLoad lets a list expire while its provider does not respond. Every client must get the old
// list, with only one request to the provider. When the provider responds, the new list must be served.
//
// covers: F13
func TestExpiredModelListUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	l := &lister{hold: make(chan struct{})}
	g := startListingGateway(t, l)
	var first atomic.Int64
	whileListing(t, g.Addr, func(n int) error {
		first.CompareAndSwap(0, int64(n))
		return nil
	}, func() {
		l.await(t)
		l.await(t) // the list has expired
	})
	if first.Load() != listed {
		t.Fatalf("the first list has %d models, want %d", first.Load(), listed)
	}
	times := whileListing(t, g.Addr, func(n int) error {
		if n != listed {
			return fmt.Errorf("got a list of %d models, want the old one of %d", n, listed)
		}
		return nil
	}, func() { <-time.After(*phase) })
	printf("an expired list without a new one: %d responses, %s", times.Count(), times)
	if n := l.calls.Load(); n != 2 {
		t.Errorf("got %d requests to the provider, want 2", n)
	}
	close(l.hold)
	c, err := loadtest.Dial(g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !binarytest.Await(func() bool { n, err := countModels(c); return err == nil && n > listed }) {
		t.Error("the new list was not served")
	}
}

// manyKeys is the number of client keys in TestManyKeys.
const manyKeys = 100_000

// TestManyKeys compares a gateway with 100,000 client keys with one that has a single key.
//
// covers: F14
func TestManyKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	provider, err := loadtest.Listen(loadtest.NewHolder().Respond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	secret := func(i int) string { return fmt.Sprintf("sk-one-of-many-%08d", i) }
	var many strings.Builder
	many.WriteString(gatewayConfig(provider.URL(), ""))
	for i := range manyKeys {
		fmt.Fprintf(&many, "[[keys]]\nname = \"k%d\"\nsecret = %q\nmodels = [\"*\"]\nexpires = 2099-01-01\nlimits = { requests_per_minute = 1000000000 }\n", i, secret(i))
	}
	one := gatewayConfig(provider.URL(), "")
	// The first start compiles the plugins unless they are in the cache.
	binarytest.Start(t, binarytest.Options{Config: one})
	for _, c := range []struct{ name, toml, key string }{
		{"one key", one, key}, {fmt.Sprintf("%d keys", manyKeys), many.String(), secret(manyKeys - 1)},
	} {
		r := chatRequest(prompt, false)
		r.Key = c.key
		g := binarytest.Start(t, binarytest.Options{Config: c.toml})
		printf("%s: ready after %s, non-streaming requests %s", c.name, g.Ready.Round(time.Millisecond), runLoad(t, g.Addr, 4, *phase, r, readResponse))
		c, err := loadtest.Dial(g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		wrong := chatRequest(prompt, false)
		wrong.Key = secret(manyKeys)
		if status, body, err := c.Do(wrong); err != nil || status != 401 {
			t.Errorf("unknown key: got %d %s %v, want 401", status, body, err)
		}
		c.Close()
	}
}
