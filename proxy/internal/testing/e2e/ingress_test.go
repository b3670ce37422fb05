package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// covers: M7.19 M7.23 M5.1 P1.8
func TestIngressResponds(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		provider := upstreamtest.New(t,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", w.answer("good"), "Connection: close")},
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", w.stream("go", "od"), "Connection: close")},
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", w.stream("go", "od"), "Connection: close")},
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", w.answer("good"), "Connection: close")},
		)
		g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
		for i, stream := range []bool{false, true, false, true} { // the provider responds to the last two in the other form
			r := in.ask(t, g, "m", stream)
			in.wantText(t, g, r, stream, "good")
			if line := g.Log.Request(t, r.RequestID()); line["prompt_tokens"] == "" || line["completion_tokens"] == "0" {
				t.Errorf("response %d: logged as %v", i, line)
			}
		}
		m := proxytest.AwaitMetrics(t, g.Admin(t), func(m proxytest.Metrics) bool { return m.Sum("sluice_requests_total", "model", "m") == 4 })
		if n := m.Sum("sluice_requests_total", "path", in.loggedPath(true), "stream", "true", "model", "m", "provider", "one"); n != 2 {
			t.Errorf("%v streams counted, want 2", n)
		}
	})
}

// covers: M1.2 M1.3 M1.4 M1.5 M1.12
func TestIngressKeys(t *testing.T) {
	forEachIngress(t, func(t *testing.T, in *ingress) {
		g := proxytest.Start(t, configuration("", ""))
		const narrow = "sk-narrow-0123456789"
		type presented struct {
			name    string
			headers []string
			status  int
			code    string
		}
		cases := []presented{
			{"Bearer", nil, 200, ""},
			{"no key", []string{"Authorization:"}, 401, "missing_api_key"},
			{"unknown key", []string{"Authorization: Bearer sk-unknown-0123456789"}, 401, "invalid_api_key"},
			{"expired key", []string{"Authorization: Bearer sk-expired-0123456789"}, 401, "invalid_api_key"},
			{"disabled key", []string{"Authorization: Bearer sk-disabled-0123456789"}, 401, "invalid_api_key"},
		}
		if in.keyHeader != "" {
			cases = append(cases, []presented{
				{"header of the API", []string{"Authorization:", in.keyHeader + ": " + proxytest.Key}, 200, ""},
				{"the same key in both headers", []string{in.keyHeader + ": " + proxytest.Key}, 200, ""},
				{"different keys", []string{in.keyHeader + ": " + narrow}, 401, "duplicate_authorization"},
				{"unknown key in the header of the API", []string{"Authorization:", in.keyHeader + ": sk-unknown-0123456789"}, 401, "invalid_api_key"},
			}...)
		}
		for _, header := range []string{"x-api-key", "x-goog-api-key", "api-key"} {
			if header != in.keyHeader {
				cases = append(cases, presented{header, []string{"Authorization:", header + ": " + proxytest.Key}, 401, "missing_api_key"})
			}
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r := in.ask(t, g, "demo", false, c.headers...)
				if c.status == 200 {
					if r.Status != 200 {
						t.Errorf("status %d: %s", r.Status, r.Body)
					}
				} else {
					in.wantError(t, g, r, c.status, c.code)
				}
				for _, key := range []string{proxytest.Key, narrow, "sk-unknown-0123456789", "sk-expired-0123456789", "sk-disabled-0123456789"} {
					if strings.Contains(r.Body, key) || strings.Contains(g.Log.String(), key) {
						t.Errorf("the response or the log contains a key: %s\n%s", r.Body, g.Log.String())
					}
				}
			})
		}
		t.Run("model of another key", func(t *testing.T) {
			in.wantError(t, g, in.ask(t, g, "gpt", false, "Authorization: Bearer "+narrow), 404, "model_not_found")
		})
	})
}

