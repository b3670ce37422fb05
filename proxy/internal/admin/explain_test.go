package admin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func (f *fake) Explain(_ context.Context, r *ExplainRequest) (Explained, error) {
	if r.Model == "missing" {
		return Explained{}, errors.New("no such model")
	}
	return Explained{JSON: []byte(`{"model":"m"}`), Text: fmt.Appendf(nil, "model %s, key %s, api %s, headers %v, %d bytes of body\n", r.Model, r.Key, r.API, r.Headers, len(r.Body))}, nil
}

func TestExplainRoute(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{})
	const valid = `{"model":"m","key":"k","api":"messages","headers":{"x-session-id":"7"},"body":{"model":"m"}}`
	const json, text = "Content-Type: application/json\r\n", "Content-Type: application/json; charset=utf-8\r\nAccept: text/plain\r\n"
	for _, c := range []struct {
		name, header, body string
		status             int
		want               string // part of the response
	}{
		{"json", json, valid, 200, `{"model":"m"}`},
		{"text", text, valid, 200, "model m, key k, api messages, headers map[x-session-id:7], 13 bytes of body\n"},
		{"large body", text, `{"body":"` + strings.Repeat("x", 1<<20) + `"}`, 200, "1048578 bytes of body"},
		{"body null", text, `{"model":"m","body":null,"stream":true}`, 200, "0 bytes of body"},
		{"rejected by the gateway", json, `{"model":"missing"}`, 400, "no such model\n"},
		{"form of another origin", "Content-Type: text/plain\r\n", valid, 415, "must be application/json"},
		{"no content type", "", valid, 415, "must be application/json"},
		{"no body", json, "", 400, "unexpected end of JSON"},
		{"truncated JSON", json, `{"model":"secret words`, 400, "unexpected end of JSON"},
		{"invalid JSON", json, `{"model":secret}`, 400, "invalid JSON at byte 10"},
		{"member of the wrong type", json, `{"headers":{"a":["secret"]}}`, 400, "headers must be of type string"},
		{"unknown member", json, `{"modle":"secret"}`, 400, "unknown member"},
		{"two documents", json, `{} {}`, 400, "more than one JSON document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := sendRaw(t, address, fmt.Sprintf("POST /explain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", c.header, len(c.body), c.body))
			if resp.StatusCode != c.status || !strings.Contains(body, c.want) || strings.Contains(body, "secret") {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
			if wantType := map[bool]string{true: "application/json", false: "text/plain; charset=utf-8"}[c.name == "json"]; c.status != 415 && resp.Header.Get("Content-Type") != wantType {
				t.Errorf("content type %q, want %q", resp.Header.Get("Content-Type"), wantType)
			}
		})
	}
	if resp, _ := sendRaw(t, address, "POST /explain HTTP/1.1\r\nHost: evil.example\r\n"+json+"Content-Length: 2\r\n\r\n{}"); resp.StatusCode != 421 {
		t.Errorf("Host evil.example: status %d, want 421", resp.StatusCode)
	}
	if resp, _ := sendRaw(t, address, "PUT /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT: status %d, allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}

// TestExplainPage checks that the page has one form and one script, which the policy allows by its digest, and loads
// nothing else.
func TestExplainPage(t *testing.T) {
	address, _ := serve(t, &fake{}, Options{})
	resp, page := get(t, address, "/explain")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(page, "<script>"+explainScript+"</script>") {
		t.Fatalf("%d %s", resp.StatusCode, page)
	}
	if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, "script-src "+digest(explainScript)+";") || !strings.Contains(got, "form-action 'none'") {
		t.Errorf("policy %s", got)
	}
	if strings.ContainsAny(explainScript, "<&") || regexp.MustCompile(`innerHTML|eval|document\.write|https?:`).MatchString(explainScript) {
		t.Error("the script contains markup, turns text into markup, or contains a URL")
	}
	all, _ := elements(t, page)
	fields := map[string]string{}
	for _, e := range all {
		if name := e.attrs["name"]; name != "" {
			fields[name] += e.name
		}
		if e.attrs["src"] != "" || e.attrs["action"] != "" || e.attrs["style"] != "" {
			t.Errorf("%+v", e)
		}
	}
	delete(fields, "viewport")
	if got := fmt.Sprint(fields); got != "map[api:select body:textarea headers:textarea key:input model:input]" {
		t.Errorf("fields %s", got)
	}
}

func FuzzExplainRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","headers":{"a":"b"},"body":[1]}`))
	f.Add([]byte(`{"body":null} x`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseExplain(body)
		if (r == nil) != (err != nil) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
