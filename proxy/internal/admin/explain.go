package admin

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// ExplainRequest describes a client's request, to explain how it would be routed.
type ExplainRequest struct {
	Model   string            `json:"model"`   // optional if the body contains the model
	Key     string            `json:"key"`     // name of the client's key; "" if no key is required
	API     string            `json:"api"`     // API that the client uses; "" means chat
	Headers map[string]string `json:"headers"` // headers of the client's request
	Body    json.RawMessage   `json:"body"`    // nil and null mean a short prompt
	Stream  bool              `json:"stream"`  // asks for a stream, if the body does not say so: in the Gemini API, or without a body
	Random  string            `json:"random"`  // random number from x-gateway-route; "" gives the odds instead
}

// Explained is the explanation of how a request would be routed, as JSON and as text.
type Explained struct{ JSON, Text []byte }

// explainScript sends the form of the page and shows the response as text.
//
//go:embed explain.js
var explainScript string

// explainPolicy is the Content-Security-Policy of the page with the form.
var explainPolicy = pagePolicy(explainScript)

// maxExplain is the maximum size of a request to /explain, in bytes.
const maxExplain = 2 << 20

// explain serves the page with the form, and responds to POST requests such as the form's.
func (s *Server) explain(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() {
		setPageHeaders(ctx, explainPolicy)
		ctx.Response.SetBodyRaw(appendExplainPage(nil))
		return
	}
	// A page of another origin can send this content type only after a CORS preflight request, which fails.
	if t, _, _ := strings.Cut(string(ctx.Request.Header.ContentType()), ";"); !strings.EqualFold(strings.TrimSpace(t), "application/json") {
		respondText(ctx, fasthttp.StatusUnsupportedMediaType, "The content type must be application/json.")
		return
	}
	request, err := parseExplain(ctx.PostBody())
	var explained Explained
	if err == nil {
		explained, err = s.o.Gateway.Explain(ctx, request)
	}
	if err != nil {
		respondText(ctx, fasthttp.StatusBadRequest, err.Error())
		return
	}
	if strings.HasPrefix(string(ctx.Request.Header.Peek("accept")), "text/plain") {
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.Response.SetBodyRaw(explained.Text)
		return
	}
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(explained.JSON)
}

// parseExplain parses the body of a POST request to /explain.
func parseExplain(body []byte) (*ExplainRequest, error) {
	var r ExplainRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf(`invalid request, want an object such as {"model": "…", "key": "…", "api": "chat", "headers": {}, "body": {}}: %w`, redactJSONError(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("invalid request: more than one JSON document")
	}
	if string(r.Body) == "null" {
		r.Body = nil
	}
	return &r, nil
}

// redactJSONError replaces an error of encoding/json by one that quotes nothing from the document.
func redactJSONError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("%s must be of type %s", kind.Field, kind.Type)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("unexpected end of JSON")
	}
	return errors.New("unknown member")
}

// appendExplainPage appends the page with the form.
func appendExplainPage(dst []byte) []byte {
	m := &markup{dst}
	m.head("Sluice: explain", false)
	m.put(`<header><h1>Sluice</h1><span>How a request would be routed</span><span class="right"><a href="/">status</a></span></header><main>`)
	m.put(`<form id="ask" class="card form">`)
	m.put(`<label>Model <input name="model" required="required" autofocus="autofocus" autocomplete="off"/></label>`)
	m.put(`<label>Key <input name="key" placeholder="name of the key, not its secret" autocomplete="off"/></label>`)
	m.put(`<label>API <select name="api">`)
	for _, api := range config.APINames() {
		m.put(`<option>$</option>`, api)
	}
	m.put(`</select></label>`)
	m.put(`<label class="long">Headers <textarea name="headers" rows="2" placeholder="x-session-id: abc" spellcheck="false"></textarea></label>`)
	m.put(`<label class="long">Body <textarea name="body" rows="8" placeholder="a request as JSON; if empty, a short prompt" spellcheck="false"></textarea></label>`)
	m.put(`<button>Explain</button></form>`)
	m.put(`<noscript><p class="note">This form requires JavaScript. Without it, use sluice explain --admin or POST /explain.</p></noscript>`)
	m.put(`<pre id="answer" class="card" role="status" hidden="hidden"></pre></main>`)
	m.put(`<footer>No request is sent to a provider, and nothing is counted. The body is neither stored nor shown.</footer><script>`)
	m.b = append(m.b, explainScript...)
	m.put(`</script></body></html>`)
	return m.b
}
