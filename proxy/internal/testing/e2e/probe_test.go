package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// measuredHost is an OpenAI-compatible host that reports how many requests wait.
type measuredHost struct {
	waiting atomic.Int64 // negative if the host does not report it
	probed  chan struct{}
}

func (h *measuredHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
		return
	}
	if n := h.waiting.Load(); n >= 0 {
		fmt.Fprintf(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} %d.0\n", n)
	} else {
		w.WriteHeader(500)
	}
	select {
	case h.probed <- struct{}{}:
	default:
	}
}

// TestRouterReadsMeasurements checks that requests go to the host on which the fewest requests wait, as the hosts report
// it, and to a host that does not report it only if there is no other.
//
// covers: C83
func TestRouterReadsMeasurements(t *testing.T) {
	var hosts [3]*measuredHost
	configuration, targets := proxytest.Keys, ""
	for i := range hosts {
		hosts[i] = &measuredHost{probed: make(chan struct{}, 1)}
		hosts[i].waiting.Store(int64(i))
		server := httptest.NewServer(hosts[i])
		t.Cleanup(server.Close)
		configuration += fmt.Sprintf(`
[providers.host-%d]
preset   = "vllm"
base_url = "%s/v1"
probe    = { every = "100ms", read = ["vllm:num_requests_waiting"] }
`, i, server.URL)
		targets += fmt.Sprintf("{ provider = \"host-%d\", model = \"m\" }, ", i)
	}
	g := proxytest.Start(t, configuration+`
[[models]]
id       = "m"
strategy = "least-measured"
strategy_options = { measurement = "vllm:num_requests_waiting" }
targets  = [`+targets+`]
`)
	// A value is stored before the next probe begins, and the first may have read the value before. Three failures in a row
	// take it away.
	await := func(probes int) {
		for _, h := range hosts {
			select {
			case <-h.probed:
			default:
			}
			for range probes {
				<-h.probed
			}
		}
	}
	for _, c := range []struct {
		waiting [3]int64
		probes  int
		want    string
	}{
		{[3]int64{5, 3, 4}, 3, "host-1"},
		{[3]int64{5, 3, 0}, 3, "host-2"},
		{[3]int64{1, 3, 2}, 3, "host-0"},
		{[3]int64{-1, 9, 10}, 6, "host-1"},
		{[3]int64{-1, -1, 10}, 6, "host-2"},
	} {
		for i, n := range c.waiting {
			hosts[i].waiting.Store(n)
		}
		await(c.probes)
		r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != c.want {
			t.Errorf("with %v waiting: status %d from %s, want 200 from %s", c.waiting, r.Status, r.Header.Get("X-Gateway-Provider"), c.want)
		}
	}
	if log := g.Log.String(); !strings.Contains(log, "measure provider") || !strings.Contains(log, "GET /metrics returned status 500") {
		t.Errorf("no warning of the failed probes in the log:\n%s", log)
	}
}