// covers: M1.15 M2.1 M2.12 P1.9 P2.1
func TestIngressRejectsRequests(t *testing.T) {
	forEachIngress(t, func(t *testing.T, in *ingress) {
		g := proxytest.Start(t, configuration("", ""))
		body := in.requestBody("demo", "x", false)
		member := "stream"
		if in.isGemini() {
			member = "contents"
		}
		add := func(members string) string { return strings.TrimSuffix(body, "}") + "," + members + "}" }
		for _, c := range []struct {
			name, method, body string
			headers            []string
			status             int
			code               string
		}{
			{"duplicate member", "POST", add(`"` + member + `":true`), nil, 400, "invalid_request_error"},
			{"duplicate member, escaped", "POST", add(`"` + strings.Replace(member, "e", `\u0065`, 1) + `":true`), nil, 400, "invalid_request_error"},
			{"number out of range", "POST", add(`"x":1e999`), nil, 400, "invalid_request_error"},
			{"nested too deeply", "POST", add(`"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200)), nil, 400, "invalid_request_error"},
			{"invalid JSON", "POST", "{", nil, 400, "invalid_request_error"},
			{"stream is a string", "POST", strings.Replace(body, `"stream":false`, `"stream":"no"`, 1), nil, 400, "invalid_type"},
			{"missing model", "POST", strings.Replace(body, `"model":"demo",`, "", 1), nil, 400, "missing_required_parameter"},
			{"unknown model", "POST", in.requestBody("nothing", "x", false), nil, 404, "model_not_found"},
			{"wrong content type", "POST", body, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type"},
			{"unsupported content encoding", "POST", body, []string{"Content-Encoding: zstd"}, 415, "unsupported_media_type"},
			{"too large", "POST", in.requestBody("demo", strings.Repeat("x", 1<<20), false), nil, 413, "request_too_large"},
			{"wrong method", "PUT", body, nil, 405, "method_not_allowed"},
			{"passed too many gateways", "POST", body, []string{"X-Sluice-Hops: 5"}, 400, "loop_detected"},
		} {
			t.Run(c.name, func(t *testing.T) {
				model := "demo"
				switch {
				case !in.isGemini():
				case c.name == "unknown model":
					model = "nothing"
				case c.name == "stream is a string", c.name == "missing model":
					return // they are in the path: see TestGeminiPaths
				}
				in.wantError(t, g, g.Do(t, c.method, in.pathTo(model, false), c.body, c.headers...), c.status, c.code)
			})
		}
		t.Run("many header lines", func(t *testing.T) {
			headers := make([]string, 101)
			for i := range headers {
				headers[i] = fmt.Sprintf("X-%d: x", i)
			}
			in.wantError(t, g, g.Do(t, "POST", in.pathTo("demo", false), body, headers...), 431, "request_header_too_large")
		})
	})
}

// covers: M8.10
func TestIngressLimits(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", w.answer("good"), "Connection: close"))
		config := w.gatewayConfig(provider.URL()) + `
[[keys]]
name   = "slow"
secret = "sk-slow-0123456789"
limits = { requests_per_minute = 1 }

[[keys]]
name   = "short"
secret = "sk-short-0123456789"
limits = { tokens_per_minute = 10 }
`
		g := proxytest.Start(t, config)
		slow := "Authorization: Bearer sk-slow-0123456789"
		r := in.ask(t, g, "m", false, slow)
		in.wantText(t, g, r, false, "good")
		wantLimits(t, r, "Requests", 1, 0)
		r = in.ask(t, g, "m", true, slow)
		in.wantError(t, g, r, 429, "rate_limit_exceeded")
		if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || n < 1 || r.Header.Get("X-Should-Retry") != "" {
			t.Errorf("headers %v", r.Header)
		}
		r = g.Do(t, "POST", in.pathTo("m", false), in.requestBody("m", strings.Repeat("word ", 100), false), "Authorization: Bearer sk-short-0123456789")
		in.wantError(t, g, r, 429, "rate_limit_exceeded")
		if r.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("headers %v", r.Header)
		}
	})
}

// covers: M8.3 M8.7 M8.8 M8.9 M8.12 M7.17 P6.8
func TestIngressFailuresBeforeResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each failure of each API")
	}
	const secret = "sk-upstream-one-canary"
	for _, c := range []struct {
		name         string
		response     upstreamtest.Step
		status       int
		code, retry  string
		want, hidden string // text that must be in the message, and text that must not be in the response
	}{
		{"rejected", upstreamtest.Answer(400, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"bad `+secret+` words"}}`), 400, "invalid_request_error", "", "words", secret},
		{"rate limited", upstreamtest.Answer(429, "application/json", `{"error":{"message":"slow down","type":"x"}}`, "Retry-After: 7"), 429, "rate_limit_exceeded", "7", "", ""},
		{"overloaded", upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy","type":"x"}}`), 503, "overloaded", "", "", ""},
		{"internal error", upstreamtest.Answer(500, "text/html", "<html><p>sorry</p></html>"), 502, "upstream_error", "", "", "<"},
		{"wrong credential", upstreamtest.Answer(401, "application/json", `{"error":{"message":"account of Acme","type":"authentication_error"}}`), 502, "upstream_auth_failed", "", "", "Acme"},
		{"account without credit", upstreamtest.Answer(402, "application/json", `{"error":{"message":"account of Acme","type":"x"}}`), 502, "upstream_billing", "", "", "Acme"},
		{"wrong path", upstreamtest.Answer(404, "application/json", `{"error":{"message":"no such page","type":"x"}}`), 502, "upstream_not_found", "", "", "page"},
		{"unknown model", upstreamtest.Answer(404, "application/json", `{"error":{"message":"no such model","type":"not_found_error"}}`), 404, "model_not_found", "", "", ""},
		{"connection closed", upstreamtest.Close(), 502, "upstream_unreachable", "", "", ""},
		{"invalid JSON", upstreamtest.Answer(200, "application/json", "<html>"), 502, "upstream_bad_answer", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
				provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), c.response, upstreamtest.Close()})
				g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
				for _, stream := range []bool{false, true} {
					r := in.ask(t, g, "m", stream)
					message := in.wantError(t, g, r, c.status, c.code)
					if !strings.Contains(message, c.want) || c.hidden != "" && strings.Contains(r.Body, c.hidden) {
						t.Errorf("message %q", message)
					}
					if r.Header.Get("Retry-After") != c.retry {
						t.Errorf("retry-after %q, want %q", r.Header.Get("Retry-After"), c.retry)
					}
				}
			})
		})
	}
}

