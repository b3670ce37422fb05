package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	tapes "github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestHedgeIsFilteredAndRecorded has a first target that starts a response and then stalls. Filters and recordings must
// see each attempt as if it were the only one.
func TestHedgeIsFilteredAndRecorded(t *testing.T) {
	const text = "a top secret and more"
	for _, c := range []struct {
		name, body string
		respond    func(string) up.Step
	}{{"non-streaming", askM, respond}, {"stream", askMStream, respondStream}} {
		for provider, want := range map[string]struct {
			ending tapes.Ending
			text   string
		}{"a": {tapes.Disconnected, ""}, "b": {tapes.Ended, text}} {
			t.Run(c.name+"/"+provider, func(t *testing.T) {
				a := up.New(t, up.Script{up.ReadRequest(), up.EventStream(), up.Chunk("\n\n"), up.AwaitClose()})
				b := up.New(t, up.Script{up.ReadRequest(), c.respond(text)})
				from := proxy.NewRecorder(provider)
				g := proxytest.StartWith(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "10ms", budget = 1 }`)+blocklist("mask", ""), func(o *proxy.Options) { o.Recorder = from })
				if r := g.Chat(t, c.body); r.Status != 200 || content(r.Body) != "a [x] and more" || r.Header.Get("X-Gateway-Provider") != "b" {
					t.Errorf("got %d %s, headers %v", r.Status, r.Body, r.Header)
				}
				ctx, cancel := context.WithTimeout(t.Context(), proxytest.EventTimeout)
				defer cancel()
				tape, err := from.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer tape.Release()
				if len(tape.Responses) != 1 || tape.Ending != want.ending || !strings.Contains(string(tape.Request.Body), "a prompt of some words") {
					t.Fatalf("recorded: %d responses, ending %v, of request %s", len(tape.Responses), tape.Ending, tape.Request.Body)
				}
				if r := &tape.Responses[0]; r.Status != 200 || !strings.Contains(string(r.Body), want.text) {
					t.Errorf("recorded: status %d, %q", r.Status, r.Body)
				}
			})
		}
	}
}

// TestHedgeThatIsNotPermittedTakesNoTurn has a provider that permits one request at a time. No hedge is sent to it, but
// when the first target has failed, both other targets must be tried.
func TestHedgeThatIsNotPermittedTakesNoTurn(t *testing.T) {
	var admin string
	decided := func(c *up.Conn) error {
		proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_hedges_suppressed_total") == 1 })
		return nil
	}
	failure := up.Answer(500, "application/json", `{"error":{"message":"no","type":"x","code":null}}`, "Connection: close")
	a := up.New(t, up.Script{up.ReadRequest(), decided, failure}, up.Script{up.ReadRequest(), failure}, up.Script{up.ReadRequest(), respond("third")})
	g := proxytest.Start(t, configuration("", "")+fmt.Sprintf("[providers.p]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n", a.URL())+`
limits       = { concurrent = 1 }
retry_budget = 1
[[models]]
id      = "m"
hedge   = { after = "1ms", budget = 1 }
targets = [{ provider = "p", model = "first" }, { provider = "p", model = "second", priority = 1 }, { provider = "p", model = "third", priority = 2 }]
`)
	admin = g.Admin(t)
	r := g.Chat(t, askM)
	if r.Status != 200 || content(r.Body) != "third" || r.Header.Get("X-Gateway-Attempts") != "3" {
		t.Errorf("got %d %s, headers %v", r.Status, r.Body, r.Header)
	}
}
