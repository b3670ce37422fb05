package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// headerLines returns a head without its first line.
func headerLines(head string) string {
	_, lines, _ := strings.Cut(head, "\r\n")
	return lines
}

// covers: F109
func TestWrongMethods(t *testing.T) { runVectors(t, methodVectors()) }

func methodVectors() []vector {
	var vectors []vector
	for path, allow := range map[string]string{"/v1/chat/completions": "POST", "/v1/models": "GET, HEAD", "/v1/models/demo": "GET, HEAD"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "post", "Get", "X", strings.Repeat("M", 5000)} {
			if strings.Contains(", "+allow+",", ", "+method+",") {
				continue
			}
			vectors = append(vectors, vector{
				name: fmt.Sprintf("%.8s %s", method, path), send: method + " " + path + " HTTP/1.1\r\n" + headerLines(postHead) + sized(helloUpstream),
				status: 405, code: "method_not_allowed", conn: connStays, headers: []string{"Allow: " + allow}, message: "supports " + allow,
			})
		}
	}
	// A CORS preflight request, which is rejected because browsers must not have access.
	vectors = append(vectors, vector{
		name: "preflight", send: "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nOrigin: https://example.com\r\nAccess-Control-Request-Method: POST\r\n\r\n",
		status: 405, code: "method_not_allowed", conn: connStays, headers: []string{"Allow: POST", "Access-Control-Allow-Origin: "},
	})
	return vectors
}

// TestHeadHasNoBody compares HEAD with GET.
//
// covers: F109
func TestHeadHasNoBody(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, path := range []string{"/v1/models", "/v1/models/demo", "/v1/models/nobody"} {
		got, head := g.Do(t, "GET", path, ""), g.Do(t, "HEAD", path, "")
		if head.Status != got.Status || head.Body != "" || head.Header.Get("Content-Length") != fmt.Sprint(len(got.Body)) {
			t.Errorf("HEAD %s: got status %d, body %q and headers %v, want status %d, no body and the Content-Length of GET", path, head.Status, head.Body, head.Header, got.Status)
		}
		g.Log.Request(t, head.RequestID())
	}
}

// covers: F110 F125
func TestUnusualPaths(t *testing.T) { runVectors(t, pathVectors()) }

func pathVectors() []vector {
	var vectors []vector
	for _, path := range []string{
		"/", "//", "/v1", "/v1/", "/v1/chat", "/v1/chat/", "//v1/chat/completions", "/v1//chat/completions", "/v1/chat//completions",
		"/v1/chat/completions/", "/v1/chat/completions//", "/v1/chat/completions/x", "/v1/./chat/completions", "/v1/../v1/chat/completions",
		"/../v1/chat/completions", "/x/../v1/chat/completions", "/v1/../admin", "/v1/../metrics", "/v1/%2e%2e/admin", "/v1/%2e%2e/v1/chat/completions",
		"/v1/chat%2fcompletions", "/v1%2fchat%2fcompletions", "/%2fv1/chat/completions", "/v1/chat/completions%2f", "/v1/chat/completions%00",
		"/v1/chat/completions%20", "/v1/chat/completions;", "/v1/chat/completions;x=y", "/v1;x/chat/completions", "/v1/chat/completions.json",
		"/V1/chat/completions", "/v1/Chat/Completions", "/v1/chat/COMPLETIONS", "/%76%31/chat/completions", "/v1/chat/completion%73",
		`/v1\chat\completions`, `/v1/chat\completions`, "/v1/chat/completions#x", "/v1/chat/completions%3fx", "/v1/chat/completions%0d%0aX:%20y",
		"/v1/chat/complétions", "/v1/chat/completions\xff", "/v2/chat/completions", "/chat/completions", "/v1/v1/chat/completions",
		"/v1/audio/speech", "/v1/embedding", "/v1/embeddings/", "/v2/embeddings", "/v3/rerank", "/v1/modelsx", "/v1/model", "/%c0%ae%c0%ae/metrics",
		"/metrics", "/healthz", "/readyz", "/status", "/debug/pprof/", "/admin", "/favicon.ico", "/.env", "/.git/config",
		"/" + strings.Repeat("x", 8000), strings.Repeat("/x", 4000),
	} {
		for _, method := range []string{"POST", "GET"} {
			vectors = append(vectors, vector{
				name: fmt.Sprintf("%s %.40q", method, path), send: method + " " + path + " HTTP/1.1\r\n" + headerLines(postHead) + sized(helloUpstream),
				status: 404, code: "unknown_url", conn: connStays, message: "The gateway serves POST /v1/chat/completions",
			})
		}
	}
	for _, line := range []string{"OPTIONS * HTTP/1.1", "CONNECT gateway:443 HTTP/1.1"} {
		vectors = append(vectors, vector{name: line, send: line + "\r\n" + headerLines(postHead) + "\r\n", status: 404, code: "unknown_url", conn: connStays})
	}
	// The rest of a path below /v1/models/ is the name of a model, whatever it contains.
	for _, id := range []string{"../metrics", "%2e%2e/metrics", "..%2fmetrics", "demo/", "demo%00", "demo;x", "DEMO", "%zz", "", "/", "*", strings.Repeat("x", 8000)} {
		vectors = append(vectors, vector{
			name: fmt.Sprintf("a model named %.20q", id), send: "GET /v1/models/" + id + " HTTP/1.1\r\n" + headerLines(getHead) + "\r\n",
			status: 404, code: "model_not_found", conn: connStays,
		})
	}
	return vectors
}

