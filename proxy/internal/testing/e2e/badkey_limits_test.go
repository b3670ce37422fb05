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

// limitedConfiguration returns a configuration in which the tests' key has these limits.
func limitedConfiguration(openai, limits string) string {
	return strings.Replace(configuration(openai, ""), `name   = "tests"`, "name   = \"tests\"\nlimits = { "+limits+" }", 1)
}

// answeringProvider returns a provider that runs the same steps for the first request of every connection.
func answeringProvider(t *testing.T, steps ...upstreamtest.Step) *upstreamtest.Server {
	t.Helper()
	return upstreamtest.New(t, append(upstreamtest.Script{upstreamtest.ReadRequest()}, steps...))
}

// wantLimits checks the rate limit headers for a resource, which is requests or tokens.
func wantLimits(t *testing.T, r *proxytest.Reply, resource string, limit, remaining int64) {
	t.Helper()
	for name, want := range map[string]string{"limit": strconv.FormatInt(limit, 10), "remaining": strconv.FormatInt(remaining, 10)} {
		if got := r.Header.Get("X-Ratelimit-" + name + "-" + resource); got != want {
			t.Errorf("x-ratelimit-%s-%s is %q, want %s", name, resource, got, want)
		}
	}
	if _, err := time.ParseDuration(r.Header.Get("X-Ratelimit-Reset-" + resource)); err != nil {
		t.Errorf("x-ratelimit-reset-%s is invalid: %v", resource, err)
	}
}

// TestKeyRequestsPerMinute gives keys one request per minute, so that none is replenished while the test runs.
//
// covers: F139
func TestKeyRequestsPerMinute(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", shortChatResponse, "x-ratelimit-remaining-requests: 77", "Connection: close"))
	toml := func(limit int) string {
		text := configuration(provider.URL(), "")
		for _, name := range []string{"non-streaming", "stream", "several"} {
			text += fmt.Sprintf("[[keys]]\nname = %q\nsecret = \"sk-%s-0123456789\"\nlimits = { requests_per_minute = %d }\n", name, name, limit)
		}
		return text
	}
	g := proxytest.Start(t, toml(1))
	ask := func(key, body string) *proxytest.Reply {
		t.Helper()
		return g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789")
	}
	streamed := requestWith(`,"stream":true`)
	requests := map[string]string{"non-streaming": helloUpstream, "stream": streamed, "several": strings.Replace(hello, "demo", "both", 1)}
	checkExceeded := func() {
		t.Helper()
		for key := range requests {
			r := ask(key, streamed)
			wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
			wantLimits(t, r, "requests", 1, 0)
			after, err := strconv.Atoi(r.Header.Get("Retry-After"))
			ms, err2 := strconv.Atoi(r.Header.Get("Retry-After-Ms"))
			if err != nil || err2 != nil || after < 1 || after > 60 || ms <= (after-1)*1000 || ms > after*1000 {
				t.Errorf("retry-after %s, retry-after-ms %s", r.Header.Get("Retry-After"), r.Header.Get("Retry-After-Ms"))
			}
			if line := g.Log.Request(t, r.RequestID()); line["key"] != key || line["model"] != "gpt" || line["attempts"] != "0" {
				t.Errorf("got log line %v", line)
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
			t.Errorf("a key without a limit of tokens gets x-ratelimit-limit-tokens %s", got)
		}
	}
	checkExceeded()
	// A request that is rejected for another reason does not count, nor does a list, and a key without limits has no
	// headers.
	if r := ask("non-streaming", requestForModel(`"nobody"`)); r.Status != 404 || r.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("unknown model: %d %v", r.Status, r.Header)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-non-streaming-0123456789"); r.Status != 200 || r.Header.Get("X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("list of models: %d %v", r.Status, r.Header)
	}
	if r := ask("narrow", hello); r.Status != 200 || r.Header.Get("X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("key without limits: %d %v", r.Status, r.Header)
	}
	// A reload does not reset the limits.
	if err := g.Reload(t, toml(1)+"\n# changed"); err != nil {
		t.Fatal(err)
	}
	checkExceeded()
	if n := len(provider.Requests()); n != len(requests) {
		t.Errorf("the provider received %d requests, want %d", n, len(requests))
	}
	// After the limit is raised, the difference is available.
	if err := g.Reload(t, toml(1000)); err != nil {
		t.Fatal(err)
	}
	r := ask("non-streaming", helloUpstream)
	if left, _ := strconv.Atoi(r.Header.Get("X-Ratelimit-Remaining-Requests")); r.Status != 200 || left < 998 || left > 999 {
		t.Errorf("with a larger limit: status %d, %d requests remaining: %s", r.Status, left, r.Body)
	}
}

