package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestBudgetAlert spends enough of a budget for its warn, and checks the signed alert.
func TestBudgetAlert(t *testing.T) {
	type posted struct {
		header http.Header
		body   string
	}
	alerts := make(chan posted, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		alerts <- posted{r.Header, string(body)}
	}))
	defer receiver.Close()
	provider := up.New(t, up.Script{up.Loop(up.ReadRequest(), respond("hi"))})
	g := proxytest.Start(t, fmt.Sprintf("[alerts]\nurl = %q\nsecret = \"0123456789abcdef\"\n", receiver.URL+"/hook")+proxytest.Keys+
		"budgets = [{ usd = 100, per = \"day\", warn = 0.01 }]\n"+openAI("p", provider.URL())+
		"[[models]]\nid = \"m\"\nmax_tokens = 10\npricing = { input = 200_000, output = 200_000 }\ntargets = [{ provider = \"p\" }]\n")
	admin := g.Admin(t)
	for range 3 {
		if r := g.Chat(t, askM); r.Status != 200 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	select {
	case a := <-alerts:
		if !strings.HasPrefix(a.body, `{"type":"budget_warned","scope":"key","name":"tests","per":"day","limit_usd":100,"at":"`) || len(a.header.Get("X-Sluice-Signature")) != len("v1=")+64 || a.header.Get("X-Sluice-Timestamp") == "" {
			t.Errorf("%s %v", a.body, a.header)
		}
	case <-time.After(proxytest.EventTimeout):
		t.Fatal("timed out waiting for the alert")
	}
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_alerts_total", "outcome", "delivered") == 1 })
	if len(alerts) > 0 {
		t.Errorf("a second alert in the same window: %s", (<-alerts).body)
	}
}

// TestCollectorDoesNotRespond checks that requests are served while the collector hangs, that operators are told, and
// that the gateway stops within two seconds.
func TestCollectorDoesNotRespond(t *testing.T) {
	for name, collector := range map[string]string{"hangs": up.New(t, up.Script{up.ReadRequest(), up.AwaitClose()}).URL(), "is down": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			provider := up.New(t, up.Script{up.Loop(up.ReadRequest(), respond("hi"))})
			g := proxytest.Start(t, fmt.Sprintf("[telemetry]\notlp = %q\ntraces = { sample = 1, per_second = 100000 }\nlogs = true\nmetrics = { every = \"1s\" }\n", collector)+
				proxytest.Keys+openAI("p", provider.URL())+"[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n")
			admin := g.Admin(t)
			for range 50 {
				if r := g.Chat(t, askM); r.Status != 200 {
					t.Fatalf("%d %s", r.Status, r.Body)
				}
			}
			if name == "is down" {
				proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_telemetry_up", "signal", "traces") == 0 })
				if status, body := proxytest.Get(t, admin+"/readyz"); status != 200 || !strings.Contains(body, "telemetry: traces not exported since ") {
					t.Errorf("/readyz: %d %s", status, body)
				}
				g.Log.Await(t, "msg", "telemetry not exported; it is dropped once the buffer is full", "signal", "traces")
			}
			began := time.Now()
			if err := g.Stop(proxytest.EventTimeout); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("stopped after %s", took)
			}
		})
	}
}
