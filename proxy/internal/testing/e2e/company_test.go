package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

// TestCompanyOfTwoGateways has 200 people of six teams use two gateways with a shared store. The issuer adds a key, one
// gateway is killed while it serves a request, and everybody moves to the other gateway and to another team. Each person
// can pay for two requests, wherever they are served, and the ledgers count each for the team of its token.
func TestCompanyOfTwoGateways(t *testing.T) {
	const people, clients = 200, 32
	server, issuer, b := startRedis(t), issuertest.New(t), newBiller(t)
	var mu sync.Mutex
	var asked [people]int // requests that the provider has received of each person
	arrived, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string }
		}
		data, _ := io.ReadAll(r.Body)
		n, waits := 0, false
		if err := json.Unmarshal(data, &body); err == nil {
			_, _ = fmt.Sscanf(body.Messages[0].Content, "I am person %d", &n)
			waits = strings.HasSuffix(body.Messages[0].Content, "wait")
		}
		mu.Lock()
		asked[n]++
		mu.Unlock()
		if waits {
			once.Do(func() { close(arrived) })
			<-done
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		b.ServeHTTP(w, r)
	}))
	defer provider.Close()
	defer close(done)
	var text strings.Builder
	for n := range 6 {
		fmt.Fprintf(&text, "[[teams]]\nname = \"team-%d\"\n", n)
	}
	text.WriteString(tokenConfiguration(issuer.URL, provider.URL, `budgets = [{ usd = 0.003, per = "total" }]`))
	serve := func(dir string) *binarytest.Gateway {
		return binarytest.Start(t, binarytest.Options{Config: fmt.Sprintf("[server]\n[store]\nurl = %q\nlease = \"3s\"\ntimeout = \"10s\"\njournal = %q\n%s", server.URL(), dir, text.String())})
	}
	send := func(g *binarytest.Gateway, token string, n int, more string) (status int, body string) {
		request := fmt.Sprintf(`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"I am person %d%s"}]}`, n, more)
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/v1/chat/completions", strings.NewReader(request))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data)
	}
	// settled sends a request until it is served or the budget of the person is spent: grants of the store come and go.
	settled := func(g *binarytest.Gateway, token string, n int) (served bool) {
		var status int
		var body string
		ended := binarytest.Await(func() bool {
			status, body = send(g, token, n, "")
			return status == 200 || strings.Contains(body, `"insufficient_quota"`) || strings.Contains(body, `"request_exceeds_budget"`)
		})
		if !ended {
			t.Errorf("person %d: %d %s", n, status, body)
		}
		return status == 200
	}
	everybody := func(do func(n int)) {
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				for n := client; n < people; n += clients {
					do(n)
				}
			})
		}
		all.Wait()
	}
	token := func(n, team int) string {
		return issuer.Token(person(fmt.Sprint("user-", n), fmt.Sprint("team-", team%6)))
	}
	dirs := [2]string{t.TempDir(), t.TempDir()}
	gateways := [2]*binarytest.Gateway{serve(dirs[0]), serve(dirs[1])}
	var moved [people]string // tokens of those who will go to the gateway that is not restarted
	for n := range moved {
		moved[n] = token(n, n+1)
	}
	everybody(func(n int) {
		if !settled(gateways[n%2], token(n, n), n) {
			t.Errorf("person %d is not served", n)
		}
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = send(gateways[0], token(0, 0), 0, " wait")
	}()
	<-arrived
	gateways[0].Signal(t, syscall.SIGKILL)
	<-gateways[0].Ended()
	<-ended
	issuer.AddKey("EdDSA")
	gateways[0] = serve(dirs[0])
	everybody(func(n int) {
		own := moved[n]
		if n%2 == 1 { // the other gateway has been restarted, and fetches the new key
			own = token(n, n+1)
		}
		for settled(gateways[1-n%2], own, n) {
		}
	})
	for n, got := range asked {
		if got != 2 {
			t.Errorf("the provider has received %d requests of person %d, want 2", got, n)
		}
	}
	for i, g := range gateways {
		_, usage := proxytest.Get(t, "http://"+g.Admin+"/usage?by=key,team")
		for n := range people {
			team, own := (n+1)%6, fmt.Sprintf(`"key":"idp:user-%d","team":"team-%d"`, n, n%6)
			other := fmt.Sprintf(`"key":"idp:user-%d","team":"team-%d"`, n, team)
			if has := strings.Contains(usage, own); has != (n%2 == i) {
				t.Errorf("gateway %d: the ledger has %s: %t", i, own, has)
			}
			if has := strings.Contains(usage, other); n > 0 && has != (n%2 != i) {
				t.Errorf("gateway %d: the ledger has %s: %t", i, other, has)
			}
		}
	}
}
