package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// ingress is a client API. What all client APIs guarantee is tested with each of them.
type ingress struct {
	name, path  string
	streamPath  string // path of streaming requests, if it differs; both contain the model as %s
	contents    string // members of a request's body that hold its text, which is %q
	deltaPrefix string // precedes the text in an event of a stream
	textPrefix  string // precedes the text in a non-streaming response
	done        string // occurs once in a complete stream, in its last frame, and in no other stream
	errorPrefix string // begins the frame that ends a stream with an error
	heartbeat   string
	overloaded  int    // HTTP status of an overload
	keyHeader   string // header for keys besides Authorization, if there is one
}

// isMessages reports whether errors and IDs have the form of Messages.
func (in *ingress) isMessages() bool { return in.name == "messages" }

// isGemini reports whether the path selects the model and streaming, and errors have Google's form.
func (in *ingress) isGemini() bool { return in.streamPath != "" }

// pathTo returns the path of a request for a model.
func (in *ingress) pathTo(model string, stream bool) string {
	switch {
	case !in.isGemini():
		return in.path
	case stream:
		return fmt.Sprintf(in.streamPath, model)
	}
	return fmt.Sprintf(in.path, model)
}

var ingresses = []*ingress{
	{
		name: "chat", path: "/v1/chat/completions", contents: `"messages":[{"role":"user","content":%q}]`,
		deltaPrefix: `"content":"`, textPrefix: `"content":"`, done: "data: [DONE]\n\n", errorPrefix: `data: {"error":`, heartbeat: ": keep-alive\n", overloaded: 503,
	},
	{
		name: "messages", path: "/v1/messages?beta=true", contents: `"max_tokens":1000,"messages":[{"role":"user","content":%q}]`,
		deltaPrefix: `"type":"text_delta","text":"`, textPrefix: `"type":"text","text":"`, done: "event: message_stop\n", errorPrefix: "event: error\n",
		heartbeat: "event: ping\ndata: {\"type\":\"ping\"}\n\n", overloaded: 529, keyHeader: "x-api-key",
	},
	{
		name: "responses", path: "/v1/responses", contents: `"input":%q`,
		deltaPrefix: `"delta":"`, textPrefix: `"text":"`, done: "event: response.completed\n", errorPrefix: "event: response.failed\n", heartbeat: ": keep-alive\n\n", overloaded: 503,
	},
	{
		name: "gemini", path: "/v1beta/models/%s:generateContent", streamPath: "/v1beta/models/%s:streamGenerateContent?alt=sse",
		contents:    `"contents":[{"role":"user","parts":[{"text":%q}]}]`,
		deltaPrefix: `"parts":[{"text":"`, textPrefix: `"parts":[{"text":"`, done: `"finishReason":"STOP"`, errorPrefix: `data: {"error":`, heartbeat: "\r\n\n\n", overloaded: 503,
		keyHeader: "x-goog-api-key",
	},
}

// forEachIngress runs a test with every client API.
func forEachIngress(t *testing.T, test func(t *testing.T, in *ingress)) {
	for _, in := range ingresses {
		t.Run(in.name, func(t *testing.T) { test(t, in) })
	}
}

// forEachIngressAndWire runs a test with every client API in front of providers of every dialect.
func forEachIngressAndWire(t *testing.T, test func(t *testing.T, in *ingress, w *wire)) {
	forEachIngress(t, func(t *testing.T, in *ingress) {
		for _, w := range wires {
			t.Run(w.plugin, func(t *testing.T) { test(t, in, w) })
		}
	})
}

// providerConfig returns the configuration of a provider.
func (w *wire) providerConfig(name, url, more string) string {
	return fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-upstream-one-canary\" }\n%s\n", name, w.plugin, url, more)
}

// gatewayConfig returns the configuration of a gateway with the model "m" at a provider.
func (w *wire) gatewayConfig(url string) string {
	return configuration("", "") + w.providerConfig("one", url, `timeout = { connect = "2s", first_byte = "3s", idle = "3s", total = "30s" }
breaker = { enabled = false }`) + modelWithTargets("m", "one/m")
}

// requestBody returns the body of a request.
func (in *ingress) requestBody(model, text string, stream bool) string {
	if in.isGemini() {
		return fmt.Sprintf("{"+in.contents+"}", text)
	}
	return fmt.Sprintf(`{"model":%q,`+in.contents+`,"stream":%v}`, model, text, stream)
}

func (in *ingress) ask(t *testing.T, g *proxytest.Gateway, model string, stream bool, headers ...string) *proxytest.Reply {
	t.Helper()
	return g.Do(t, "POST", in.pathTo(model, stream), in.requestBody(model, "x", stream), headers...)
}

