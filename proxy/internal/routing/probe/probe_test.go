package probe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/probe"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a provider that answers probes.
type host struct {
	answer  atomic.Pointer[func(w http.ResponseWriter, r *http.Request)]
	probes  chan struct{} // receives one element for each probe that begins
	probing atomic.Int32
	busiest atomic.Int32 // most probes at a time
}

func (h *host) set(answer func(w http.ResponseWriter, r *http.Request)) { h.answer.Store(&answer) }

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.busiest.Store(max(h.busiest.Load(), h.probing.Add(1)))
	defer h.probing.Add(-1)
	select {
	case h.probes <- struct{}{}:
	default:
	}
	(*h.answer.Load())(w, r)
}

// await waits until a probe that begins from now on has ended: the second one begins after that.
func (h *host) await() {
	for range cap(h.probes) {
		select {
		case <-h.probes:
		default:
		}
	}
	<-h.probes
	<-h.probes
}

func text(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

// TestProber checks what a prober requests, what it stores, and what it reports.
func TestProber(t *testing.T) {
	h := &host{probes: make(chan struct{}, 1)}
	var path, credential atomic.Value
	h.set(func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.Method + " " + r.URL.Path)
		credential.Store(r.Header.Get("Authorization"))
		fmt.Fprint(w, "waiting 3\n")
	})
	server := httptest.NewServer(h)
	defer server.Close()
	client, err := upstream.New(upstream.Config{Name: "p", BaseURL: server.URL + "/v1", AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	failures := make(chan error, 16)
	p := probe.New(probe.Config{Path: "/metrics", Every: 20 * time.Millisecond, Read: []string{"waiting"}, Client: client, Failed: func(err error) { failures <- err }})
	if got := p.Values().Load(time.Now()); got != nil {
		t.Errorf("before the start: %v", got)
	}
	p.Start()
	defer p.Close()
	h.await()
	if got := fmt.Sprint(p.Values().Load(time.Now())); got != "[{waiting 3}]" || path.Load() != "GET /metrics" || credential.Load() != "" {
		t.Errorf("got %s from %s", got, path.Load())
	}
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		{"a status", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "waiting 9", http.StatusServiceUnavailable)
		}, "GET /metrics returned status 503"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "status 302"},
		{"without the metric", text("running 1\n"), "GET /metrics has no value of waiting"},
		{"a body without end", func(w http.ResponseWriter, _ *http.Request) {
			for range 5 << 10 {
				fmt.Fprint(w, strings.Repeat("#", 1<<10))
			}
		}, "too large"},
		{"a closed connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "GET " + server.URL + "/metrics"},
	} {
		h.set(c.answer)
		if err := <-failures; err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		h.set(text("waiting 4\n"))
		if err := <-failures; err != nil {
			t.Errorf("after %s: %v", c.name, err)
		}
	}
	now := time.Now()
	if p.Values().Load(now) == nil || p.Values().Load(now.Add(time.Second)) != nil {
		t.Error("values do not expire after three intervals")
	}
	next := probe.New(probe.Config{Read: []string{"waiting"}})
	next.Inherit(p)
	if got := fmt.Sprint(next.Values().Load(now)); got != "[{waiting 4}]" {
		t.Errorf("inherited %s", got)
	}
	next.Close()
}

// TestOneProbeAtATime checks that a host that takes several intervals to answer is not asked again meanwhile.
func TestOneProbeAtATime(t *testing.T) {
	const every = 5 * time.Millisecond
	h := &host{probes: make(chan struct{}, 1)}
	h.set(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(10 * every)
		fmt.Fprint(w, "waiting 3\n")
	})
	server := httptest.NewServer(h)
	defer server.Close()
	client, err := upstream.New(upstream.Config{Name: "p", BaseURL: server.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := probe.New(probe.Config{Path: "/metrics", Every: every, Read: []string{"waiting"}, Client: client, Failed: func(err error) { t.Error(err) }})
	p.Start()
	defer p.Close()
	h.await()
	if h.busiest.Load() != 1 {
		t.Errorf("%d probes at a time", h.busiest.Load())
	}
}

// TestClose checks that closing a prober ends a probe in flight.
func TestClose(t *testing.T) {
	began, done := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(done)
	}))
	defer server.Close()
	client, err := upstream.New(upstream.Config{Name: "p", BaseURL: server.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := probe.New(probe.Config{Path: "/metrics", Every: time.Minute, Read: []string{"waiting"}, Client: client, Failed: func(err error) { t.Error(err) }})
	p.Start()
	<-began
	p.Close()
	<-done
}
