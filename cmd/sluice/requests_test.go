package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// command runs a command in this process.
func command(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errors bytes.Buffer
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&errors)
	err = c.ExecuteContext(ctx)
	return out.String(), errors.String(), err
}

// fallbackConfig configures a gateway whose model m has the targets a and b.
func fallbackConfig(a, b string) string {
	return fmt.Sprintf(`
[[keys]]
name   = "team-a"
secret = %q
models = ["*"]
[providers.a]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-canary-a" }
[providers.b]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-canary-b" }
[[models]]
id      = "m"
retry   = { attempts = 1 }
pricing = { input = 1, output = 10 }
targets = [{ provider = "a", model = "first" }, { provider = "b", model = "second", priority = 1 }]
`, proxytest.Key, a, b)
}

const secondAnswer = `{"id":"chatcmpl-from-b","object":"chat.completion","created":1,"model":"second","choices":[{"index":0,"message":{"role":"assistant","content":"response-canary"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":200,"total_tokens":1200}}`

const promptCanary = `{"model":"m","messages":[{"role":"user","content":"prompt-canary"}]}`

// TestRequestsOfThreeGateways finds one request on one of three gateways, by its own id and by that of its response. Its
// first target fails.
func TestRequestsOfThreeGateways(t *testing.T) {
	t.Setenv("SLUICE_ADMIN_TOKEN", "")
	a := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(529, "application/json", `{"error":{"message":"overloaded by prompt-canary","type":"x","code":null}}`))})
	b := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", secondAnswer, "X-Request-Id: up-7"))})
	var flags []string
	var replies []*proxytest.Reply
	for range 3 {
		g := proxytest.Start(t, fallbackConfig(a.URL(), b.URL()))
		admin := g.Admin(t)
		flags = append(flags, "--admin", admin)
		r := g.Do(t, "POST", "/v1/chat/completions", promptCanary, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		if r.Status != 200 || r.Header.Get("X-Gateway-Attempts") != "2" {
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
		g.Log.Request(t, r.RequestID())
		replies = append(replies, r)
	}
	flags = append(flags, flags[:2]...) // the first gateway twice
	var response struct{ ID string }
	if err := json.Unmarshal([]byte(replies[1].Body), &response); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, err := command(t.Context(), append(slices.Clone(args), flags...)...)
		if err != nil || stderr != "" {
			t.Fatalf("%v: %v %s", args, err, stderr)
		}
		for _, secret := range []string{"canary", proxytest.Key} {
			if strings.Contains(stdout, secret) {
				t.Errorf("%v prints %s:\n%s", args, secret, stdout)
			}
		}
		return stdout
	}
	text := run("requests", "--id", replies[1].RequestID())
	for _, want := range []string{
		"request    " + replies[1].RequestID() + " at " + strings.TrimPrefix(flags[3], "http://"),
		"POST /v1/chat/completions key team-a",
		"status     200",
		"attempt 1  a/first", ": 529 overloaded: upstream status 529",
		"attempt 2  b/second", ": 200 succeeded",
		"route      order a/first, b/second",
		"tokens     1000 prompt", "200 completion",
		"cost       0.003 USD",
		"trace      00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"provider   request up-7",
		"response   " + response.ID,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "request    "); n != 1 {
		t.Errorf("found %d requests:\n%s", n, text)
	}
	if all := run("requests", "--id", response.ID); !strings.Contains(all, replies[1].RequestID()) {
		t.Errorf("not found by the id of its response:\n%s", all)
	}

	var seen []string
	for line := range strings.Lines(run("requests", "--format", "json")) {
		var r recentRequest
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, r.Request)
	}
	if want := []string{replies[2].RequestID(), replies[1].RequestID(), replies[0].RequestID()}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q: by time, the last one first", seen, want)
	}
	if table := run("requests", "--gateway"); !strings.HasPrefix(table, "time ") || strings.Count(table, "\n") != 4 || !strings.Contains(table, "b/second") {
		t.Errorf("table:\n%s", table)
	}
	if table := run("requests", "--failed"); strings.Count(table, "\n") != 1 {
		t.Errorf("no request has failed:\n%s", table)
	}
	if _, _, err := command(t.Context(), append([]string{"requests", "--id", "none"}, flags...)...); err == nil || err.Error() != `no recent request has the id "none"` {
		t.Errorf("error %v", err)
	}
	if _, stderr, err := command(t.Context(), append([]string{"requests", "--admin", "http://127.0.0.1:1"}, flags...)...); err != nil || !strings.Contains(stderr, "warning: no response from http://127.0.0.1:1") {
		t.Errorf("one gateway is down: %v %s", err, stderr)
	}
}

// TestTop shows requests in flight on two gateways.
func TestTop(t *testing.T) {
	t.Setenv("SLUICE_ADMIN_TOKEN", "")
	release := make(chan struct{})
	var arrived [3]chan struct{}
	var scripts []up.Script
	for i := range arrived {
		arrived[i] = make(chan struct{})
		scripts = append(scripts, up.Script{up.ReadRequest(), up.Signal(arrived[i]), up.Wait(release), up.Answer(200, "application/json", secondAnswer)})
	}
	a := up.New(t, scripts...)
	args := []string{"top", "--once"}
	done := make(chan *proxytest.Reply, 3)
	for n := range 2 {
		g := proxytest.Start(t, fallbackConfig(a.URL(), "http://127.0.0.1:1"))
		args = append(args, "--admin", g.Admin(t))
		for range n + 1 {
			go func() { done <- g.Chat(t, promptCanary) }()
		}
	}
	for i := range arrived {
		<-arrived[i]
	}
	text, _, err := command(t.Context(), args...)
	close(release)
	for range 3 {
		if r := <-done; r.Status != 200 {
			t.Errorf("status %d: %s", r.Status, r.Body)
		}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if err != nil || len(lines) != 3 || lines[0] != "3 requests in flight" || !strings.HasPrefix(lines[2], "3 ") || !strings.Contains(lines[2], "team-a  m      a/first") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestFollowRequests prints a request when it has ended.
func TestFollowRequests(t *testing.T) {
	t.Setenv("SLUICE_ADMIN_TOKEN", "")
	b := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", secondAnswer))})
	g := proxytest.Start(t, fallbackConfig(b.URL(), b.URL()))
	admin := g.Admin(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	shown := make(chan string, 1)
	go func() {
		_ = readStream(ctx, admin+"/requests/stream", func(data []byte) error {
			select {
			case shown <- string(data):
			default:
			}
			return nil
		})
	}()
	for {
		r := g.Chat(t, promptCanary) // until the stream is open
		select {
		case data := <-shown:
			if !strings.Contains(data, `"requests":[`) || !strings.Contains(data, `"model":"m"`) {
				t.Errorf("event %s", data)
			}
			return
		case <-ctx.Done():
			t.Fatalf("no event; last request %s", r.RequestID())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