// TestPathsAreSanitised checks that the log does not show the parts of a path that may be secret, and that the client
// sees the whole path except what is likely to be a key.
//
// covers: F110
func TestPathsAreSanitised(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for path, want := range map[string]struct{ logged, shown string }{
		"/v1/embeddings/":            {"/v1/embeddings/", "/v1/embeddings/"},
		"/v1/v1/chat/completions":    {"/v1/v1/chat/completions", "/v1/v1/chat/completions"},
		"/v1/sk-canary-0123/models":  {"/v1/*/models", "/v1/*/models"},
		"/v1/chat/completions/":      {"/v1/chat/completions/", "/v1/chat/completions/"},
		"/team-7/v1/messages":        {"/*/v1/messages", "/team-7/v1/messages"},
		"/v1?key=sk-canary-0123":     {"/v1", "/v1"},
		strings.Repeat("/v1", 20):    {strings.Repeat("/v1", 8) + "/…", strings.Repeat("/v1", 20)},
		strings.Repeat("/v1", 200):   {strings.Repeat("/v1", 8) + "/…", strings.Repeat("/v1", 200)[:512] + "…"},
		"/\u202e/" + "%0d%0ax=y":     {"/*/*", `/%E2%80%AE/%0D%0Ax=y`},
		"/openai/deployments/x/chat": {"/openai/deployments/*/chat", "/openai/deployments/x/chat"},
	} {
		r := g.Do(t, "GET", path, "")
		if line := g.Log.Request(t, r.RequestID()); line["cause"] != "no such path: "+want.logged {
			t.Errorf("%s: the log has the cause %q", path, line["cause"])
		}
		var e struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(r.Body), &e); err != nil || !strings.HasPrefix(e.Error.Message, "Unknown URL: GET "+want.shown+". ") {
			t.Errorf("%s: the client receives %s", path, r.Body)
		}
	}
	if strings.Contains(g.Log.String(), "canary") {
		t.Error("the log has the secret")
	}
}

// covers: F105
func TestAbsoluteRequestTarget(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, url := range []string{"http://gateway/v1/models", "HTTP://GATEWAY/v1/models?x", "https://gateway/v1/models"} {
		c := dial(t, g)
		c.send("GET " + url + " HTTP/1.1\r\n" + headerLines(getHead) + "\r\n")
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: %v, %v", url, resp, err)
		}
	}
	c := dial(t, g)
	c.send("GET http://gateway HTTP/1.1\r\n" + headerLines(getHead) + "\r\n")
	if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 404 {
		t.Errorf("no path: %v, %v", resp, err)
	}
}

