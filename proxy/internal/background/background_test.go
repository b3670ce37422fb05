package background_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/background"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const ended = "ended"

// provider has one response, which is read at known times.
type provider struct {
	mu    sync.Mutex
	start time.Time
	reads []time.Duration // since the start
	body  string
	err   error
	how   []string // how the response was settled
}

func (p *provider) response() background.Response {
	p.start = time.Now()
	return background.Response{
		Read: func(context.Context) ([]byte, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.reads = append(p.reads, time.Since(p.start))
			return []byte(p.body), p.err
		},
		Settle: func(body []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			how := "unknown"
			if body != nil {
				how = string(body)
			}
			p.how = append(p.how, how)
		},
	}
}

func (p *provider) set(body string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body, p.err = body, err
}

// want checks how the response was settled.
func (p *provider) want(t *testing.T, how ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.how, how) {
		t.Errorf("settled %q, want %q", p.how, how)
	}
}

func newSet(t *testing.T) *background.Set {
	return background.New(background.Options{
		Poll: 5 * time.Second, Expiry: time.Hour,
		Ended:    func(body []byte) bool { return string(body) == ended },
		Panicked: func(p *rescue.Error) { t.Errorf("panic: %v", p) },
	})
}

// TestPoll has a response end after a while, during which a read fails.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSet(t), &provider{body: "running"}
		defer s.Close()
		s.Add("one", "resp", p.response())
		time.Sleep(100 * time.Second)
		p.want(t)
		p.set("", errors.New("busy"))
		time.Sleep(60 * time.Second)
		p.set(ended, nil)
		p.want(t)
		time.Sleep(60 * time.Second)
		p.want(t, ended)
		want := []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 135 * time.Second, 195 * time.Second}
		if !slices.Equal(p.reads, want) {
			t.Errorf("read after %v, want %v", p.reads, want)
		}
	})
}

// TestSettle settles a response once, in each way.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		act  func(s *background.Set, p *provider)
		want []string
	}{
		"read by its client":      {func(s *background.Set, _ *provider) { s.Observe("one", "resp", []byte(ended)) }, []string{ended}},
		"read while it runs":      {func(s *background.Set, _ *provider) { s.Observe("one", "resp", []byte("running")) }, nil},
		"another client":          {func(s *background.Set, _ *provider) { s.Observe("two", "resp", []byte(ended)) }, nil},
		"another response":        {func(s *background.Set, _ *provider) { s.Observe("one", "other", []byte(ended)) }, nil},
		"deleted":                 {func(s *background.Set, _ *provider) { s.Forget("one", "resp") }, []string{"unknown"}},
		"refreshed while it runs": {func(s *background.Set, _ *provider) { s.Refresh(context.Background(), "one", "resp") }, nil},
		"gone":                    {func(s *background.Set, p *provider) { p.set("", background.ErrGone); time.Sleep(5 * time.Second) }, []string{"unknown"}},
		"expired":                 {func(*background.Set, *provider) { time.Sleep(time.Hour) }, []string{"unknown"}},
		"not yet expired":         {func(*background.Set, *provider) { time.Sleep(time.Hour - time.Second) }, nil},
		"refreshed": {func(s *background.Set, p *provider) {
			p.set(ended, nil)
			s.Refresh(context.Background(), "one", "resp")
		}, []string{ended}},
		"read, and later deleted":      {func(s *background.Set, _ *provider) { s.Observe("one", "resp", []byte(ended)); s.Forget("one", "resp") }, []string{ended}},
		"the gateway stops":            {func(s *background.Set, _ *provider) { s.Close() }, []string{"unknown"}},
		"read after the gateway stops": {func(s *background.Set, _ *provider) { s.Close(); s.Observe("one", "resp", []byte(ended)) }, []string{"unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newSet(t), &provider{body: "running"}
				s.Add("one", "resp", p.response())
				c.act(s, p)
				p.want(t, c.want...)
				s.Close()
				if len(c.want) == 0 {
					c.want = []string{"unknown"}
				}
				p.want(t, c.want...)
			})
		})
	}
}

// TestAddAfterClose settles a response of a request that ends while the gateway stops.
func TestAddAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSet(t), &provider{}
		s.Close()
		s.Add("one", "resp", p.response())
		p.want(t, "unknown")
		if !s.Closed() || s.Full() {
			t.Errorf("closed %v, full %v", s.Closed(), s.Full())
		}
	})
}

// TestPanic has the provider's reader panic: the response is settled, and the panic reported.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := 0
		s := background.New(background.Options{Poll: time.Second, Expiry: time.Hour, Panicked: func(*rescue.Error) { panics++ }})
		p := &provider{}
		r := p.response()
		r.Read = func(context.Context) ([]byte, error) { panic("read") }
		s.Add("one", "resp", r)
		time.Sleep(time.Second)
		p.want(t, "unknown")
		s.Close()
		if panics != 1 {
			t.Errorf("%d panics, want 1", panics)
		}
	})
}

// TestFull fills a Set, and empties it.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSet(t), &provider{body: "running"}
		defer s.Close()
		r := p.response()
		for n := range background.MaxResponses {
			if s.Full() {
				t.Fatalf("full with %d responses", n)
			}
			s.Add("one", fmt.Sprint(n), r)
		}
		if !s.Full() {
			t.Error("not full")
		}
		s.Forget("one", "0")
		if s.Full() {
			t.Error("still full")
		}
	})
}

// TestConcurrentSettlement reads one response in several places at once.
func TestConcurrentSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSet(t), &provider{body: ended}
		defer s.Close()
		s.Add("one", "resp", p.response())
		var all sync.WaitGroup
		for n := range 30 {
			all.Go(func() {
				switch n % 3 {
				case 0:
					s.Observe("one", "resp", []byte(ended))
				case 1:
					s.Refresh(context.Background(), "one", "resp")
				default:
					time.Sleep(5 * time.Second)
				}
			})
		}
		all.Wait()
		p.want(t, ended)
	})
}
