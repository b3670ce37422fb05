package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// directGateway starts a gateway with three providers: openai lists gpt-5.4 and openai/gpt-x, second lists gpt-5.4, and
// third allows direct names.
func directGateway(t *testing.T) *proxytest.Gateway {
	provider := func(name string, models ...string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"`+strings.Join(models, `"},{"id":"`)+`"}]}`)
				return
			}
			body, _ := io.ReadAll(r.Body)
			model := string(parseDocument(t, body).Root().Get("model").Text())
			_, _ = fmt.Fprintf(w, `{"id":"x","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, model, name+" says "+model)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	config := proxytest.Keys
	for name, models := range map[string]string{"any": "*", "openai": "openai/*", "bare": "gpt-5.4", "second": "second/gpt-5.4", "mini": "*-mini"} {
		config += fmt.Sprintf("\n[[keys]]\nname = %q\nsecret = \"sk-%s-0123456789abc\"\nmodels = [%q]\n", name, name, models)
	}
	for _, p := range []struct{ name, url, more string }{
		{"openai", provider("openai", "gpt-5.4", "openai/gpt-x"), "list_models = {}"},
		{"second", provider("second", "gpt-5.4"), "list_models = {}"},
		{"third", provider("third"), "direct = true"},
	} {
		config += fmt.Sprintf("\n[providers.%s]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream\" }\n%s\n", p.name, p.url, p.more)
	}
	config += "\n[[models]]\nid = \"fast\"\ntargets = [{ provider = \"third\", model = \"vendor/small-mini\" }]\n"
	g := proxytest.Start(t, config)
	g.Do(t, "GET", "/v1/models", "") // waits for the providers' lists
	return g
}

