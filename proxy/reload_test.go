package proxy_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/upstream/upstreamtest"
)

func TestF80_F134_ReloadChangesWhatNewRequestsGet(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	first := configuration(provider.URL(), "")
	g := proxytest.Start(t, first)
	c := dial(t, g)
	c.post("old", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)

	// The next configuration has neither the model nor the key of the stream that goes on.
	next := strings.NewReplacer(`id           = "gpt"`, `id           = "gpt-renamed"`, proxytest.Key, "sk-next-0123456789").Replace(first)
	if err := g.Reload(t, next); err != nil {
		t.Fatal(err)
	}
	if r := g.Chat(t, ask); r.Status != 401 {
		t.Errorf("the old key gets %d %s", r.Status, r.Body)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-next-0123456789"); !strings.Contains(r.Body, "gpt-renamed") {
		t.Errorf("the new key sees %s", r.Body)
	}
	close(proceed)
	if rest := c.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %q", rest)
	}
}

func TestF81_BrokenConfigurationLeavesTheOldOne(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	err := g.Reload(t, strings.Replace(configuration("", ""), `strategy = "priority"`, `strategy = "by whim"`, 1))
	var build *proxy.BuildError
	if !errors.As(err, &build) || !strings.Contains(err.Error(), "router") {
		t.Errorf("the reload ended with %v", err)
	}
	if r := g.Chat(t, hello); r.Status != 200 {
		t.Errorf("after it: %d %s", r.Status, r.Body)
	}
}

// TestF83_ReloadsUnderLoad reloads again and again while streams run: none is dropped, and what the generations
// held is gone in the end, of which goleak in TestMain tells the rest.
func TestF83_ReloadsUnderLoad(t *testing.T) {
	config := configuration("", "")
	g := proxytest.Start(t, config)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	streams := 0
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := g.Chat(t, strings.Replace(hello, "}]}", `}],"stream":true}`, 1))
				if r.Status != 200 || r.Err != nil || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
					t.Errorf("%d %v %s", r.Status, r.Err, r.Body)
					return
				}
				mu.Lock()
				streams++
				mu.Unlock()
			}
		})
	}
	for i := range 15 {
		if err := g.Reload(t, config+fmt.Sprintf("\n[[keys]]\nname = \"k%d\"\nsecret = \"sk-reload-%d-0123456789\"\nmodels = [\"*\"]\n", i, i)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	clients.Wait()
	if streams == 0 {
		t.Error("no stream ran")
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-reload-14-0123456789"); r.Status != 200 {
		t.Errorf("the last configuration is not served: %d", r.Status)
	}
}
