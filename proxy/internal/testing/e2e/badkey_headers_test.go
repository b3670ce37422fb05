package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// shortChatResponse is a provider's non-streaming response.
const shortChatResponse = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`

// clientHeaders are headers of clients, their libraries and proxies that must not reach a provider.
var clientHeaders = []string{
	"X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: evil", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.9", "X-Real-IP: 203.0.113.9",
	"True-Client-IP: 203.0.113.9", "CF-Connecting-IP: 203.0.113.9", "Via: 1.1 somewhere", "X-Request-Id: mine", "Tracestate: canary=1",
	"X-Stainless-Lang: js", "X-Stainless-Retry-Count: 1", "X-Stainless-Timeout: 600", "OpenAI-Organization: org-canary", "OpenAI-Project: proj-canary", "OpenAI-Beta: assistants=v2",
	"Anthropic-Version: 1999-01-01", "Anthropic-Beta: canary", "X-Api-Key: canary", "Api-Key: canary", "X-Goog-Api-Key: canary", "X-Goog-User-Project: canary",
	"X-Amz-Security-Token: canary", "X-Amz-Date: 19990101T000000Z", "X-Amzn-Bedrock-Trace: ENABLED", "HTTP-Referer: https://canary", "X-Title: canary", "Helicone-Auth: canary",
	"Cookie: a=canary", "Proxy-Authorization: Basic canary", "Origin: https://canary", "Referer: https://canary", "User-Agent: canary/1", "Accept: application/canary",
	"Accept-Encoding: br", "Accept-Language: xx", "X-Sluice-Upstream: http://canary", "X-Portkey-Custom-Host: http://canary", "X-Canary: canary",
	"TE: trailers", "Connection: X-Canary", "Idempotency-Key: canary", "X-Should-Retry: true", "X-Gateway-Model: canary",
}

// TestClientHeadersAreNotForwarded checks that the gateway sends the same request for a client without these headers.
//
// covers: F136
func TestClientHeadersAreNotForwarded(t *testing.T) {
	answer := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", shortChatResponse, "Connection: close")}
	provider := upstreamtest.New(t, answer)
	g := proxytest.Start(t, configuration(provider.URL(), provider.URL()))
	for _, model := range []string{"gpt", "claude"} {
		body := strings.Replace(helloUpstream, "gpt", model, 1)
		from := len(provider.Requests())
		g.Do(t, "POST", "/v1/chat/completions?canary=1", body, clientHeaders...)
		c := dial(t, g)
		c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\n" + sized(body))
		if _, err := http.ReadResponse(c.r, nil); err != nil {
			t.Fatal(err)
		}
		requests := provider.Requests()[from:]
		if len(requests) != 2 {
			t.Fatalf("%s: the provider received %d requests, want 2", model, len(requests))
		}
		if diff := cmp.Diff(requests[1].Head, requests[0].Head); diff != "" {
			t.Errorf("%s: the client's headers change the request to the provider:\n%s", model, diff)
		}
		if head := requests[0].Head; strings.Contains(head, "canary/") || strings.Contains(head, "203.0.113.9") || strings.Contains(head, proxytest.Key) {
			t.Errorf("%s: the request to the provider contains a value from the client's headers: %s", model, head)
		}
		if got := string(requests[0].Body); got != string(requests[1].Body) {
			t.Errorf("%s: the body differs: %s", model, got)
		}
	}
	// The log does not use the client's address from the headers either.
	if line := g.Log.Request(t, "mine"); line["remote"] != "127.0.0.1" {
		t.Errorf("the log has the client address %s", line["remote"])
	}
}

// TestRequestIDs checks that the gateway uses a client's request ID only if it is safe in any log.
//
// covers: F136
func TestRequestIDs(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for lines, used := range map[string]bool{
		"":                             false,
		"X-Request-Id: \r\n":           false,
		"X-Request-Id: a\r\n":          true,
		"x-request-id: a-B_9.:/+=\r\n": true,
		"X-Request-Id: " + strings.Repeat("x", 128) + "\r\n": true,
		"X-Request-Id: " + strings.Repeat("x", 129) + "\r\n": false,
		"X-Request-Id: two words\r\n":                        false,
		"X-Request-Id: ünicode\r\n":                          false,
		"X-Request-Id: a\xff\r\n":                            false,
		"X-Request-Id: a\r\nX-Request-Id: b\r\n":             false,
		"X-Request-Id: " + proxytest.Key + "\r\n":            false,
		"X-Request-Id: req-" + proxytest.Key + "\r\n":        false,
	} {
		c := dial(t, g)
		c.send(getHead + lines + "\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, want, _ := strings.Cut(strings.TrimSuffix(lines, "\r\n"), ": ")
		ids := resp.Header.Values("X-Request-Id")
		if len(ids) != 1 || ids[0] == "" || (ids[0] == want) != used {
			t.Errorf("request with %q has the ID %q", lines, ids)
		}
		g.Log.Request(t, ids[0])
	}
}

// TestErrorsDoNotQuoteKeys puts keys in every place of a request. Neither the error nor the log may quote them.
//
// covers: F137
func TestErrorsDoNotQuoteKeys(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	toml := unlimited(configuration(provider.URL(), provider.URL()))
	g := proxytest.Start(t, toml)
	for _, key := range []string{proxytest.Key, "sk-nobody-0123456789abcdef0123456789abcdef", "sk-narrow-0123456789"} {
		head := strings.Replace(postHead, proxytest.Key, key, 1)
		quoted := `"` + key + `"`
		for name, request := range map[string]string{
			"authorization":         head + sized(hello+"x"),
			"authorization, basic":  strings.Replace(head, "Bearer", "Basic", 1) + sized(hello),
			"authorization, bare":   strings.Replace(head, "Bearer ", "", 1) + sized(hello),
			"authorization, twice":  head + "Authorization: Bearer " + key + "\r\n" + sized(hello),
			"authorization, joined": strings.Replace(head, key, key+","+key, 1) + sized(hello),
			"other headers":         strings.Replace(head, "Authorization: Bearer", "X-Api-Key:", 1) + sized(hello),
			"cookie":                strings.Replace(head, "Authorization: Bearer", "Cookie: key=", 1) + sized(hello),
			"a header's name":       head + key + ": x\r\n" + sized(hello+"x"),
			"a broken header":       head + key + "\r\n" + sized(hello),
			"query":                 strings.Replace(head, " HTTP", "?key="+key+" HTTP", 1) + sized(hello+"x"),
			"path":                  strings.Replace(head, "/v1", "/v1/"+key, 1) + sized(hello),
			"path, without a key":   "POST /" + key + " HTTP/1.1\r\nHost: gateway\r\n" + sized(hello),
			"path, escaped":         strings.Replace(head, "/v1", "/"+strings.ReplaceAll(key, "-", "%2d"), 1) + sized(hello),
			"path of a model":       "GET /v1/models/" + key + " HTTP/1.1\r\n" + headerLines(head) + "\r\n",
			"method":                key + " /v1/models HTTP/1.1\r\n" + headerLines(head) + "\r\n",
			"host":                  strings.Replace(head, "Host: gateway", "Host: "+key+"@gateway", 1) + sized(hello),
			"url":                   strings.Replace(head, "/v1", "http://"+key+"@gateway/v1", 1) + sized(hello),
			"version":               strings.Replace(head, "HTTP/1.1", key, 1) + sized(hello),
			"content type":          strings.Replace(head, "application/json", "text/"+key, 1) + sized(hello),
			"charset":               strings.Replace(head, "application/json", "application/json; charset="+key, 1) + sized(hello),
			"content encoding":      head + "Content-Encoding: " + key + "\r\n" + sized(hello),
			"transfer encoding":     head + "Transfer-Encoding: " + key + "\r\n\r\n",
			"content length":        head + "Content-Length: " + key + "\r\n\r\n",
			"expect":                head + "Expect: " + key + "\r\n" + sized(hello),
			"chunk":                 head + "Transfer-Encoding: chunked\r\n\r\n" + key + "\r\n",
			"trailer":               head + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + key + "\r\n\r\n",
			"body":                  head + sized(key),
			"body, as a form":       head + sized("key="+key),
			"model":                 head + sized(requestForModel(quoted)),
			"model, in the middle":  head + sized(requestForModel(`"x`+key+`y"`)),
			"role":                  head + sized(requestWithMessages(`{"role":`+quoted+`,"content":"x"}`)),
			"a member's name":       head + sized(requestWith(`,"metadata":{`+quoted+`:5}`)),
			"a member's name twice": head + sized(requestWith(`,`+quoted+`:1,`+quoted+`:2`)),
			"tool choice":           head + sized(requestWith(`,"tools":[],"tool_choice":`+quoted)),
			"reasoning effort":      head + sized(requestWith(`,"reasoning_effort":`+quoted)),
			"tool call's id":        head + sized(requestWithMessages(`{"role":"user","content":"x"},{"role":"tool","tool_call_id":`+quoted+`,"content":"x"}`)),
			"number":                head + sized(requestWith(`,"max_tokens":`+quoted)),
			"response format":       head + sized(requestWith(`,"response_format":{"type":`+quoted+`}`)),
			"bias":                  head + sized(requestWith(`,"logit_bias":{`+quoted+`:"x"}`)),
		} {
			t.Run(name, func(t *testing.T) {
				c := dial(t, g)
				c.send(request)
				resp, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Fatal(err)
				}
				var response strings.Builder
				if err := resp.Write(&response); err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode < 400 {
					t.Errorf("the request is not rejected: %s", response.String())
				}
				if strings.Contains(response.String(), key) {
					t.Errorf("the response contains the key: %s", response.String())
				}
				g.Log.Request(t, resp.Header.Get("X-Request-Id"))
			})
		}
		if log := g.Log.String(); strings.Contains(log, key) || strings.Contains(log, strings.ReplaceAll(key, "-", "%2d")) {
			i := slices.IndexFunc(g.Log.Lines(), func(l proxytest.Line) bool {
				for _, v := range l {
					if strings.Contains(v, key) {
						return true
					}
				}
				return false
			})
			t.Errorf("the log contains the key: %v", g.Log.Lines()[max(i, 0)])
		}
	}
}