// TestDirectNamesAndKeys requests models by their IDs and their direct names. A key's patterns match the name in the
// request.
func TestDirectNamesAndKeys(t *testing.T) {
	g := directGateway(t)
	ask := func(key, model string) *proxytest.Reply {
		return g.Do(t, "POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"Hi"}]}`, "Authorization: Bearer sk-"+key+"-0123456789abc")
	}
	for _, c := range []struct{ key, model, want string }{
		{"any", "gpt-5.4", "openai says gpt-5.4"},
		{"any", "openai/gpt-5.4", "openai says gpt-5.4"},
		{"any", "second/gpt-5.4", "second says gpt-5.4"},
		{"any", "openai/gpt-x", "openai says openai/gpt-x"},
		{"any", "openai/openai/gpt-x", "openai says openai/gpt-x"},
		{"any", "third/vendor/small-mini", "third says vendor/small-mini"},
		{"any", "fast", "third says vendor/small-mini"},
		{"any", "third/fast", ""},
		{"any", "third/gpt-5.4", ""},
		{"any", "second/openai/gpt-5.4", ""},
		{"any", "nobody/gpt-5.4", ""},
		{"any", "second/", ""},
		{"any", "second", ""},
		{"openai", "openai/gpt-5.4", "openai says gpt-5.4"},
		{"openai", "gpt-5.4", ""},
		{"openai", "second/gpt-5.4", ""},
		{"bare", "gpt-5.4", "openai says gpt-5.4"},
		{"bare", "openai/gpt-5.4", ""},
		{"bare", "second/gpt-5.4", ""},
		{"bare", "/gpt-5.4", ""},
		{"bare", "gpt-5.4/", ""},
		{"second", "second/gpt-5.4", "second says gpt-5.4"},
		{"second", "gpt-5.4", ""},
		{"mini", "third/vendor/small-mini", "third says vendor/small-mini"},
		{"mini", "fast", ""},
	} {
		r := ask(c.key, c.model)
		switch {
		case c.want == "" && (r.Status != 404 || !strings.Contains(r.Body, `"code":"model_not_found"`)):
			t.Errorf("key %s, model %s: got %d %s, want model_not_found", c.key, c.model, r.Status, r.Body)
		case c.want != "" && (r.Status != 200 || !strings.Contains(r.Body, `"content":"`+c.want+`"`)):
			t.Errorf("key %s, model %s: got %d %s, want %s", c.key, c.model, r.Status, r.Body, c.want)
		}
	}

	// The error message only suggests models that the key may use.
	for _, c := range []struct{ key, model, suggests string }{
		{"openai", "gpt-5.4", "Did you mean 'openai/gpt-5.4'?"},
		{"second", "gpt-5.4", "Did you mean 'second/gpt-5.4'?"},
		{"any", "vendor/small-mini", "Did you mean 'third/vendor/small-mini'?"},
		{"bare", "vendor/small-mini", ""},
		{"bare", "openai/gpt-5.4", ""},
		{"mini", "gpt-5.4", ""},
	} {
		r := ask(c.key, c.model)
		if suggests := strings.Contains(r.Body, "Did you mean"); suggests != (c.suggests != "") || !strings.Contains(r.Body, c.suggests) {
			t.Errorf("key %s, model %s: got %s, want suggestion %q", c.key, c.model, r.Body, c.suggests)
		}
	}
}

// TestDirectNamesAreListed requests the list of models with several keys, and single models.
func TestDirectNamesAreListed(t *testing.T) {
	g := directGateway(t)
	for key, want := range map[string]string{
		"any": "fast third/vendor/small-mini gpt-5.4 openai/gpt-x second/gpt-5.4", "openai": "openai/gpt-5.4 openai/gpt-x", "bare": "gpt-5.4",
		"second": "second/gpt-5.4", "mini": "third/vendor/small-mini",
	} {
		r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-"+key+"-0123456789abc")
		var ids []string
		for m := parseDocument(t, []byte(r.Body)).Root().Get("data").First(); m.Exists(); m = m.Next() {
			ids = append(ids, string(m.Get("id").Text()))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("key %s: got models %s, want %s", key, got, want)
		}
	}
	for _, c := range []struct {
		key, path string
		status    int
	}{
		{"openai", "/v1/models/openai/gpt-5.4", 200}, {"openai", "/v1/models/openai%2Fgpt-5.4", 200}, {"openai", "/v1beta/models/openai/gpt-5.4", 200},
		{"bare", "/v1/models/openai/gpt-5.4", 404}, {"bare", "/v1/models/openai%2Fgpt-5.4", 404}, {"bare", "/v1beta/models/openai/gpt-5.4", 404}, {"bare", "/v1/models/gpt-5.4", 200},
	} {
		r := g.Do(t, "GET", c.path, "", "Authorization: Bearer sk-"+c.key+"-0123456789abc")
		if r.Status != c.status || c.status == 200 && !strings.Contains(r.Body, "openai/gpt-5.4") && c.key == "openai" {
			t.Errorf("key %s: GET %s: got %d %s, want status %d", c.key, c.path, r.Status, r.Body, c.status)
		}
	}
	for _, key := range []string{"openai", "bare"} {
		r := g.Do(t, "POST", "/v1beta/models/openai/gpt-5.4:generateContent", `{"contents":[{"parts":[{"text":"Hi"}]}]}`, "Authorization: Bearer sk-"+key+"-0123456789abc")
		if want := map[string]int{"openai": 200, "bare": 404}[key]; r.Status != want {
			t.Errorf("key %s, Gemini API: got %d %s, want status %d", key, r.Status, r.Body, want)
		}
	}
}

// TestDirectNamesAreFiltered checks that a model's filter also applies to its direct name.
func TestDirectNamesAreFiltered(t *testing.T) {
	upstream := startProvider(t, `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
	g := proxytest.Start(t, "[server]\nauth = \"none\"\n[providers.up]\nplugin = \"openai\"\nbase_url = \""+upstream+"\"\nauth = { secret = \"sk-upstream\" }\ndirect = true\n"+
		"[[models]]\nid = \"gpt-5.4\"\ntargets = [{ provider = \"up\" }]\n[[models]]\nid = \"other\"\ntargets = [{ provider = \"up\", model = \"gpt-5.4\" }]\n"+
		"[[filters]]\nplugin = \"blocklist\"\nmodels = [\"gpt-*\"]\noptions = { phrases = [\"top secret\"], action = \"refuse\" }\n")
	for model, status := range map[string]int{"gpt-5.4": 400, "up/gpt-5.4": 400, "other": 200} {
		r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"This is top secret."}]}`)
		if r.Status != status {
			t.Errorf("%s: status %d, want %d: %s", model, r.Status, status, r.Body)
		}
	}
}

// startProvider starts a provider that responds to every request with the same body, and returns its URL.
func startProvider(t *testing.T, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
