package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestStrategiesOnEqualTargets has 16 clients use two equal targets, each of which serves 8 requests at a time. With
// least-busy and least-latency, no more requests have to wait at a target while the other one has places than with
// weighted, apart from a few at the start.
func TestStrategiesOnEqualTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const clients, each, few = 16, 12, 24
	var waited atomic.Int64
	provider := func() *httptest.Server {
		places := make(chan struct{}, clients/2)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			select {
			case places <- struct{}{}:
			default:
				waited.Add(1)
				places <- struct{}{}
			}
			defer func() { <-places }()
			time.Sleep(60 * time.Millisecond)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)
		}))
		t.Cleanup(s.Close)
		return s
	}
	a, b := provider(), provider()
	waits := make(map[string]int64)
	for _, strategy := range []string{"weighted", "least-busy", "least-latency"} {
		g := proxytest.Start(t, fmt.Sprintf(`
[providers.a]
plugin = "openai"
base_url = %q
[providers.b]
plugin = "openai"
base_url = %q
[[models]]
id = "m"
strategy = %q
affinity = "none"
targets = [{ provider = "a" }, { provider = "b" }]
`, a.URL, b.URL, strategy))
		g.Chat(t, budgetRequest(0, false)) // connections and instances exist
		waited.Store(0)
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range each {
					if r := g.Chat(t, budgetRequest(0, false)); r.Status != 200 {
						t.Errorf("%s: %d %s", strategy, r.Status, r.Body)
					}
				}
			})
		}
		all.Wait()
		waits[strategy] = waited.Load()
		if err := g.Stop(proxytest.EventTimeout); err != nil {
			t.Error(err)
		}
	}
	t.Log(waits)
	for _, strategy := range []string{"least-busy", "least-latency"} {
		if waits[strategy] > waits["weighted"]+few {
			t.Errorf("with %s, %d of %d requests waited, and with weighted %d", strategy, waits[strategy], clients*each, waits["weighted"])
		}
	}
}