// TestKeyTokensPerMinute checks that a request in flight reserves its maximum of tokens until its usage is known.
//
// covers: F139
func TestKeyTokensPerMinute(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(asked), upstreamtest.Wait(release), upstreamtest.Answer(200, "application/json", shortChatResponse, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", shortChatResponse, "Connection: close")})
	g := proxytest.Start(t, limitedConfiguration(provider.URL(), "tokens_per_minute = 1000"))
	first := dial(t, g)
	first.post("first", requestWith(`,"max_tokens":900`))
	<-asked

	r := g.Chat(t, requestWith(`,"max_tokens":200`))
	wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
	// The prompt of 5 bytes is estimated at 2 tokens.
	wantLimits(t, r, "tokens", 1000, 98)
	if len(provider.Requests()) != 1 {
		t.Error("the rejected request reached the provider")
	}
	close(release)
	first.readUntil("}}")
	g.Log.Request(t, "first")

	// The first request used 4 tokens.
	r = g.Chat(t, requestWith(`,"max_tokens":900`))
	if r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if left, _ := strconv.Atoi(r.Header.Get("X-Ratelimit-Remaining-Tokens")); left < 94 || left > 98 {
		t.Errorf("%d tokens remaining, want 94 to 98", left)
	}
	// A prompt larger than the limit per minute will never fit, so it must not be retried.
	r = g.Chat(t, requestWithMessages(`{"role":"user","content":"`+strings.Repeat("x", 5000)+`"}`))
	wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
	if r.Header.Get("X-Should-Retry") != "false" || r.Header.Get("Retry-After") != "" {
		t.Errorf("got headers %v", r.Header)
	}
}

// TestEveryOutcomeReleasesReservation ends requests of a key with a concurrency limit of one in every possible way.
// Each time, the next request must be admitted, and the recorded usage is the known part of it: never zero if a
// response was sent.
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
		finish  = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		usage   = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12,"total_tokens":42}}` + "\n\n"
		end     = "data: [DONE]\n\n"
		noUsage = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, Hello"},"finish_reason":"stop"}]}`
	)
	streamed := requestWith(`,"stream":true`)
	// The prompt is estimated at 2 tokens, and the response at one token per 4 bytes.
	type outcome struct {
		name   string
		body   string
		answer []upstreamtest.Step
		leaves bool   // the client disconnects
		after  string // the client disconnects after it has read this; "" means as soon as the provider has the request
		used   int64
	}
	// No connection is used again: the provider could close it at the same time, and the request would be sent twice.
	stream := upstreamtest.Head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "Connection: close")
	outcomes := []outcome{
		{name: "non-streaming", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(200, "application/json", shortChatResponse, "Connection: close")}, used: 4},
		{name: "non-streaming, without usage", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(200, "application/json", noUsage, "Connection: close")}, used: 5},
		{name: "stream", body: streamed, answer: []upstreamtest.Step{stream, upstreamtest.Chunk(event("Hello") + finish + usage + end), upstreamtest.LastChunk(), upstreamtest.Close()}, used: 42},
		{name: "stream, without usage", body: streamed, answer: []upstreamtest.Step{stream, upstreamtest.Chunk(event("Hello, Hello") + finish + end), upstreamtest.LastChunk(), upstreamtest.Close()}, used: 5},
		{name: "truncated stream", body: streamed, answer: []upstreamtest.Step{stream, upstreamtest.Chunk(event("Hello, Hello")), upstreamtest.Close()}, used: 5},
		{name: "reset stream", body: streamed, answer: []upstreamtest.Step{stream, upstreamtest.Chunk(event("Hello, Hello")), upstreamtest.Reset()}, used: 5},
		{name: "provider fails", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(500, "application/json", `{}`, "Connection: close")}, used: 0},
		{name: "provider rejects the request", body: streamed, answer: []upstreamtest.Step{upstreamtest.Answer(400, "application/json", `{"error":{"message":"no"}}`, "Connection: close")}, used: 0},
		{name: "provider closes the connection", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Close()}, used: 2},
		{name: "invalid response", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.Answer(200, "text/html", "<html>", "Connection: close")}, used: 2},
		{name: "client disconnects before the response", body: helloUpstream, answer: []upstreamtest.Step{upstreamtest.AwaitClose()}, leaves: true, used: 2},
		{name: "client disconnects before the stream", body: streamed, answer: []upstreamtest.Step{upstreamtest.AwaitClose()}, leaves: true, used: 2},
		{name: "client disconnects during the stream", body: streamed, answer: []upstreamtest.Step{stream, upstreamtest.Chunk(event("Hello, Hello")), upstreamtest.AwaitClose()}, leaves: true, after: "Hello, Hello", used: 5},
		{name: "unknown model", body: requestForModel(`"nobody"`), used: 0},
		{name: "invalid request", body: "x", used: 0},
		{name: "unreachable provider", body: strings.Replace(hello, "demo", "claude", 1), used: 0},
	}
	// Each outcome has a key of its own and, if it reaches the provider, a connection script.
	var scripts []upstreamtest.Script
	var keys strings.Builder
	received := make([]chan struct{}, len(outcomes))
	for i, o := range outcomes {
		fmt.Fprintf(&keys, "[[keys]]\nname = \"outcome-%d\"\nsecret = \"sk-outcome-%d-0123456789\"\nlimits = { concurrent = 1, tokens_per_minute = %d }\n", i, i, limit)
		if o.answer != nil {
			received[i] = make(chan struct{})
			scripts = append(scripts, append(upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(received[i])}, o.answer...))
		}
	}
	g := proxytest.Start(t, configuration(upstreamtest.New(t, scripts...).URL(), "")+keys.String())
	for i, o := range outcomes {
		t.Run(o.name, func(t *testing.T) {
			key := fmt.Sprintf("sk-outcome-%d-0123456789", i)
			began := time.Now()
			var line map[string]string
			if o.leaves {
				id := fmt.Sprint("gone-", i)
				client := dial(t, g)
				client.send(strings.Replace(postHead, proxytest.Key, key, 1) + "X-Request-Id: " + id + "\r\n" + sized(o.body))
				<-received[i]
				if o.after != "" {
					client.readUntil(o.after)
				}
				client.reset()
				if line = g.Log.Request(t, id); line["status"] != "499" {
					t.Errorf("got log line %v, want status 499", line)
				}
			} else {
				line = g.Log.Request(t, g.Do(t, "POST", "/v1/chat/completions", o.body, "Authorization: Bearer "+key).RequestID())
			}
			// The next request reserves 2 tokens for its prompt and 1 for its response.
			const reserved = 3
			r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"demo","max_tokens":1,"messages":[{"role":"user","content":"Hello"}]}`, "Authorization: Bearer "+key)
			if r.Status != 200 {
				t.Fatalf("the next request got status %d: %s", r.Status, r.Body)
			}
			left, err := strconv.ParseInt(r.Header.Get("X-Ratelimit-Remaining-Tokens"), 10, 64)
			least := limit - reserved - o.used
			most := min(limit-reserved, least+int64(limit*time.Since(began).Minutes())+1)
			if err != nil || left < least || left > most {
				t.Errorf("%d tokens remaining (%v), want %d to %d; logged %v", left, err, least, most, line)
			}
		})
	}
}

// TestTeamRateLimitHeaders checks that the headers show the tightest limits of a key and its team.
func TestTeamRateLimitHeaders(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", shortChatResponse, "Connection: close"))
	for name, c := range map[string]struct {
		key, team        string
		limit, remaining int64 // of requests
	}{
		"team only":     {"", "limits = { requests_per_minute = 10 }", 10, 9},
		"key tighter":   {"limits = { requests_per_minute = 5 }", "limits = { requests_per_minute = 10 }", 5, 4},
		"both the same": {"limits = { requests_per_minute = 5 }", "limits = { requests_per_minute = 5 }", 5, 4},
	} {
		g := proxytest.Start(t, budgetConfiguration(provider.URL(), c.key, c.team+"\n", "", ""))
		r := g.Chat(t, budgetRequest(10, false))
		if r.Status != 200 {
			t.Fatalf("%s: %d %s", name, r.Status, r.Body)
		}
		wantLimits(t, r, "requests", c.limit, c.remaining)
	}
	// Another key of the team has used most of what it may.
	g := proxytest.Start(t, budgetConfiguration(provider.URL(), "limits = { requests_per_minute = 5 }", "limits = { requests_per_minute = 6 }", "", "")+
		"[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789abcdef\"\nteam = \"research\"\n")
	for range 3 {
		if r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(10, false), "Authorization: Bearer sk-other-0123456789abcdef"); r.Status != 200 {
			t.Fatal(r.Status, r.Body)
		}
	}
	wantLimits(t, g.Chat(t, budgetRequest(10, false)), "requests", 6, 2)
	// Each resource has the limit of its own.
	g = proxytest.Start(t, budgetConfiguration(provider.URL(), "limits = { requests_per_minute = 5 }", "limits = { requests_per_minute = 10, tokens_per_minute = 1000 }", "", ""))
	r := g.Chat(t, budgetRequest(10, false))
	wantLimits(t, r, "requests", 5, 4)
	if got := r.Header.Get("X-Ratelimit-Limit-Tokens"); got != "1000" {
		t.Errorf("x-ratelimit-limit-tokens is %q", got)
	}
}
