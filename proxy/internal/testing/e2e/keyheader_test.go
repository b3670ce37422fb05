package e2e_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// covers: F132
func TestKeyHeaders(t *testing.T) {
	const good, other = proxytest.Key, "sk-narrow-0123456789"
	config := configuration("", "")
	g := proxytest.Start(t, strings.Replace(config, "[server]", "[server]\nkey_headers = [\"X-Api-Key\", \"api-key\"]", 1))
	for _, c := range []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"Authorization", nil, 200, ""},
		{"x-api-key", []string{"Authorization:", "x-api-key: " + good}, 200, ""},
		{"api-key", []string{"Authorization:", "api-key: " + good}, 200, ""},
		{"the same key in three headers", []string{"x-api-key: " + good, "api-key: " + good}, 200, ""},
		{"different keys in Authorization and x-api-key", []string{"x-api-key: " + other}, 400, "duplicate_authorization"},
		{"different keys in x-api-key and api-key", []string{"Authorization:", "x-api-key: " + other, "api-key: " + good}, 400, "duplicate_authorization"},
		{"unknown key", []string{"Authorization:", "x-api-key: sk-unknown-0123"}, 401, "invalid_api_key"},
		{"header that is not configured", []string{"Authorization:", "x-goog-api-key: " + good}, 401, "missing_api_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []*proxytest.Reply{
				g.Do(t, "POST", "/v1/chat/completions", hello, c.headers...),
				g.Do(t, "GET", "/v1/models", "", c.headers...),
			} {
				if r.Status != c.status || !strings.Contains(r.Body, c.code) {
					t.Errorf("status %d, want %d: %s", r.Status, c.status, r.Body)
				}
				for _, key := range []string{good, other} {
					if strings.Contains(r.Body, key) || strings.Contains(g.Log.String(), key) {
						t.Errorf("the response or the log contains a key: %s\n%s", r.Body, g.Log.String())
					}
				}
			}
		})
	}
	if err := g.Reload(t, config); err != nil {
		t.Fatal(err)
	}
	r := g.Do(t, "GET", "/v1/models", "", "Authorization:", "x-api-key: "+good)
	if r.Status != 401 || strings.Contains(r.Body, "key_headers") {
		t.Errorf("without key_headers: status %d, %s", r.Status, r.Body)
	}
	if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], "x-api-key") || !strings.Contains(line["cause"], "server.key_headers") {
		t.Errorf("the log does not name the setting: %v", line)
	}
}
