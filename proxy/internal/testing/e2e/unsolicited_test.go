package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestUnsolicitedResponses has six clients with keys of their own use a provider that sends more than its response in
// the same segment: the response once more, a 408, or garbage. No client receives another's text or an error.
//
// covers: F62 F63
func TestUnsolicitedResponses(t *testing.T) {
	const clients, requests = 6, 16
	answer := func(c *upstreamtest.Conn) error {
		var request struct {
			Stream   bool
			Messages []struct{ Content string }
		}
		if err := json.Unmarshal(c.Last().Body, &request); err != nil {
			return err
		}
		said := request.Messages[0].Content
		body := strings.Replace(shortChatResponse, "Hi", said, 1)
		own := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if request.Stream {
			events := text(said) + finish + "data: [DONE]\n\n"
			own = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(events), events)
		}
		more := []string{"", own, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "garbage"}[len(said)%4]
		return upstreamtest.Write(own + more)(c)
	}
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), answer)})
	toml := fmt.Sprintf(`
[providers.up]
plugin   = "openai"
base_url = %q
[[models]]
id      = "m"
targets = [{ provider = "up", model = "m" }]
`, provider.URL())
	for i := range clients {
		toml += fmt.Sprintf("[[keys]]\nname = \"k%d\"\nsecret = \"sk-client-%d-0123456789\"\nmodels = [\"*\"]\n", i, i)
	}
	g := proxytest.Start(t, toml)
	admin := g.Admin(t)
	var all sync.WaitGroup
	for k := range clients {
		all.Go(func() {
			for i := range requests {
				said := fmt.Sprintf("text %d of k%d%s", i, k, strings.Repeat("!", i/2))
				r := g.Do(t, "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":%q}]}`, i%2 == 0, said),
					fmt.Sprintf("Authorization: Bearer sk-client-%d-0123456789", k))
				if r.Status != http.StatusOK || r.Err != nil || strings.Count(r.Body, `"text `) != 1 || !strings.Contains(r.Body, `"`+said+`"`) {
					t.Errorf("%s: %d %v %s", said, r.Status, r.Err, r.Body)
				}
			}
		})
	}
	all.Wait()
	if got := len(provider.Requests()); got != clients*requests {
		t.Errorf("the provider received %d requests, want %d", got, clients*requests)
	}
	if got := proxytest.Scrape(t, admin).Sum("sluice_upstream_unsolicited_total", "provider", "up"); got == 0 || got > clients*requests {
		t.Errorf("sluice_upstream_unsolicited_total is %v", got)
	}
}
