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
	const asked = `{"model":"m","key":"k","api":"messages","headers":{"x-session-id":"7"},"body":{"model":"m"}}`
	const json, text = "Content-Type: application/json\r\n", "Content-Type: application/json; charset=utf-8\r\nAccept: text/plain\r\n"
	for _, c := range []struct {
		name, header, body string
		status             int
		want               string // a part of the response
	}{
		{"json", json, asked, 200, `{"model":"m"}`},
		{"text", text, asked, 200, "model m, key k, api messages, headers map[x-session-id:7], 13 bytes of body\n"},
		{"large body", text, `{"body":"` + strings.Repeat("x", 1<<20) + `"}`, 200, "1048578 bytes of body"},
		{"refused by the gateway", json, `{"model":"missing"}`, 400, "no such model\n"},
		{"form of another origin", "Content-Type: text/plain\r\n", asked, 415, "must be application/json"},
		{"no type", "", asked, 415, "must be application/json"},
		{"no body", json, "", 400, "unexpected end of JSON"},
		{"no JSON", json, `{"model":"secret words`, 400, "unexpected end of JSON"},
		{"broken JSON", json, `{"model":secret}`, 400, "invalid JSON at byte 10"},
		{"another type", json, `{"headers":{"a":["secret"]}}`, 400, "headers must be of type string"},
		{"unknown member", json, `{"modle":"secret"}`, 400, "unknown member"},
		{"two documents", json, `{} {}`, 400, "more than one JSON document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := raw(t, address, fmt.Sprintf("POST /explain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", c.header, len(c.body), c.body))
			if resp.StatusCode != c.status || !strings.Contains(body, c.want) || strings.Contains(body, "secret") {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
			if wantType := map[bool]string{true: "application/json", false: "text/plain; charset=utf-8"}[c.name == "json"]; c.status != 415 && resp.Header.Get("Content-Type") != wantType {
				t.Errorf("type %q", resp.Header.Get("Content-Type"))
			}
		})
	}
	if resp, _ := raw(t, address, "POST /explain HTTP/1.1\r\nHost: evil.example\r\n"+json+"Content-Length: 2\r\n\r\n{}"); resp.StatusCode != 421 {
		t.Errorf("as evil.example: %d", resp.StatusCode)
	}
	if resp, _ := raw(t, address, "PUT /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT: %d, allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
}

// The page has one form and one script, which the policy allows by its digest, and nothing from elsewhere.
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
		t.Error("the script holds markup, makes it of text, or leads elsewhere")
	}
	all, _ := elements(t, page)
	named := map[string]string{}
	for _, e := range all {
		if name := e.attrs["name"]; name != "" {
			named[name] += e.name
		}
		if e.attrs["src"] != "" || e.attrs["action"] != "" || e.attrs["style"] != "" {
			t.Errorf("%+v", e)
		}
	}
	delete(named, "viewport")
	if got := fmt.Sprint(named); got != "map[api:select body:textarea headers:textarea key:input model:input]" {
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
