package e2e_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

// TestIdentityDocument runs the configurations in docs/identity.md, each with tokens of its issuer.
func TestIdentityDocument(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "identity.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```toml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	type request struct {
		claims map[string]any
		model  string
		status int
		key    string // in the log
		team   string
	}
	prod := map[string]any{"namespace": "prod", "serviceaccount": map[string]any{"name": "worker"}}
	for i, c := range []struct {
		issuer   string
		requests []request
	}{
		{"okta", []request{
			{map[string]any{"sub": "00u1", "groups": []string{"ai-users"}, "department": "research"}, "gpt-6", 200, "okta:00u1", "research"},
			{map[string]any{"sub": "00u2", "groups": []string{"ai-users"}, "department": "sales"}, "gpt-6", 200, "okta:00u2", "everybody"},
			{map[string]any{"sub": "00u3", "groups": []string{"staff"}, "department": "research"}, "gpt-6", 403, "", ""},
		}},
		{"cluster", []request{
			{map[string]any{"sub": "system:serviceaccount:prod:worker", "kubernetes.io": prod}, "gpt-6", 200, "cluster:prod/worker", "billing"},
			{map[string]any{"sub": "system:serviceaccount:test:worker", "kubernetes.io": map[string]any{"namespace": "test"}}, "gpt-6", 403, "", ""},
		}},
		{"spire", []request{
			{map[string]any{"sub": "spiffe://acme.example/ns/prod/sa/worker"}, "gpt-6", 200, "spire:spiffe://acme.example/ns/prod/sa/worker", ""},
			{map[string]any{"sub": "spiffe://acme.example/ns/test/sa/worker"}, "gpt-6-mini", 200, "spire:spiffe://acme.example/ns/test/sa/worker", ""},
			{map[string]any{"sub": "spiffe://acme.example/ns/test/sa/worker"}, "gpt-6", 404, "spire:spiffe://acme.example/ns/test/sa/worker", ""},
		}},
	} {
		t.Run(c.issuer, func(t *testing.T) {
			if i >= len(blocks) || !strings.Contains(blocks[i][1], `"`+c.issuer+`"`) {
				t.Fatalf("block %d of %d is not that of %s", i, len(blocks), c.issuer)
			}
			issuer, b := issuertest.New(t), newBiller(t)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "cluster-keys.json"), issuer.KeySet(), 0o600); err != nil {
				t.Fatal(err)
			}
			toml := regexp.MustCompile(`(?m)^url .*$`).ReplaceAllString(blocks[i][1], fmt.Sprintf("url = %q", issuer.URL))
			toml = strings.NewReplacer(
				"${OPENAI_API_KEY}", "sk-upstream-0123456789", "[providers.openai]\n", fmt.Sprintf("[providers.openai]\nbase_url = %q\n", b.URL),
				"cluster-keys.json", filepath.Join(dir, "cluster-keys.json"),
			).Replace(toml)
			g := proxytest.Start(t, toml)
			for _, r := range c.requests {
				reply := g.Do(t, "POST", "/v1/chat/completions", strings.Replace(budgetRequest(10, false), `"m"`, `"`+r.model+`"`, 1), withToken(issuer.Token(r.claims)))
				if reply.Status != r.status {
					t.Errorf("%v: %d %s", r.claims, reply.Status, reply.Body)
				}
				if key := g.Log.Request(t, reply.RequestID())["key"]; r.key != "" && key != r.key {
					t.Errorf("%v: key %v, want %s", r.claims, key, r.key)
				}
				if _, usage := proxytest.Get(t, g.Admin(t)+"/metrics"); r.team != "" && !strings.Contains(usage, fmt.Sprintf("sluice_team_requests_total{team=%q} 1", r.team)) {
					t.Errorf("%v: no request of team %s", r.claims, r.team)
				}
			}
		})
	}
	t.Run("certificates", func(t *testing.T) {
		i := slices.IndexFunc(blocks, func(b []string) bool { return strings.Contains(b[1], "client_ca") })
		b, dir, root := newBiller(t), t.TempDir(), certtest.NewAuthority(t, "acme.example")
		certtest.Valid(t).Write(t, dir)
		worker, gone := root.Client(nil, "spiffe://acme.example/ns/prod/sa/worker"), root.Client(nil, "spiffe://acme.example/ns/prod/sa/gone")
		for name, data := range map[string][]byte{"clients.pem": root.PEM(), "revoked.pem": root.Revoke(nil, gone.Leaf)} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		toml := regexp.MustCompile(`"([a-z]+\.pem)"`).ReplaceAllString(blocks[i][1], `"`+dir+`/$1"`)
		toml = strings.NewReplacer(
			"${OPENAI_API_KEY}", "sk-upstream-0123456789", "[providers.openai]\n", fmt.Sprintf("[providers.openai]\nbase_url = %q\n", b.URL),
		).Replace(toml)
		g := proxytest.Start(t, toml)
		request := strings.Replace(budgetRequest(10, false), `"m"`, `"gpt-6"`, 1)
		const name = "certificate:spiffe://acme.example/ns/prod/sa/worker"
		status, body, id := askWith(t, g, &worker, request)
		if status != 200 || g.Log.Request(t, id)["key"] != name {
			t.Errorf("%d %s, log %v", status, body, g.Log.Request(t, id))
		}
		if _, list := proxytest.Get(t, g.Admin(t)+"/budgets?scope=key&name="+name); !strings.Contains(list, `"name":"`+name+`"`) {
			t.Errorf("got budgets %s", list)
		}
		other := root.Client(nil, "spiffe://acme.example/ns/test/sa/worker")
		if status, body, _ := askWith(t, g, &other, request); status != 403 || !strings.Contains(body, "identity_not_allowed") {
			t.Errorf("another namespace: %d %s", status, body)
		}
		for what, c := range map[string]*tls.Certificate{"revoked": &gone, "none": nil} {
			if status, body, _ := askWith(t, g, c, request); status != 0 {
				t.Errorf("%s: %d %s, want a failed handshake", what, status, body)
			}
		}
	})
	t.Run("shop", func(t *testing.T) {
		i := slices.IndexFunc(blocks, func(b []string) bool { return strings.Contains(b[1], `"shop"`) })
		b := newBiller(t)
		digest := sha256.Sum256([]byte(proxytest.Key))
		toml := regexp.MustCompile("sha256:[0-9a-f]{64}").ReplaceAllString(blocks[i][1], "sha256:"+hex.EncodeToString(digest[:]))
		toml = strings.NewReplacer(
			"${OPENAI_API_KEY}", "sk-upstream-0123456789", "[providers.openai]\n", fmt.Sprintf("[providers.openai]\nbase_url = %q\n", b.URL),
		).Replace(toml)
		g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.Now = stopped() })
		request := strings.Replace(budgetRequest(10, false), `"m"`, `"gpt-6"`, 1)
		for _, user := range []string{"ann", "bob"} {
			for range 20 {
				expect(t, user, g.Do(t, "POST", "/v1/chat/completions", request, "Authorization: Bearer "+proxytest.Key, "x-user-id: "+user), 200, "")
			}
			expect(t, user, g.Do(t, "POST", "/v1/chat/completions", request, "Authorization: Bearer "+proxytest.Key, "x-user-id: "+user), 429, "The user is limited to 20 requests per minute.")
		}
		large := strings.Replace(budgetRequest(200_000, false), `"m"`, `"gpt-6"`, 1)
		eve := func() *proxytest.Reply {
			return g.Do(t, "POST", "/v1/chat/completions", large, "Authorization: Bearer "+proxytest.Key, "x-user-id: eve")
		}
		expect(t, "a response that the budget shortens", eve(), 200, "")
		expect(t, "after it", eve(), 429, "budget of the user shop/eve per day")
	})
}
