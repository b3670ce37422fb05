package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

type errorBody struct {
	Error struct {
		Message string
		Type    string
		Param   *string
		Code    *string
	}
}

// wantError checks an error response. "" for code or param means null.
func wantError(t *testing.T, r *proxytest.Reply, status int, typ, code, param string) {
	t.Helper()
	var e errorBody
	d := json.NewDecoder(strings.NewReader(r.Body))
	if err := d.Decode(&e); err != nil {
		t.Fatalf("status %d, body %q: %v", r.Status, r.Body, err)
	}
	str := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	if r.Status != status || e.Error.Type != typ || str(e.Error.Code) != code || str(e.Error.Param) != param || e.Error.Message == "" {
		t.Errorf("got %d %s\nwant %d, type %q, code %q, param %q", r.Status, r.Body, status, typ, code, param)
	}
	for _, member := range []string{`"message":`, `"type":`, `"param":`, `"code":`} {
		if !strings.Contains(r.Body, member) {
			t.Errorf("member %s is missing in %s", member, r.Body)
		}
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("got content type %q", got)
	}
	if r.RequestID() == "" {
		t.Error("no x-request-id")
	}
}

const hello = `{"model":"demo","messages":[{"role":"user","content":"Hello"}]}`

func TestErrorsBeforeUpstream(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	const invalid = "invalid_request_error"
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code, param              string
		wantHeader               string // "Name: value"
	}{
		// covers: V9
		{"no key", "POST", "/v1/chat/completions", hello, []string{"Authorization:"}, 401, "missing_api_key", "", "Www-Authenticate: Bearer"},
		{"unknown key", "POST", "/v1/chat/completions", hello, []string{"Authorization: Bearer sk-nobody"}, 401, "invalid_api_key", "", "Www-Authenticate: Bearer"},
		// covers: F129
		{"basic", "POST", "/v1/chat/completions", hello, []string{"Authorization: Basic abc"}, 401, "invalid_api_key", "", ""},
		// covers: F133
		{"expired", "GET", "/v1/models", "", []string{"Authorization: Bearer sk-expired-0123456789"}, 401, "invalid_api_key", "", ""},
		{"disabled", "GET", "/v1/models", "", []string{"Authorization: Bearer sk-disabled-0123456789"}, 401, "invalid_api_key", "", ""},
		// covers: F132
		{"key in query", "POST", "/v1/chat/completions?api_key=" + proxytest.Key, hello, []string{"Authorization:"}, 401, "missing_api_key", "", ""},
		{"other header", "POST", "/v1/chat/completions", hello, []string{"Authorization:", "x-api-key: " + proxytest.Key}, 401, "missing_api_key", "", ""},
		// covers: V11
		{"method", "GET", "/v1/chat/completions", "", nil, 405, "method_not_allowed", "", "Allow: POST"},
		{"method of models", "POST", "/v1/models", hello, nil, 405, "method_not_allowed", "", "Allow: GET, HEAD"},
		{"path", "GET", "/v1/nothing", "", nil, 404, "unknown_url", "", ""},
		// covers: F110
		{"double slash", "POST", "//v1/chat/completions", hello, nil, 404, "unknown_url", "", ""},
		{"dots", "POST", "/v1/../v1/chat/completions", hello, nil, 404, "unknown_url", "", ""},
		{"not JSON", "POST", "/v1/chat/completions", "hello", nil, 400, "", "", ""}, // covers: V1
		// covers: V2
		{"no model", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, nil, 400, "missing_required_parameter", "model", ""},
		// covers: V3
		{"unknown model", "POST", "/v1/chat/completions", `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`, nil, 404, "model_not_found", "", ""},
		// covers: V4
		{"model of others", "POST", "/v1/chat/completions", `{"model":"gpt","messages":[{"role":"user","content":"x"}]}`, []string{"Authorization: Bearer sk-narrow-0123456789"}, 404, "model_not_found", "", ""},
		// covers: V5
		{"role", "POST", "/v1/chat/completions", `{"model":"demo","messages":[{"role":"king","content":"x"}]}`, nil, 400, "invalid_value", "messages[0].role", ""},
		// covers: V8
		{"temperature", "POST", "/v1/chat/completions", `{"model":"demo","messages":[{"role":"user","content":"x"}],"temperature":2.5}`, nil, 400, "decimal_above_max_value", "temperature", ""},
		// covers: V10
		{"body too large", "POST", "/v1/chat/completions", `{"model":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413, "request_too_large", "", "Connection: close"},
		// covers: V12
		{"content type", "POST", "/v1/chat/completions", hello, []string{"Content-Type: text/plain"}, 415, "unsupported_media_type", "", ""},
		// covers: F122
		{"charset", "POST", "/v1/chat/completions", hello, []string{"Content-Type: application/json; charset=utf-16"}, 415, "unsupported_media_type", "", ""},
		// covers: F123
		{"compressed", "POST", "/v1/chat/completions", hello, []string{"Content-Encoding: gzip"}, 415, "unsupported_media_type", "", ""},
		{"no such model", "GET", "/v1/models/nobody", "", nil, 404, "model_not_found", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.Do(t, c.method, c.path, c.body, c.headers...)
			wantError(t, r, c.status, invalid, c.code, c.param)
			if name, value, ok := strings.Cut(c.wantHeader, ": "); ok && r.Header.Get(name) != value {
				// net/http removes Connection: close from the headers.
				if name != "Connection" {
					t.Errorf("%s: %q, want %q", name, r.Header.Get(name), value)
				}
			}
			g.Log.Request(t, r.RequestID())
		})
	}
	if log := g.Log.String(); strings.Contains(log, "sk-") {
		t.Errorf("the log contains a key:\n%s", log)
	}
}

// TestSameErrorForUnknownAndForbiddenModel checks that a key cannot find out which other models exist.
//
// covers: V3 V4
func TestSameErrorForUnknownAndForbiddenModel(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	body := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"x"}]}`
	}
	narrow := "Authorization: Bearer sk-narrow-0123456789"
	unknown := g.Do(t, "POST", "/v1/chat/completions", body("zzz"), narrow).Body
	forbidden := g.Do(t, "POST", "/v1/chat/completions", body("gpt"), narrow).Body
	if strings.ReplaceAll(unknown, "zzz", "gpt") != forbidden {
		t.Errorf("unknown   %s\nforbidden %s", unknown, forbidden)
	}
	if got := g.Do(t, "GET", "/v1/models/gpt", "", narrow).Body; got != forbidden {
		t.Errorf("GET of a forbidden model: got %s, want %s", got, forbidden)
	}
}

