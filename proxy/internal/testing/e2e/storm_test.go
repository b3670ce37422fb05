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

// tide is a provider whose streams go on by one event, of one token, each time that their client asks for it. So it is
// known to the event what a client that leaves has been sent.
type tide struct {
	events int
	next   sync.Map // by the stream's name: chan struct{}
	begun  sync.Map // the same: closed when the provider has the request
	sent   atomic.Int64
	ended  atomic.Int64 // requests whose connection the gateway closed before their end
}

var tideName = regexp.MustCompile(`storm-\d+`)

func (p *tide) add(name string) (next, begun chan struct{}) {
	next, begun = make(chan struct{}, p.events+1), make(chan struct{})
	p.next.Store(name, next)
	p.begun.Store(name, begun)
	return next, begun
}

func (p *tide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	name := tideName.FindString(string(body))
	next, ok := p.next.Load(name)
	if err != nil || !ok {
		http.Error(w, "nobody's", http.StatusBadRequest)
		return
	}
	begun, _ := p.begun.Load(name)
	close(begun.(chan struct{}))
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(event string) bool {
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
		if !say(text("word")) {
			return
		}
		p.sent.Add(1)
	}
	say(finish + "data: [DONE]\n\n")
}

// TestManyClientDisconnects has a thousand clients disconnect at any moment, or stay: the recorded usage is what the
// provider has sent, except for the event in flight, each request is recorded once, and everything is released.
//
// covers: F26
func TestManyClientDisconnects(t *testing.T) {
	if testing.Short() {
		t.Skip("disconnects many clients")
	}
	const atOnce = 100
	clients := scale(1000, 100)
	provider := &tide{events: 12}
	up := httptest.NewServer(provider)
	defer up.Close()
	g := proxytest.Start(t, strings.Replace(configuration(up.URL, ""), "heartbeat = \"40ms\"", "heartbeat = \"5s\"", 1))
	admin := g.Admin(t)
	var departed, received atomic.Int64
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range clients {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			name := fmt.Sprint("storm-", i)
			next, begun := provider.add(name)
			c := dial(t, g)
			defer c.Close()
			c.post(name, fmt.Sprintf(`{"model":"gpt","messages":[{"role":"user","content":%q}],"stream":%t}`, name, i%4 > 0))
			<-begun
			// Some leave while the provider says nothing, some amid its events, some behind the last one.
			n := rand.IntN(provider.events + 6)
			reset := rand.IntN(2) == 0
			if i%4 == 0 {
				// A whole answer: nobody sees how far it is.
				for range min(n, provider.events+1) {
					next <- struct{}{}
				}
				if n <= provider.events {
					departed.Add(1)
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
				departed.Add(1)
				c.disconnect(reset)
				return
			}
			next <- struct{}{}
			c.readUntil("data: [DONE]\n\n")
			c.disconnect(reset)
		})
	}
	all.Wait()
	accounted, lines, gone := int64(0), map[string]int{}, int64(0)
	for i := range clients {
		line := g.Log.Request(t, fmt.Sprint("storm-", i))
		n, _ := strconv.ParseInt(line["completion_tokens"], 10, 64)
		accounted += n
		if line["status"] == "499" {
			gone++
		} else if line["complete"] != "true" {
			t.Errorf("neither complete nor left: %v", line)
		}
	}
	for _, line := range g.Log.Lines() {
		if line["msg"] == "request" {
			lines[line["request"]]++
		}
	}
	for name, n := range lines {
		if n != 1 {
			t.Errorf("%s is accounted %d times", name, n)
		}
	}
	awaitReleased(t, admin)
	sent := provider.sent.Load()
	t.Logf("%d left; %d tokens sent, %d accounted, %d received by streams", departed.Load(), sent, accounted, received.Load())
	if gone != departed.Load() {
		t.Errorf("%d are accounted as having left, %d did", gone, departed.Load())
	}
	// The provider may have sent, or be sending, one event that nobody reads any more.
	if off := sent - accounted; off < -departed.Load() || off > departed.Load() {
		t.Errorf("%d tokens were sent, and %d accounted", sent, accounted)
	}
	m := proxytest.Scrape(t, admin)
	if n := m.Sum("sluice_tokens_total", "kind", "completion"); int64(n) != accounted {
		t.Errorf("the metrics count %v tokens, the log %d", n, accounted)
	}
	if n := m.Sum("sluice_requests_total", "code", "client_closed_request"); int64(n) != gone {
		t.Errorf("the metrics count %v departures, the log %d", n, gone)
	}
}