// loggedPath returns the path as it is logged, without the model and the query.
func (in *ingress) loggedPath(stream bool) string {
	path, _, _ := strings.Cut(in.pathTo("{model}", stream), "?")
	return path
}

// text returns the text of a response, joined if it is a stream.
func (in *ingress) text(body string, stream bool) string {
	begin := in.textPrefix
	if stream {
		begin = in.deltaPrefix
	}
	var b strings.Builder
	for _, piece := range strings.Split(body, begin)[1:] {
		b.WriteString(piece[:strings.IndexByte(piece, '"')])
	}
	return b.String()
}

// wantText checks a successful response and its line in the access log.
func (in *ingress) wantText(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, stream bool, text string) {
	t.Helper()
	if r.Err != nil || r.Status != 200 || in.text(r.Body, stream) != text {
		t.Errorf("status %d, %v: text %q, want %q in\n%s", r.Status, r.Err, in.text(r.Body, stream), text, r.Body)
	}
	contentType := "application/json"
	if stream {
		contentType = "text/event-stream; charset=utf-8"
		if strings.Count(r.Body, in.done) != 1 || strings.Contains(r.Body, in.errorPrefix) {
			t.Errorf("the stream is incomplete:\n%s", r.Body)
		}
	}
	if got := r.Header.Get("Content-Type"); got != contentType {
		t.Errorf("Content-Type %s, want %s", got, contentType)
	}
	in.wantID(t, r)
	line := g.Log.Request(t, r.RequestID())
	if line["path"] != in.loggedPath(stream) || line["status"] != "200" || line["complete"] != "true" || line["stream"] != fmt.Sprint(stream) {
		t.Errorf("logged as %v", line)
	}
}

func (in *ingress) wantID(t *testing.T, r *proxytest.Reply) {
	t.Helper()
	if id := r.Header.Get("Request-Id"); r.RequestID() == "" || in.isMessages() && id != r.RequestID() || !in.isMessages() && id != "" {
		t.Errorf("x-request-id %q, request-id %q", r.RequestID(), id)
	}
}

// errorTypes has the types of Messages errors by HTTP status.
var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large",
	415: "invalid_request_error", 429: "rate_limit_error", 431: "invalid_request_error", 502: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

// permanentErrors are the codes of errors of status 500 and above that clients should not retry.
var permanentErrors = map[string]bool{"upstream_auth_failed": true, "upstream_billing": true, "upstream_not_found": true, "http_version_not_supported": true}

// wantError checks an error response in the form of the API, and its line in the access log. code is the error's code
// in the log and in the response; where the response has no code, its type is compared.
func (in *ingress) wantError(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, status int, code string) (message string) {
	t.Helper()
	if status == 503 {
		status = in.overloaded
	}
	var body struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct {
			Type, Message, Status string
			Code                  any
		}
	}
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
		t.Fatalf("status %d: %v in %s", r.Status, err, r.Body)
	}
	switch {
	case r.Status != status, body.Error.Message == "":
		t.Errorf("status %d, want %d: %s", r.Status, status, r.Body)
	case in.isGemini():
		if body.Error.Code != float64(status) || body.Error.Status == "" || !strings.Contains(r.Body, fmt.Sprintf(`"reason":%q`, strings.ToUpper(code))) || !strings.Contains(r.Body, r.RequestID()) {
			t.Errorf("want an error of Google's form with status %d, reason %q and the request ID: %s", status, code, r.Body)
		}
	case !in.isMessages() && body.Error.Code != code && !(body.Error.Code == nil && body.Error.Type == code):
		t.Errorf("code %q, want %q: %s", body.Error.Code, code, r.Body)
	case in.isMessages() && (body.Type != "error" || body.Error.Type != errorTypes[status] || body.RequestID != r.RequestID()):
		t.Errorf("want a Messages error of type %s with the request ID: %s", errorTypes[status], r.Body)
	}
	if permanent := permanentErrors[code] || status < 500 && status != 408 && status != 409 && status != 429; permanent != (r.Header.Get("X-Should-Retry") == "false") &&
		!(status == 429 && r.Header.Get("Retry-After") == "") {
		t.Errorf("%d %s: x-should-retry %q", status, code, r.Header.Get("X-Should-Retry"))
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %s, want application/json", got)
	}
	in.wantID(t, r)
	line := g.Log.Request(t, r.RequestID())
	if line["status"] != fmt.Sprint(status) || line["code"] != code {
		t.Errorf("logged as %v, want status %d and code %q", line, status, code)
	}
	return body.Error.Message
}
