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

// listed is how many models the provider lists.
const listed = 5000

// lister is a provider that lists models: listed of them at first, and one more with each list.
type lister struct {
	calls, at, most atomic.Int64
	hold            chan struct{} // what each list but the first waits for; nil: nothing
	called          chan struct{} // gets one for each list that begins
}

func (l *lister) answer(e *loadtest.Exchange) error {
	n := l.calls.Add(1)
	l.most.Store(max(l.most.Load(), l.at.Add(1)))
	defer l.at.Add(-1)
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

// listing is a gateway whose provider lists models. A list is good for a second.
func listing(t *testing.T, l *lister) *binarytest.Gateway {
	t.Helper()
	l.called = make(chan struct{}, 1<<10)
	provider, err := loadtest.Listen(l.answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Close)
	return binarytest.Start(t, binarytest.Options{Config: gateway(provider.URL(), "") + "[providers.openai.list_models]\nevery = \"1s\"\n"})
}

// await waits for the beginning of another list.
func (l *lister) await(t *testing.T) {
	t.Helper()
	select {
	case <-l.called:
	case <-time.After(binarytest.EventTimeout):
		t.Fatalf("there is no list behind number %d", l.calls.Load())
	}
}

// models asks for the list of models, and how many there are.
func models(c *loadtest.Conn) (int, error) {
	status, body, err := c.Do(&loadtest.Request{Path: "/v1/models", Key: key})
	if err != nil || status != 200 {
		return 0, fmt.Errorf("status %d: %w", status, err)
	}
	return bytes.Count(body, []byte(`"id":"`)) - 1, nil // and the configured one
}

// askModels keeps asking for the list until stop is closed, and reports how many models it had each time.
func askModels(addr string, stop <-chan struct{}, l *loadtest.Latencies, each func(n int) error) error {
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
		n, err := models(c)
		if err != nil {
			return err
		}
		l.Add(time.Since(began))
		if err := each(n); err != nil {
			return err
		}
	}
}

// crowd runs askModels on some connections while during runs.
func crowd(t *testing.T, addr string, each func(n int) error, during func()) *loadtest.Latencies {
	t.Helper()
	const askers = 8
	l, stop, errs := &loadtest.Latencies{}, make(chan struct{}), make(chan error, askers)
	for range askers {
		go func() { errs <- askModels(addr, stop, l, each) }()
	}
	during()
	close(stop)
	for range askers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	return l
}

// TestLongModelListUnderLoad requests a list of 5,000 models all the time while it expires again and again: each
// response is complete, and the provider is asked by one request at a time.
//
// covers: F12
func TestLongModelListUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	l := &lister{}
	g := listing(t, l)
	before := usage(t, g.PID)
	times := crowd(t, g.Addr, func(n int) error {
		if n < listed {
			return fmt.Errorf("a list has %d models", n)
		}
		return nil
	}, func() {
		for range 4 {
			l.await(t)
		}
	})
	used := usage(t, g.PID).CPU - before.CPU
	say("a list of %d models: %d answers, %s, %s of the gateway's processor time each; the provider was asked %d times",
		listed, times.Count(), times, (used / time.Duration(times.Count())).Round(10*time.Microsecond), l.calls.Load())
	if n := l.most.Load(); n != 1 {
		t.Errorf("%d asked the provider at once", n)
	}
}

// TestExpiredModelListUnderLoad lets a list expire while its provider does not respond: every client gets the old one,
// and the provider is asked once. When it responds, the new list is served.
//
// covers: F13
func TestExpiredModelListUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("measures under load")
	}
	l := &lister{hold: make(chan struct{})}
	g := listing(t, l)
	var first atomic.Int64
	crowd(t, g.Addr, func(n int) error {
		first.CompareAndSwap(0, int64(n))
		return nil
	}, func() {
		l.await(t)
		l.await(t) // the list has expired
	})
	if first.Load() != listed {
		t.Fatalf("the first list has %d models", first.Load())
	}
	times := crowd(t, g.Addr, func(n int) error {
		if n != listed {
			return fmt.Errorf("a list has %d models, not the %d of the old one", n, listed)
		}
		return nil
	}, func() { <-time.After(*phase) })
	say("a list that has expired, and no new one: %d answers, %s", times.Count(), times)
	if n := l.calls.Load(); n != 2 {
		t.Errorf("the provider was asked %d times", n)
	}
	close(l.hold)
	c, err := loadtest.Dial(g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !binarytest.Await(func() bool { n, err := models(c); return err == nil && n > listed }) {
		t.Error("the new list does not come")
	}
}

// manyKeys is how many client keys a configuration has in the test of row 14.
const manyKeys = 100_000

// TestManyKeys starts a gateway with 100,000 client keys and compares the time of a request with that of one key.
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
	many.WriteString(gateway(provider.URL(), ""))
	for i := range manyKeys {
		fmt.Fprintf(&many, "[[keys]]\nname = \"k%d\"\nsecret = %q\n", i, secret(i))
	}
	one := gateway(provider.URL(), "")
	// The first start compiles the plugins, if nobody has done so.
	binarytest.Start(t, binarytest.Options{Config: one})
	for _, c := range []struct{ name, toml, key string }{
		{"one key", one, key}, {fmt.Sprintf("%d keys", manyKeys), many.String(), secret(manyKeys - 1)},
	} {
		r := ask(prompt, false)
		r.Key = c.key
		g := binarytest.Start(t, binarytest.Options{Config: c.toml})
		say("%s: serves after %s, whole answers %s", c.name, g.Ready.Round(time.Millisecond), run(t, g.Addr, 4, *phase, r, wholeAnswer))
		c, err := loadtest.Dial(g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		wrong := ask(prompt, false)
		wrong.Key = secret(manyKeys)
		if status, body, err := c.Do(wrong); err != nil || status != 401 {
			t.Errorf("a key that there is not: %d %s %v", status, body, err)
		}
		c.Close()
	}
}
