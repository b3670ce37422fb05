package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// limits is a configuration in which the key of the tests has these limits.
func limits(openai, limits string) string {
	return strings.Replace(configuration(openai, ""), `name   = "tests"`, "name   = \"tests\"\nlimits = { "+limits+" }", 1)
}

// answers is a provider that gives every connection the same answer.
func answers(t *testing.T, steps ...upstreamtest.Step) *upstreamtest.Server {
	t.Helper()
	return upstreamtest.New(t, append(upstreamtest.Script{upstreamtest.ReadRequest()}, steps...))
}

// wantLimits checks the headers about a limit: its size, and what is left.
func wantLimits(t *testing.T, r *proxytest.Reply, of string, limit, left int64) {
	t.Helper()
	for name, want := range map[string]string{"limit": strconv.FormatInt(limit, 10), "remaining": strconv.FormatInt(left, 10)} {
		if got := r.Header.Get("X-Ratelimit-" + name + "-" + of); got != want {
			t.Errorf("x-ratelimit-%s-%s: %q, want %s", name, of, got, want)
		}
	}
	if _, err := time.ParseDuration(r.Header.Get("X-Ratelimit-Reset-" + of)); err != nil {
		t.Errorf("x-ratelimit-reset-%s: %v", of, err)
	}
}

// TestRequestsPerMinuteOfAKey gives keys one request per minute, so that none is replenished while the test runs.
//
// covers: F139
func TestRequestsPerMinuteOfAKey(t *testing.T) {
	provider := answers(t, upstreamtest.Answer(200, "application/json", whole, "x-ratelimit-remaining-requests: 77", "Connection: close"))
	toml := func(limit int) string {
		text := configuration(provider.URL(), "")
		for _, name := range []string{"whole", "stream", "several"} {
			text += fmt.Sprintf("[[keys]]\nname = %q\nsecret = \"sk-%s-0123456789\"\nlimits = { requests_per_minute = %d }\n", name, name, limit)
		}
		return text
	}
	g := proxytest.Start(t, toml(1))
	ask := func(key, body string) *proxytest.Reply {
		t.Helper()
		return g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789")
	}
	streamed := with(`,"stream":true`)
	requests := map[string]string{"whole": helloUpstream, "stream": streamed, "several": strings.Replace(hello, "demo", "both", 1)}
	over := func() {
		t.Helper()
		for key := range requests {
			r := ask(key, streamed)
			wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
			wantLimits(t, r, "requests", 1, 0)
			after, err := strconv.Atoi(r.Header.Get("Retry-After"))
			ms, err2 := strconv.Atoi(r.Header.Get("Retry-After-Ms"))
			if err != nil || err2 != nil || after < 1 || after > 60 || ms <= (after-1)*1000 || ms > after*1000 {
				t.Errorf("retry after %s s, %s ms", r.Header.Get("Retry-After"), r.Header.Get("Retry-After-Ms"))
			}
			if line := g.Log.Request(t, r.RequestID()); line["key"] != key || line["model"] != "gpt" || line["attempts"] != "0" {
				t.Errorf("the log says %v", line)
			}
		}
	}
	for key, body := range requests {
		r := ask(key, body)
		if r.Status != 200 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		wantLimits(t, r, "requests", 1, 0)
		if got := r.Header.Get("X-Ratelimit-Limit-Tokens"); got != "" {
			t.Errorf("a limit that there is not: %s", got)
		}
	}
	over()
	// What is refused for another reason uses nothing, what is listed is free, and a key without limits has none.
	if r := ask("whole", asking(`"nobody"`)); r.Status != 404 || r.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("another mistake: %d %v", r.Status, r.Header)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-whole-0123456789"); r.Status != 200 || r.Header.Get("X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("the list: %d %v", r.Status, r.Header)
	}
	if r := ask("narrow", hello); r.Status != 200 || r.Header.Get("X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("another key: %d %v", r.Status, r.Header)
	}
	// A reload gives nobody a minute anew.
	if err := g.Reload(t, toml(1)+"\n# changed"); err != nil {
		t.Fatal(err)
	}
	over()
	if n := len(provider.Requests()); n != len(requests) {
		t.Errorf("%d requests at the provider", n)
	}
	// With a larger limit there is the rest of it.
	if err := g.Reload(t, toml(1000)); err != nil {
		t.Fatal(err)
	}
	r := ask("whole", helloUpstream)
	if left, _ := strconv.Atoi(r.Header.Get("X-Ratelimit-Remaining-Requests")); r.Status != 200 || left < 998 || left > 999 {
		t.Errorf("with a larger limit: %d, %d left: %s", r.Status, left, r.Body)
	}
}

