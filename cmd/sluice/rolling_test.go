package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// balancer is a load balancer. It polls the readiness of gateways, sends requests to ready ones, and tries another
// gateway only if it cannot connect.
type balancer struct {
	transport *http.Transport
	next      atomic.Int64

	mu    sync.Mutex
	all   map[string]string // addresses for clients, by admin address
	ready []string
}

// pollInterval is the interval at which a balancer polls readiness.
const pollInterval = 20 * time.Millisecond

func (b *balancer) join(clients, admin string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[admin] = strings.TrimPrefix(clients, "http://")
}

func (b *balancer) leave(admin string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, admin)
}

// watch polls all gateways until stop is closed.
func (b *balancer) watch(stop <-chan struct{}) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		b.mu.Lock()
		all := maps.Clone(b.all)
		b.mu.Unlock()
		var ready []string
		for admin, clients := range all {
			resp, err := client.Get(admin + "/readyz")
			if err != nil {
				continue
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				ready = append(ready, clients)
			}
		}
		b.mu.Lock()
		b.ready = ready
		b.mu.Unlock()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// count returns the number of ready gateways.
func (b *balancer) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ready)
}

// RoundTrip sends a request to a ready gateway.
func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	ready := b.ready
	b.mu.Unlock()
	first := int(b.next.Add(1))
	err = errors.New("no gateway is ready")
	for i := range ready {
		out := req.Clone(req.Context())
		out.URL.Host = ready[(first+i)%len(ready)]
		out.Body = io.NopCloser(bytes.NewReader(body))
		var resp *http.Response
		if resp, err = b.transport.RoundTrip(out); err == nil {
			return resp, nil
		}
		if op, dialled := errors.AsType[*net.OpError](err); !dialled || op.Op != "dial" {
			return nil, err
		}
	}
	return nil, err
}

// TestRollingRestart replaces three gateways behind a load balancer, one after the other, while clients keep sending
// requests. No request fails.
//
// covers: F89
func TestRollingRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts three gateways under load")
	}
	path := writeConfig(t, demoConfig("drain_delay = \"1s\"", testKey))
	type gateway struct {
		*process
		admin string
	}
	b := &balancer{transport: &http.Transport{MaxIdleConnsPerHost: 16}, all: map[string]string{}}
	defer b.transport.CloseIdleConnections()
	open := func() gateway {
		p := start(t, t.TempDir(), nil, "serve", "--quiet", "--config", path)
		clients, admin := p.addresses()
		b.join(clients, admin)
		return gateway{p, admin}
	}
	gateways := []gateway{open(), open(), open()}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { b.watch(stop) })
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme = "http" },
		Transport: b,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	})
	defer front.Close()
	eventually(t, "all gateways are ready", func() bool { return b.count() == 3 })
	client := newClient(t)
	var responses, failures atomic.Int64
	for range 8 {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, body, err := complete(t, client, front.URL, testKey, hello); status != 200 || !strings.Contains(body, `"finish_reason":"stop"`) {
					failures.Add(1)
					t.Errorf("%d %v %s", status, err, body)
				} else {
					responses.Add(1)
				}
			}
		})
	}
	for i, old := range gateways {
		gateways[i] = open()
		eventually(t, "the new gateway is ready", func() bool { return b.count() == 4 })
		seen := responses.Load()
		old.signal(syscall.SIGTERM)
		if exit := old.wait(); exit != 0 {
			t.Errorf("exit %d", exit)
		}
		b.leave(old.admin)
		eventually(t, "100 more requests are served", func() bool { return responses.Load() > seen+100 })
	}
	close(stop)
	running.Wait()
	t.Logf("%d responses, %d failures", responses.Load(), failures.Load())
	for _, g := range gateways {
		g.signal(syscall.SIGTERM)
		if exit := g.wait(); exit != 0 {
			t.Errorf("exit %d", exit)
		}
	}
}
