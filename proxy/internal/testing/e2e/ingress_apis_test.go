package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// ingress is an API in which clients ask: what all of them promise is tested over all of them.
type ingress struct {
	name, path string
	stream     string // the path for a stream, if that is another one; both have the model as %s
	model      string // where a request has the model: the rest of one with the text %q
	delta      string // begins the text of an event of a stream
	whole      string // begins the text of a response
	done       string // in the last frame of a stream that is complete, and in no other stream
	failed     string // begins the frame of a stream that ends with an error
	heartbeat  string
	overloaded int    // the status for an overload
	keyHeader  string // where keys may be besides Authorization, if anywhere
}

// isMessages reports whether errors and IDs are those of Messages.
func (in *ingress) isMessages() bool { return in.name == "messages" }

// isGemini reports whether the model and the wish for a stream are in the path, and errors are Google's.
func (in *ingress) isGemini() bool { return in.stream != "" }

// pathTo is the path of a request.
func (in *ingress) pathTo(model string, stream bool) string {
	switch {
	case !in.isGemini():
		return in.path
	case stream:
		return fmt.Sprintf(in.stream, model)
	}
	return fmt.Sprintf(in.path, model)
}

var ingresses = []*ingress{
	{
		name: "chat", path: "/v1/chat/completions", model: `"messages":[{"role":"user","content":%q}]`,
		delta: `"content":"`, whole: `"content":"`, done: "data: [DONE]\n\n", failed: `data: {"error":`, heartbeat: ": keep-alive\n", overloaded: 503,
	},
	{
		name: "messages", path: "/v1/messages?beta=true", model: `"max_tokens":1000,"messages":[{"role":"user","content":%q}]`,
		delta: `"type":"text_delta","text":"`, whole: `"type":"text","text":"`, done: "event: message_stop\n", failed: "event: error\n",
		heartbeat: "event: ping\ndata: {\"type\":\"ping\"}\n\n", overloaded: 529, keyHeader: "x-api-key",
	},
	{
		name: "responses", path: "/v1/responses", model: `"input":%q`,
		delta: `"delta":"`, whole: `"text":"`, done: "event: response.completed\n", failed: "event: response.failed\n", heartbeat: ": keep-alive\n\n", overloaded: 503,
	},
	{
		name: "gemini", path: "/v1beta/models/%s:generateContent", stream: "/v1beta/models/%s:streamGenerateContent?alt=sse",
		model: `"contents":[{"role":"user","parts":[{"text":%q}]}]`,
		delta: `"parts":[{"text":"`, whole: `"parts":[{"text":"`, done: `"finishReason":"STOP"`, failed: `data: {"error":`, heartbeat: "\r\n\n\n", overloaded: 503,
		keyHeader: "x-goog-api-key",
	},
}

// overIngresses runs a test over every API.
func overIngresses(t *testing.T, test func(t *testing.T, in *ingress)) {
	for _, in := range ingresses {
		t.Run(in.name, func(t *testing.T) { test(t, in) })
	}
}

// overIngressesAndWires runs a test over every API in front of providers that speak each of the dialects: a gateway has the model
// "m" at the provider.
func overIngressesAndWires(t *testing.T, test func(t *testing.T, in *ingress, w *wire)) {
	overIngresses(t, func(t *testing.T, in *ingress) {
		for _, w := range wires {
			t.Run(w.plugin, func(t *testing.T) { test(t, in, w) })
		}
	})
}

// named is the configuration of a provider.
func (w *wire) named(name, url, more string) string {
	return fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-upstream-one-canary\" }\n%s\n", name, w.plugin, url, more)
}

// at is the configuration of a gateway with the model "m" at a provider.
func (w *wire) at(url string) string {
	return configuration("", "") + w.named("one", url, `timeout = { connect = "2s", first_byte = "3s", idle = "3s", total = "30s" }
breaker = { enabled = false }`) + model("m", "one/m")
}

// asking is the body of a request.
func (in *ingress) asking(model, text string, stream bool) string {
	if in.isGemini() {
		return fmt.Sprintf("{"+in.model+"}", text)
	}
	return fmt.Sprintf(`{"model":%q,`+in.model+`,"stream":%v}`, model, text, stream)
}

func (in *ingress) ask(t *testing.T, g *proxytest.Gateway, model string, stream bool, headers ...string) *proxytest.Reply {
	t.Helper()
	return g.Do(t, "POST", in.pathTo(model, stream), in.asking(model, "x", stream), headers...)
}

// loggedPath is the path without the model and the query.
func (in *ingress) loggedPath(stream bool) string {
	path, _, _ := strings.Cut(in.pathTo("{model}", stream), "?")
	return path
}

// text joins the text of a response.
func (in *ingress) text(body string, stream bool) string {
	begin := in.whole
	if stream {
		begin = in.delta
	}
	var b strings.Builder
	for _, piece := range strings.Split(body, begin)[1:] {
		b.WriteString(piece[:strings.IndexByte(piece, '"')])
	}
	return b.String()
}

// wantText checks a good response, and how it was accounted.
func (in *ingress) wantText(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, stream bool, text string) {
	t.Helper()
	if r.Err != nil || r.Status != 200 || in.text(r.Body, stream) != text {
		t.Errorf("status %d, %v: text %q, want %q in\n%s", r.Status, r.Err, in.text(r.Body, stream), text, r.Body)
	}
	contentType := "application/json"
	if stream {
		contentType = "text/event-stream; charset=utf-8"
		if strings.Count(r.Body, in.done) != 1 || strings.Contains(r.Body, in.failed) {
			t.Errorf("the stream is not complete:\n%s", r.Body)
		}
	}
	if got := r.Header.Get("Content-Type"); got != contentType {
		t.Errorf("content type %s, want %s", got, contentType)
	}
	in.wantID(t, r)
	line := g.Log.Request(t, r.RequestID())
	if line["path"] != in.loggedPath(stream) || line["status"] != "200" || line["complete"] != "true" || line["stream"] != fmt.Sprint(stream) {
		t.Errorf("accounted as %v", line)
	}
}

func (in *ingress) wantID(t *testing.T, r *proxytest.Reply) {
	t.Helper()
	if id := r.Header.Get("Request-Id"); r.RequestID() == "" || in.isMessages() && id != r.RequestID() || !in.isMessages() && id != "" {
		t.Errorf("x-request-id %q, request-id %q", r.RequestID(), id)
	}
}

// errorTypes are the types of errors of Messages, by their status.
var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large",
	415: "invalid_request_error", 429: "rate_limit_error", 431: "invalid_request_error", 502: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

// wantRefusal checks an error response in the API's own form, and how it was accounted. code is what the log has, and the client of
// an API whose errors have codes: the type of an error without one.
func (in *ingress) wantRefusal(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, status int, code string) (message string) {
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
			t.Errorf("not a %d of Google's with the reason %q and the request's ID: %s", status, code, r.Body)
		}
	case !in.isMessages() && body.Error.Code != code && !(body.Error.Code == nil && body.Error.Type == code):
		t.Errorf("code %q, want %q: %s", body.Error.Code, code, r.Body)
	case in.isMessages() && (body.Type != "error" || body.Error.Type != errorTypes[status] || body.RequestID != r.RequestID()):
		t.Errorf("not a %s of Messages with the request's ID: %s", errorTypes[status], r.Body)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %s", got)
	}
	in.wantID(t, r)
	line := g.Log.Request(t, r.RequestID())
	if line["status"] != fmt.Sprint(status) || line["code"] != code {
		t.Errorf("accounted as %v, want status %d and code %q", line, status, code)
	}
	return body.Error.Message
}