func TestModels(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	var list struct {
		Object string
		Data   []struct {
			ID, Object, OwnedBy string
			Created             int64
			DisplayName         string `json:"display_name"`
			Pricing             struct{ Input, Output *float64 }
		}
	}
	r := g.Do(t, "GET", "/v1/models", "")
	if err := json.Unmarshal([]byte(r.Body), &list); err != nil || r.Status != http.StatusOK {
		t.Fatalf("got %d %s: %v", r.Status, r.Body, err)
	}
	if list.Object != "list" || len(list.Data) != 5 {
		t.Fatalf("list: %s", r.Body)
	}
	for _, m := range list.Data {
		if m.Object != "model" || m.ID == "" || m.Created != 1767225600 || m.DisplayName == "" || m.Pricing.Input == nil || m.Pricing.Output == nil {
			t.Errorf("model %+v", m)
		}
	}
	r = g.Do(t, "GET", "/v1/models", "", "Authorization: bearer   sk-narrow-0123456789 ")
	if strings.Contains(r.Body, `"gpt"`) || !strings.Contains(r.Body, `"demo"`) {
		t.Errorf("a key with a narrow pattern got %s", r.Body)
	}
	for _, path := range []string{"/v1/models/vendor/model-with/slashes", "/v1/models/vendor%2Fmodel-with%2fslashes", "/v1/models/demo"} {
		r := g.Do(t, "GET", path, "")
		if r.Status != http.StatusOK || !strings.HasPrefix(r.Body, `{"id":"`) {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
}

func TestClientRequestIDIsKept(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	if got := g.Do(t, "POST", "/v1/chat/completions", hello, "X-Request-Id: mine-1").RequestID(); got != "mine-1" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"two words", strings.Repeat("x", 129)} {
		if got := g.Do(t, "POST", "/v1/chat/completions", hello, "X-Request-Id: "+bad).RequestID(); got == bad || got == "" {
			t.Errorf("invalid ID %q: got %q, want a new one", bad, got)
		}
	}
}