// TestTokensPerMinuteOfAKey checks that a request in flight reserves what it may need until its usage is known.
//
// covers: F139
func TestTokensPerMinuteOfAKey(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(asked), upstreamtest.Wait(release), upstreamtest.Answer(200, "application/json", whole, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", whole, "Connection: close")})
	g := proxytest.Start(t, limits(provider.URL(), "tokens_per_minute = 1000"))
	first := dial(t, g)
	first.post("first", with(`,"max_tokens":900`))
	<-asked

	r := g.Chat(t, with(`,"max_tokens":200`))
	wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
	// The prompt is 5 bytes of text, which are taken for 2 tokens.
	wantLimits(t, r, "tokens", 1000, 98)
	if len(provider.Requests()) != 1 {
		t.Error("the provider was asked")
	}
	close(release)
	first.readUntil("}}")
	g.Log.Request(t, "first")

	// It was 4 tokens in the end.
	r = g.Chat(t, with(`,"max_tokens":900`))
	if r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if left, _ := strconv.Atoi(r.Header.Get("X-Ratelimit-Remaining-Tokens")); left < 94 || left > 98 {
		t.Errorf("%d tokens are left", left)
	}
	// A prompt beyond all that the key has in a minute will never fit.
	r = g.Chat(t, saying(`{"role":"user","content":"`+strings.Repeat("x", 5000)+`"}`))
	wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
	if r.Header.Get("X-Should-Retry") != "false" || r.Header.Get("Retry-After") != "" {
		t.Errorf("headers %v", r.Header)
	}
}

// TestEveryOutcomeReleasesReservation ends requests of a key with a concurrency limit of one in every possible way.
// After each the next request is admitted, and the usage is what is known of it: never zero if something was sent.
//
// covers: F139
func TestEveryOutcomeReleasesReservation(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every outcome")
	}
	const limit = 1000
	event := func(text string) string {
		return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`, text) + "\n\n"
	}
	const (
		finish   = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		usage    = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42}}` + "\n\n"
		end      = "data: [DONE]\n\n"
		unusaged = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, Hello"},"finish_reason":"stop"}]}`
	)
	streamed := with(`,"stream":true`)
	// The prompt is taken for 2 tokens; 4 bytes of text for one.
	type way struct {
		name   string
		body   string
		answer []upstreamtest.Step
		leave  string // the client leaves when it has read this; "" for when the provider has the request
		left   bool
		used   int64
	}
	ways := []way{
		{name: "whole", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(200, "application/json", whole, "Connection: close")}, used: 4},
		{name: "whole, without usage", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(200, "application/json", unusaged, "Connection: close")}, used: 5},
		{name: "stream", body: streamed, answer: []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(event("Hello") + finish + usage + end), upstreamtest.LastChunk(), upstreamtest.Close()}, used: 42},
		{name: "stream, without usage", body: streamed, answer: []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(event("Hello, Hello") + finish + end), upstreamtest.LastChunk(), upstreamtest.Close()}, used: 5},
		{name: "stream that breaks", body: streamed, answer: []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(event("Hello, Hello")), upstreamtest.Close()}, used: 5},
		{name: "stream that is reset", body: streamed, answer: []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(event("Hello, Hello")), upstreamtest.Reset()}, used: 5},
		{name: "provider fails", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(500, "application/json", `{}`, "Connection: close")}, used: 0},
		{name: "provider refuses", body: streamed, answer: []upstreamtest.Step{upstreamtest.Answer(400, "application/json", `{"error":{"message":"no"}}`, "Connection: close")}, used: 0},
		{name: "provider hangs up", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Close()}, used: 0},
		{name: "provider talks nonsense", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(200, "text/html", "<html>", "Connection: close")}, used: 0},
		{name: "client leaves before the answer", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.AwaitClose()}, left: true, used: 2},
		{name: "client leaves before the stream", body: streamed, answer: []upstreamtest.Step{upstreamtest.AwaitClose()}, left: true, used: 2},
		{name: "client leaves within the stream", body: streamed, answer: []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(event("Hello, Hello")), upstreamtest.AwaitClose()}, left: true, leave: "Hello, Hello", used: 5},
		{name: "a rejected request", body: asking(`"nobody"`), used: 0},
		{name: "a request that cannot be read", body: "x", used: 0},
		{name: "a provider that is not there", body: strings.Replace(hello, "demo", "claude", 1), used: 0},
	}
	// Each has a key of its own, and a connection where it comes to the provider.
	var scripts []upstreamtest.Script
	var keys strings.Builder
	asked := make([]chan struct{}, len(ways))
	for i, w := range ways {
		fmt.Fprintf(&keys, "[[keys]]\nname = \"way-%d\"\nsecret = \"sk-way-%d-0123456789\"\nlimits = { concurrent = 1, tokens_per_minute = %d }\n", i, i, limit)
		if w.answer != nil {
			asked[i] = make(chan struct{})
			scripts = append(scripts, append(upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(asked[i])}, w.answer...))
		}
	}
	g := proxytest.Start(t, configuration(upstreamtest.New(t, scripts...).URL(), "")+keys.String())
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			key := fmt.Sprintf("sk-way-%d-0123456789", i)
			began := time.Now()
			if w.left {
				id := fmt.Sprint("gone-", i)
				client := dial(t, g)
				client.send(strings.Replace(postHead, proxytest.Key, key, 1) + "X-Request-Id: " + id + "\r\n" + sized(w.body))
				<-asked[i]
				if w.leave != "" {
					client.readUntil(w.leave)
				}
				client.reset()
				if line := g.Log.Request(t, id); line["status"] != "499" {
					t.Errorf("the log says %v", line)
				}
			} else {
				g.Log.Request(t, g.Do(t, "POST", "/v1/chat/completions", w.body, "Authorization: Bearer "+key).RequestID())
			}
			// The next one holds what it may need: its prompt, and a token.
			const reserved = 3
			r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"demo","max_tokens":1,"messages":[{"role":"user","content":"Hello"}]}`, "Authorization: Bearer "+key)
			if r.Status != 200 {
				t.Fatalf("the next one: %d %s", r.Status, r.Body)
			}
			left, err := strconv.ParseInt(r.Header.Get("X-Ratelimit-Remaining-Tokens"), 10, 64)
			least := limit - reserved - w.used
			most := min(limit-reserved, least+int64(limit*time.Since(began).Minutes())+1)
			if err != nil || left < least || left > most {
				t.Errorf("%d tokens are left (%v), want %d to %d", left, err, least, most)
			}
		})
	}
}
