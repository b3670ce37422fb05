package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestSmallKeyGetsItsShare has 79 workers of one key and one of another at a gateway that may serve far fewer requests
// at a time. The provider holds each request until the gateway is at its limit again, so it is at its limit throughout.
func TestSmallKeyGetsItsShare(t *testing.T) {
	if testing.Short() {
		t.Skip("keeps a gateway at its limit for seconds")
	}
	for _, limit := range []int{1, 8} {
		t.Run(fmt.Sprintf("max_requests = %d", limit), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var held []chan struct{}
			over := make(chan struct{})
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				proceed := make(chan struct{})
				mu.Lock()
				if held = append(held, proceed); len(held) == limit {
					close(held[0])
					held = held[1:]
				}
				mu.Unlock()
				select {
				case <-proceed:
				case <-over:
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)
			}))
			defer provider.Close()
			large := "sk-large-0123456789"
			toml := strings.Replace(configuration(provider.URL, ""), "[server]", fmt.Sprintf("[server]\nmax_requests = %d", limit), 1)
			g := proxytest.Start(t, toml+fmt.Sprintf("[[keys]]\nname = \"large\"\nsecret = %q\n", large))

			var workers sync.WaitGroup
			var served, rejected atomic.Int64
			for range 79 {
				workers.Go(func() {
					c, err := net.Dial("tcp", g.Addr)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					r := bufio.NewReader(c)
					for {
						select {
						case <-over:
							return
						default:
						}
						_, _ = io.WriteString(c, strings.Replace(postHead, proxytest.Key, large, 1)+sized(helloUpstream))
						resp, err := http.ReadResponse(r, nil)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						if resp.StatusCode == http.StatusOK {
							served.Add(1)
						} else {
							rejected.Add(1)
						}
					}
				})
			}
			const requests = 25
			failed, small := 0, dial(t, g)
			for i := range requests {
				small.post(fmt.Sprint("small-", i), helloUpstream)
				resp, err := http.ReadResponse(small.r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					failed++
				}
			}
			close(over)
			workers.Wait()
			if failed > 0 || rejected.Load() == 0 {
				t.Errorf("%d of %d requests of the small key failed, and %d of the large one, of which %d were served", failed, requests, rejected.Load(), served.Load())
			}
		})
	}
}
