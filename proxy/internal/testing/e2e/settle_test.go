package e2e_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// writeListener is a listener whose connections call write in place of their own Write.
type writeListener struct {
	net.Listener
	write func(c net.Conn, p []byte) (int, error)
}

func (l *writeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &writeConn{c, l.write}, nil
}

type writeConn struct {
	net.Conn
	write func(c net.Conn, p []byte) (int, error)
}

func (c *writeConn) Write(p []byte) (int, error) { return c.write(c.Conn, p) }

// serveWrites serves g on a second listener whose connections write with write.
func serveWrites(t *testing.T, g *proxytest.Gateway, write func(c net.Conn, p []byte) (int, error)) *proxytest.Gateway {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(&writeListener{ln, write}) }()
	t.Cleanup(func() {
		if err := errors.Join(g.Stop(proxytest.EventTimeout), <-served); err != nil {
			t.Error(err)
		}
	})
	return &proxytest.Gateway{URL: "http://" + ln.Addr().String(), Addr: ln.Addr().String(), Log: g.Log}
}

// lastBytes returns the text at which a client takes a response for complete.
func lastBytes(stream bool) string {
	if stream {
		return "data: [DONE]"
	}
	return `"total_tokens"`
}

// TestSequentialClientFindsLimitsFree sends a second request the moment the client has received the last bytes of its
// first response, while the gateway is still in the call that wrote them. The limits leave room for one request.
//
// covers: F139
func TestSequentialClientFindsLimitsFree(t *testing.T) {
	const first, holdsOne = "first", `budgets = [{ usd = 0.03, per = "total" }]` // a request holds up to 0.0206 USD, and costs half of it
	for name, c := range map[string][4]string{
		"concurrent requests of a key":      {"limits = { concurrent = 1 }"},
		"concurrent requests of a provider": {"", "", "", "limits = { concurrent = 1 }"},
		"budget of a key":                   {holdsOne},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", stream"}[stream], func(t *testing.T) {
				b := newBiller(t)
				b.serve = func(w http.ResponseWriter, _ int64, stream bool) bool {
					answer := map[bool]string{false: shortChatResponse, true: text("Hi") + finish + "data: [DONE]\n\n"}[stream]
					w.Header().Set("Content-Type", map[bool]string{false: "application/json", true: "text/event-stream"}[stream])
					_, _ = w.Write([]byte(answer))
					return true
				}
				g := proxytest.Start(t, budgetConfiguration(b.URL, c[0], c[1], c[2], c[3]))
				second := make(chan *proxytest.Reply, 1)
				hooked := serveWrites(t, g, func(c net.Conn, p []byte) (int, error) {
					n, err := c.Write(p)
					if strings.Contains(string(p), lastBytes(stream)) {
						second <- g.Chat(t, budgetRequest(2000, false))
					}
					return n, err
				})
				if r := hooked.Do(t, "POST", "/v1/chat/completions", budgetRequest(2000, stream), "X-Request-Id: "+first); r.Status != 200 || r.Err != nil {
					t.Fatalf("%d %v %s", r.Status, r.Err, r.Body)
				}
				if r := <-second; r.Status != 200 {
					t.Errorf("second request: %d %s", r.Status, r.Body)
				}
				if line := g.Log.Request(t, first); line["status"] != "200" {
					t.Errorf("got log line %v", line)
				}
			})
		}
	}
}

// TestSequentialClientOfEachAPI streams with every client API and dialect of providers, and sends a second request the
// moment the client has received the last event, or the end of a stream that has no last event.
func TestSequentialClientOfEachAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API and dialect")
	}
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		closing := func(contentType, body string) upstreamtest.Script {
			return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, contentType, body, "Connection: close")}
		}
		provider := upstreamtest.New(t, closing("text/event-stream", w.stream("Hi")), closing("application/json", w.answer("Hi")))
		g := proxytest.Start(t, strings.Replace(proxytest.Keys, "models =", "limits = { concurrent = 1 }\nmodels =", 1)+
			w.providerConfig("one", provider.URL(), "")+modelWithTargets("m", "one/m"))
		last := in.done
		if in.isGemini() {
			last = "0\r\n\r\n"
		}
		second := make(chan *proxytest.Reply, 1)
		hooked := serveWrites(t, g, func(c net.Conn, p []byte) (int, error) {
			n, err := c.Write(p)
			if strings.Contains(string(p), last) {
				second <- in.ask(t, g, "m", false)
			}
			return n, err
		})
		if r := in.ask(t, hooked, "m", true); r.Status != 200 || r.Err != nil {
			t.Fatalf("%d %v %s", r.Status, r.Err, r.Body)
		}
		if r := <-second; r.Status != 200 {
			t.Errorf("second request: %d %s", r.Status, r.Body)
		}
	})
}

// TestPacedStreamHoldsUntilItsLastEvent checks that a stream whose events are known at its start, and are written with
// pauses, counts as in flight meanwhile.
func TestPacedStreamHoldsUntilItsLastEvent(t *testing.T) {
	g := proxytest.Start(t, strings.Replace(proxytest.Keys, "models =", "limits = { concurrent = 1 }\nmodels =", 1)+`
[providers.demo]
plugin = "demo"
pace   = "1s"
[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`)
	began := make(chan struct{}, 64)
	paced := serveWrites(t, g, func(c net.Conn, p []byte) (int, error) {
		began <- struct{}{}
		return c.Write(p)
	})
	whole := make(chan *proxytest.Reply, 1)
	go func() {
		whole <- paced.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":true}`)
	}()
	<-began
	wantError(t, g.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"Hi"}]}`), 429, "rate_limit_error", "rate_limit_exceeded", "")
	_ = g.Stop(time.Millisecond) // ends the pauses; returns an error, because the stream is still open
	if r := <-whole; !strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
		t.Errorf("%v %s", r.Err, r.Body)
	}
}

// TestDisconnectAtLastBytes fails the write of a response's last bytes. The request costs what its provider counted,
// as if they had arrived, and the log says that the client has disconnected.
func TestDisconnectAtLastBytes(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(map[bool]string{false: "non-streaming", true: "stream"}[stream], func(t *testing.T) {
			b := newBiller(t)
			g := proxytest.StartWith(t, budgetConfiguration(b.URL, `budgets = [{ usd = 1, per = "total" }]`, "", "", ""), func(o *proxy.Options) { o.StateDir = t.TempDir() })
			admin := g.Admin(t)
			broken := serveWrites(t, g, func(c net.Conn, p []byte) (int, error) {
				if strings.Contains(string(p), lastBytes(stream)) {
					return 0, errors.Join(net.ErrClosed, c.Close())
				}
				return c.Write(p)
			})
			c := dial(t, broken)
			c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\nX-Request-Id: broken\r\nContent-Type: application/json\r\n" + sized(budgetRequest(100, stream)))
			line := g.Log.Request(t, "broken")
			if line["status"] != "499" || line["code"] != "client_closed_request" || line["completion_tokens"] != "100" {
				t.Errorf("got log line %v", line)
			}
			m := proxytest.Scrape(t, admin)
			if spent := m.Sum("sluice_budget_spent_usd", "scope", "key"); spent != float64(b.billed.Load())/1e9 {
				t.Errorf("the budget has %v spent, the provider billed %d nano-dollars", spent, b.billed.Load())
			}
			if held := m.Sum("sluice_budget_held_usd"); held != 0 {
				t.Errorf("%v is still held", held)
			}
		})
	}
}