// covers: F111 F121
func TestExpectations(t *testing.T) { runVectors(t, expectVectors()) }

func expectVectors() []vector {
	const length = "Content-Length: 100\r\n"
	unkeyed := strings.Replace(postHead, proxytest.Key, "sk-nobody", 1)
	var vectors []vector
	// All of these wait for 100 Continue before they send their bodies, and get a final response instead.
	for i, v := range []vector{
		{name: "no key", send: "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n", status: 401, code: "missing_api_key", headers: []string{"Www-Authenticate: Bearer"}},
		{name: "a wrong key", send: unkeyed, status: 401, code: "invalid_api_key", headers: []string{"Www-Authenticate: Bearer"}},
		{name: "two keys", send: postHead + "Authorization: Bearer x\r\n", status: 400, code: "duplicate_authorization"},
		{name: "a wrong path", send: strings.Replace(postHead, "chat/", "nowhere/", 1), status: 404, code: "unknown_url"},
		{name: "a wrong method", send: strings.Replace(postHead, "POST", "PUT", 1), status: 405, code: "method_not_allowed"},
		{name: "a bad head", send: strings.Replace(postHead, "Host: gateway", "Host: user@gateway", 1), status: 400, code: "bad_request"},
	} {
		id := fmt.Sprint("mine-", i)
		v.send += "X-Request-Id: " + id + "\r\nExpect: 100-Continue\r\n" + length + "\r\n"
		v.headers = append(v.headers, "X-Request-Id: "+id)
		vectors = append(vectors, v)
	}
	for _, e := range []string{"the-unexpected", "100-continue, the-unexpected", "200-ok", "100-continue\r\nExpect: the-unexpected", "the-unexpected\r\nExpect: 100-continue"} {
		vectors = append(vectors, vector{name: fmt.Sprintf("Expect: %q", e), send: postHead + "Expect: " + e + "\r\n" + length + "\r\n", status: 417, code: "expectation_failed"})
	}
	vectors = append(vectors, vector{
		name: "too large", send: postHead + "Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n", status: 413, code: "request_too_large", message: "1048576",
	})
	return vectors
}

// TestExpectContinue sends a valid request with Expect, and one over HTTP/1.0, which gets no interim response.
//
// covers: F111
func TestExpectContinue(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	c := dial(t, g)
	c.send(postHead + fmt.Sprintf("Expect: 100-Continue\r\nContent-Length: %d\r\n\r\n", len(hello)))
	c.readUntil("HTTP/1.1 100 Continue\r\n\r\n")
	c.send(hello)
	if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	old := dial(t, g)
	old.send(strings.Replace(postHead, "HTTP/1.1", "HTTP/1.0", 1) + "Expect: 100-continue\r\n" + sized(hello))
	if resp, err := http.ReadResponse(old.r, nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("HTTP/1.0: %v, %v", resp, err)
	}
}

// TestUpgradesAreIgnored checks that requests to upgrade the protocol get ordinary HTTP/1.1 responses.
//
// covers: F112
func TestUpgradesAreIgnored(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for name, headers := range map[string]string{
		"h2c":                         "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
		"websocket":                   "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
		"TLS":                         "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
		"no Upgrade":                  "Connection: Upgrade\r\n",
		"Upgrade alone":               "Upgrade: h2c\r\n",
		"connection-specific headers": "Connection: Authorization, Content-Length, keep-alive\r\n",
	} {
		for _, request := range []string{getHead + headers + "\r\n", postHead + headers + sized(hello)} {
			c := dial(t, g)
			for range 2 {
				c.send(request)
				resp, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != 200 || resp.Proto != "HTTP/1.1" || resp.Header.Get("Upgrade") != "" {
					t.Errorf("%s: got %s %d and headers %v, want HTTP/1.1 200 without Upgrade", name, resp.Proto, resp.StatusCode, resp.Header)
				}
			}
		}
	}
}
