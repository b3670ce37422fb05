package e2e_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// steppedProvider is a provider that sends the next event of a stream, with one token, each time its client asks for
// it. So a test knows exactly what was sent to a client that disconnects.
type steppedProvider struct {
	events int
	next   sync.Map // chan struct{} by stream name: each value sends an event
	begun  sync.Map // chan struct{} by stream name: closed when the provider has the request
	sent   atomic.Int64
	ended  atomic.Int64 // requests whose connection the gateway closed before their end
}

var streamName = regexp.MustCompile(`storm-\d+`)

func (p *steppedProvider) add(name string) (next, begun chan struct{}) {
	next, begun = make(chan struct{}, p.events+1), make(chan struct{})
	p.next.Store(name, next)
	p.begun.Store(name, begun)
	return next, begun
}

func (p *steppedProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	name := streamName.FindString(string(body))
	next, ok := p.next.Load(name)
	if err != nil || !ok {
		http.Error(w, "unknown stream", http.StatusBadRequest)
		return
	}
	begun, _ := p.begun.Load(name)
	close(begun.(chan struct{}))
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string) bool {
		select {
		case <-next.(chan struct{}):
		case <-r.Context().Done():
			p.ended.Add(1)
			return false
		}
		if _, err := io.WriteString(w, event); err != nil || http.NewResponseController(w).Flush() != nil {
			p.ended.Add(1)
			return false
		}
		return true
	}
	for range p.events {
		if !send(text("word")) {
			return
		}
		p.sent.Add(1)
	}
	send(finish + "data: [DONE]\n\n")
}

// TestManyClientDisconnects has a thousand clients, some of which disconnect at a random moment. It checks that the
// logged usage is what the provider has sent, except for the event in flight, that each request is logged once, and
// that everything is released.
//
// covers: F26
func TestManyClientDisconnects(t *testing.T) {
	if testing.Short() {
		t.Skip("disconnects many clients")
	}
	const concurrent = 100
	clients := scale(1000, 100)
	provider := &steppedProvider{events: 12}
	up := httptest.NewServer(provider)
	defer up.Close()
	g := proxytest.Start(t, strings.Replace(configuration(up.URL, ""), "heartbeat = \"40ms\"", "heartbeat = \"5s\"", 1))
	admin := g.Admin(t)
	var disconnected, received atomic.Int64
	slots := make(chan struct{}, concurrent)
	var all sync.WaitGroup
	for i := range clients {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprint("storm-", i)
			next, begun := provider.add(name)
			c := dial(t, g)
			defer c.Close()
			c.post(name, fmt.Sprintf(`{"model":"gpt","messages":[{"role":"user","content":%q}],"stream":%t}`, name, i%4 > 0))
			<-begun
			// Some disconnect before the first event, some between events, some after the last.
			n := rand.IntN(provider.events + 6)
			reset := rand.IntN(2) == 0
			if i%4 == 0 {
				// The client of a non-streaming response cannot follow its progress.
				for range min(n, provider.events+1) {
					next <- struct{}{}
				}
				if n <= provider.events {
					disconnected.Add(1)
					c.disconnect(reset)
					return
				}
				c.readUntil(`"finish_reason":"stop"}`)
				return
			}
			for range min(n, provider.events) {
				next <- struct{}{}
				c.readUntil(`"word"`)
				received.Add(1)
			}
			if n <= provider.events {
				disconnected.Add(1)
				c.disconnect(reset)
				return
			}
			next <- struct{}{}
			c.readUntil("data: [DONE]\n\n")
			c.disconnect(reset)
		})
	}
	all.Wait()
	tokens, lines, closed := int64(0), map[string]int{}, int64(0) // as logged
	for i := range clients {
		line := g.Log.Request(t, fmt.Sprint("storm-", i))
		n, _ := strconv.ParseInt(line["completion_tokens"], 10, 64)
		tokens += n
		if line["status"] == "499" {
			closed++
		} else if line["complete"] != "true" {
			t.Errorf("neither complete nor closed by the client: %v", line)
		}
	}
	for _, line := range g.Log.Lines() {
		if line["msg"] == "request" {
			lines[line["request"]]++
		}
	}
	for name, n := range lines {
		if n != 1 {
			t.Errorf("%s is logged %d times", name, n)
		}
	}
	awaitReleased(t, admin)
	sent := provider.sent.Load()
	t.Logf("%d disconnects; %d tokens sent, %d logged, %d received by streams", disconnected.Load(), sent, tokens, received.Load())
	if closed != disconnected.Load() {
		t.Errorf("%d disconnects were logged, want %d", closed, disconnected.Load())
	}
	// For each disconnect, one event may have been in flight.
	if off := sent - tokens; off < -disconnected.Load() || off > disconnected.Load() {
		t.Errorf("%d tokens were sent, and %d logged", sent, tokens)
	}
	m := proxytest.Scrape(t, admin)
	if n := m.Sum("sluice_tokens_total", "kind", "completion"); int64(n) != tokens {
		t.Errorf("the metrics count %v tokens, the log %d", n, tokens)
	}
	if n := m.Sum("sluice_requests_total", "code", "client_closed_request"); int64(n) != closed {
		t.Errorf("the metrics count %v disconnects, the log %d", n, closed)
	}
}