func TestIngressFallback(t *testing.T) {
	forEachIngress(t, func(t *testing.T, in *ingress) {
		for i, w := range wires {
			t.Run("from "+w.plugin, func(t *testing.T) {
				next := wires[1-i]
				busy := answeringProvider(t, upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy","type":"x"}}`, "Connection: close"))
				good := upstreamtest.New(t,
					upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", next.answer("good"), "Connection: close")},
					upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", next.stream("good"), "Connection: close")})
				g := proxytest.Start(t, configuration("", "")+w.providerConfig("first", busy.URL(), "breaker = { enabled = false }")+
					next.providerConfig("second", good.URL(), "")+modelWithTargets("m", "first/m", "second/m"))
				for _, stream := range []bool{false, true} {
					r := in.ask(t, g, "m", stream)
					in.wantText(t, g, r, stream, "good")
					if r.Header.Get("X-Gateway-Provider") != "second" || r.Header.Get("X-Gateway-Attempts") != "2" {
						t.Errorf("headers %v", r.Header)
					}
				}
			})
		}
	})
}

func TestIngressCircuitBreaker(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		broken := answeringProvider(t, upstreamtest.Answer(500, "application/json", `{"error":{"message":"no","type":"x"}}`, "Connection: close"))
		g := proxytest.Start(t, configuration("", "")+w.providerConfig("one", broken.URL(), `breaker = { failures = 2, pause = "1m" }`)+modelWithTargets("m", "one/m"))
		for range 2 {
			in.wantError(t, g, in.ask(t, g, "m", true), 502, "upstream_error")
		}
		r := in.ask(t, g, "m", true)
		in.wantError(t, g, r, 503, "upstream_unavailable")
		if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || n < 30 {
			t.Errorf("headers %v", r.Header)
		}
		if n := len(broken.Requests()); n != 2 {
			t.Errorf("the provider received %d requests, want 2", n)
		}
	})
}

// covers: M7.15 M7.16
func TestIngressTruncatedStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	for _, c := range []struct {
		name string
		end  func(w *wire) []upstreamtest.Step
		code string
	}{
		{"FIN", func(*wire) []upstreamtest.Step { return []upstreamtest.Step{upstreamtest.Close()} }, "upstream_stream_truncated"},
		{"RST", func(*wire) []upstreamtest.Step { return []upstreamtest.Step{upstreamtest.Reset()} }, "upstream_stream_truncated"},
		{"clean end too early", func(*wire) []upstreamtest.Step { return []upstreamtest.Step{upstreamtest.LastChunk()} }, "upstream_stream_truncated"},
		{"error event", func(w *wire) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Chunk(w.failed), upstreamtest.LastChunk()}
		}, ""},
		{"HTML in an event", func(*wire) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Chunk("data: <html>\n\n")}
		}, "upstream_bad_answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
				script := append(upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(w.opening("half"))}, c.end(w)...)
				provider := upstreamtest.New(t, script)
				g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
				r := in.ask(t, g, "m", true)
				if r.Err != nil || r.Status != 200 || in.text(r.Body, true) != "half" {
					t.Errorf("status %d, %v: %s", r.Status, r.Err, r.Body)
				}
				frames := strings.SplitAfter(strings.TrimSuffix(r.Body, "\n\n"), "\n\n")
				if last := frames[len(frames)-1]; strings.Contains(r.Body, in.done) || !strings.HasPrefix(last, in.errorPrefix) || strings.Count(r.Body, in.errorPrefix) != 1 {
					t.Errorf("want a stream that ends with its only error:\n%s", r.Body)
				}
				line := g.Log.Request(t, r.RequestID())
				if line["status"] != "200" || line["complete"] != "false" || line["code"] == "" || c.code != "" && line["code"] != c.code || line["cause"] == "" {
					t.Errorf("logged as %v", line)
				}
			})
		})
	}
}

