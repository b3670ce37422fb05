package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// pacedGateway starts a gateway whose demo provider pauses between events.
func pacedGateway(t *testing.T, pace time.Duration) *proxytest.Gateway {
	t.Helper()
	return proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.demo]
plugin = "demo"
pace   = %q
[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`, pace))
}

func TestDemoPace(t *testing.T) {
	const pace = 20 * time.Millisecond
	g := pacedGateway(t, pace)
	began := time.Now()
	r := g.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":true}`)
	took := time.Since(began)
	events := strings.Count(r.Body, "data: ")
	if r.Status != 200 || events < 6 || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") || took < time.Duration(events-1)*pace {
		t.Errorf("got %d events in %s, want at least 6, %s apart\n%d %v %s", events, took, pace, r.Status, r.Err, r.Body)
	}
}

// TestShutdownEndsPace checks that a shutdown sends the rest of a paced stream at once, and that a non-streaming
// response is not paced at all.
func TestShutdownEndsPace(t *testing.T) {
	const pace = time.Second // between about fifty events
	g := pacedGateway(t, pace)
	began := time.Now()
	if r := g.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"Hi"}]}`); r.Status != 200 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/v1/chat/completions", strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+proxytest.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("%q %v", line, err)
	}
	_ = g.Stop(time.Millisecond) // returns an error, because the stream is still open
	rest, err := io.ReadAll(r)
	if took := time.Since(began); err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || took > 10*pace {
		t.Errorf("the stream ended after %s with %v, want the complete rest at once: %q", took, err, rest)
	}
}

// TestDisconnectEndsPace disconnects during a pause and checks that the request ends before the pause does. A busy
// machine may need another try.
func TestDisconnectEndsPace(t *testing.T) {
	const pace = time.Second
	g := pacedGateway(t, pace)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/v1/chat/completions", strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+proxytest.Key)
		req.Header.Set("Content-Type", "application/json")
		began := time.Now()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
			t.Fatalf("%q %v", line, err)
		}
		cancel()
		line := g.Log.Request(t, resp.Header.Get("X-Request-Id"))
		if line["code"] != "client_closed_request" {
			t.Fatalf("logged %v, want code client_closed_request", line)
		}
		if time.Since(began) < pace {
			return
		}
	}
	t.Error("the request did not end before the pause was over")
}
