package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestStrategiesOnEqualTargets has 16 clients use two equal targets, each of which serves 8 requests at a time. Neither
// least-busy nor least-latency takes longer than weighted, by more than a tenth.
func TestStrategiesOnEqualTargets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const clients, each = 16, 12
	provider := func() *httptest.Server {
		places := make(chan struct{}, clients/2)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			places <- struct{}{}
			defer func() { <-places }()
			time.Sleep(60 * time.Millisecond)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)
		}))
		t.Cleanup(s.Close)
		return s
	}
	a, b := provider(), provider()
	took := make(map[string]time.Duration)
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
		began := time.Now()
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
		took[strategy] = time.Since(began)
		if err := g.Stop(proxytest.EventTimeout); err != nil {
			t.Error(err)
		}
	}
	t.Log(took)
	for _, strategy := range []string{"least-busy", "least-latency"} {
		if most := took["weighted"] * 11 / 10; took[strategy] > most {
			t.Errorf("%s took %v, and weighted %v", strategy, took[strategy], took["weighted"])
		}
	}
}