// covers: M7.18 P6.5
func TestIngressHeartbeat(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for heartbeats")
	}
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		begin, middle := make(chan struct{}), make(chan struct{})
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Wait(begin), upstreamtest.Chunk(w.opening("go")),
			upstreamtest.Wait(middle), upstreamtest.Chunk(w.says("od") + w.finish + w.done), upstreamtest.LastChunk(),
		})
		g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
		client := dial(t, g)
		client.postTo(in.pathTo("m", true), "silent", in.requestBody("m", "x", true))
		head := client.readUntil(in.heartbeat + "\r\n")
		close(begin)
		body := client.readUntil(in.heartbeat + "\r\n")
		close(middle)
		body += client.readUntil("\r\n0\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 200") || in.text(body, true) != "good" || !strings.Contains(body, in.done) {
			t.Errorf("the client received %s\n%s", head, body)
		}
	})
}

func TestIngressDisconnect(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(w.opening("half")), upstreamtest.AwaitClose(),
		})
		g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
		client := dial(t, g)
		client.postTo(in.pathTo("m", true), "gone", in.requestBody("m", "x", true))
		client.readUntil("half")
		client.reset()
		awaitEnd(t, provider)
		if line := g.Log.Request(t, "gone"); line["status"] != "499" || line["code"] != "client_closed_request" || line["complete"] != "false" {
			t.Errorf("logged as %v", line)
		}
	})
}

func TestIngressShutdown(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		provider := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(w.opening("half")), upstreamtest.AwaitClose(),
		})
		g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
		client := dial(t, g)
		client.postTo(in.pathTo("m", true), "cut", in.requestBody("m", "x", true))
		head := client.readUntil("half")
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // leaves no time for a graceful shutdown
		if err := g.Server.Shutdown(ctx); err == nil {
			t.Error("Shutdown returned no error, although it cut a stream")
		}
		rest := client.readUntil("\r\n0\r\n\r\n")
		if strings.Contains(rest, in.done) || !strings.Contains(rest, in.errorPrefix) {
			t.Errorf("the client received %s\n%s", head, rest)
		}
		if line := g.Log.Request(t, "cut"); line["code"] != "gateway_shutdown" {
			t.Errorf("logged as %v", line)
		}
	})
}

func TestIngressReload(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		proceed := make(chan struct{})
		old := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(w.opening("o")), upstreamtest.Wait(proceed),
			upstreamtest.Chunk(w.says("ld") + w.finish + w.done), upstreamtest.LastChunk(),
		})
		other := answeringProvider(t, upstreamtest.Answer(200, "application/json", w.answer("new"), "Connection: close"))
		g := proxytest.Start(t, w.gatewayConfig(old.URL()))
		client := dial(t, g)
		client.postTo(in.pathTo("m", true), "before", in.requestBody("m", "x", true))
		body := client.readUntil("\"o\"")
		if err := g.Reload(t, w.gatewayConfig(other.URL())); err != nil {
			t.Fatal(err)
		}
		in.wantText(t, g, in.ask(t, g, "m", false), false, "new")
		close(proceed)
		body += client.readUntil("\r\n0\r\n\r\n")
		if in.text(body, true) != "old" || !strings.Contains(body, in.done) {
			t.Errorf("the client received %s", body)
		}
	})
}

// TestIngressForwardsNoHeaders compares the provider's request for a client that sends many headers with one for a
// client that sends none.
//
// covers: M1.9 M1.11 P1.7
func TestIngressForwardsNoHeaders(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", w.answer("good"), "Connection: close"))
		g := proxytest.Start(t, w.gatewayConfig(provider.URL()))
		headers := []string{"anthropic-workspace-id: canary", "anthropic-user-profile-id: canary", "session_id: canary", "conversation_id: canary", "originator: canary", "x-codex-turn-metadata: canary", "x-claude-code-session-id: canary"}
		for _, h := range clientHeaders {
			// Headers that mean something to this API are left out: its key header and, for Messages, anthropic-beta.
			name, _, _ := strings.Cut(h, ":")
			if !strings.EqualFold(name, in.keyHeader) && !(in.isMessages() && name == "Anthropic-Beta") {
				headers = append(headers, h)
			}
		}
		if in.isMessages() && w.plugin != "anthropic" {
			headers = append(headers, "anthropic-beta: canary-2025-01-01")
		}
		in.ask(t, g, "m", false, headers...)
		c := dial(t, g)
		c.send("POST " + in.pathTo("m", false) + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\n" + sized(in.requestBody("m", "x", false)))
		if _, err := http.ReadResponse(c.r, nil); err != nil {
			t.Fatal(err)
		}
		requests := provider.Requests()
		if len(requests) != 2 {
			t.Fatalf("the provider received %d requests, want 2", len(requests))
		}
		if diff := cmp.Diff(requests[1].Head, requests[0].Head); diff != "" {
			t.Errorf("the client's headers change the request to the provider:\n%s", diff)
		}
	})
}
