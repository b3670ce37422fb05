package e2e_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// secret is part of every configured or obtained credential in these tests. It begins with a rare byte, to speed up the
// search.
const secret = "~c4n4ry-0817"

// mask encodes a text for the plugin thief, so that the text itself is not in its memory.
func mask(s string) string {
	p := []byte(s)
	for i := range p {
		p[i] ^= 0x55
	}
	return hex.EncodeToString(p)
}

// googleTokenServer runs a token endpoint like Google's, which issues tokens that contain the secret, and returns its
// URL.
func googleTokenServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"ya29.%s-token","token_type":"Bearer","expires_in":3600}`, secret)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// googleFiles writes the credentials files of a service account and of a user.
func googleFiles(t *testing.T, tokenURI string) (account, user string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, v map[string]string) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	account = write("account.json", map[string]string{
		"type": "service_account", "client_email": secret + "@example", "private_key_id": secret, "token_uri": tokenURI,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Headers: map[string]string{"Comment": secret}, Bytes: der})),
	})
	user = write("user.json", map[string]string{
		"type": "authorized_user", "client_id": "id", "client_secret": secret + "-client", "refresh_token": secret + "-refresh", "token_uri": tokenURI,
	})
	return account, user
}

// credentialKinds returns the auth table of a provider for each kind of credential.
func credentialKinds(t *testing.T) map[string]string {
	account, user := googleFiles(t, googleTokenServer(t))
	return map[string]string{
		"bearer":  fmt.Sprintf("{ secret = %q }", "sk-"+secret+"-bearer"),
		"header":  fmt.Sprintf("{ header = \"x-api-key\", secret = %q }", "sk-"+secret+"-header"),
		"prefix":  fmt.Sprintf("{ header = \"x-key\", prefix = \"Token \", secret = %q }", "sk-"+secret+"-prefix"),
		"query":   fmt.Sprintf("{ query = \"key\", secret = %q }", "sk-"+secret+"-query"),
		"azure":   fmt.Sprintf("{ header = \"api-key\", secret = %q }", "sk-"+secret+"-azure"),
		"aws":     fmt.Sprintf("{ aws = { region = \"eu-central-1\", access_key_id = %q, secret_access_key = %q, session_token = %q } }", "AKIA"+secret, secret+"-key", secret+"-session"),
		"account": fmt.Sprintf("{ google = { credentials_file = %q } }", account),
		"user":    fmt.Sprintf("{ google = { credentials_file = %q } }", user),
	}
}

// reflectRequest reads a request and responds with everything in it, as a failing or malicious provider may: in the
// headers and in the body, unchanged and as JSON.
func reflectRequest(status int) upstreamtest.Step {
	return func(c *upstreamtest.Conn) error {
		if err := upstreamtest.ReadRequest()(c); err != nil {
			return err
		}
		all := c.Server.Requests()
		r := all[len(all)-1]
		headers := []string{"Www-Authenticate: Bearer realm=\"" + r.Path + "\"", "Location: https://a.example" + r.Path}
		head := r.Path
		for name, values := range r.Header {
			for _, v := range values {
				headers = append(headers, "X-Echo: "+v, "X-Request-Id: "+v, name+": "+v)
				head += " " + name + ": " + v
			}
		}
		quoted, err := json.Marshal(head)
		if err != nil {
			return err
		}
		body := fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","code":"invalid_api_key"},"message":%[1]s}`, quoted)
		for i := range headers {
			if strings.HasPrefix(headers[i], "Content-Length: ") || strings.HasPrefix(headers[i], "Content-Type: ") || strings.HasPrefix(headers[i], "Accept-Encoding: ") {
				headers[i] = "X-Dropped: 1"
			}
		}
		return upstreamtest.Answer(status, "application/json", body, headers...)(c)
	}
}

// TestGuestsHoldNoCredential configures every kind of credential, and a plugin that keeps everything it can read and
// searches its whole memory in every call. The provider serves one request, and rejects another one with everything
// that it received. Only the provider may see a part of a credential, but not the plugin, the client or the log.
func TestGuestsHoldNoCredential(t *testing.T) {
	kinds := credentialKinds(t)
	needle := mask(secret)
	prompt := strings.Repeat("and so on ", 800)
	answer := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: "+prompt+"\n\n", "data: end\n\n"), upstreamtest.LastChunk()}
	toml := "[server]\nheartbeat = \"0s\"\nmax_body = \"4MiB\"\n" + proxytest.Keys + fmt.Sprintf("[[keys]]\nname = \"other\"\nsecret = %q\n", "sk-"+secret+"-client") + guest(t, "thief", "shared")
	servers := map[string]*upstreamtest.Server{}
	for kind, auth := range kinds {
		servers[kind] = upstreamtest.New(t, answer, upstreamtest.Script{reflectRequest(401)})
		toml += fmt.Sprintf("[providers.%s]\nplugin = \"thief\"\nbase_url = %q\nauth = %s\npaths = [\"/v1/chat\"]\nheaders = [\"x-found\"]\n", kind, servers[kind].URL(), auth)
		toml += fmt.Sprintf("[[models]]\nid = %[1]q\ntargets = [{ provider = %[1]q, model = %[2]q }]\n", kind, needle)
	}
	g := proxytest.Start(t, toml)
	ask := func(model, prompt string) *proxytest.Reply {
		t.Helper()
		return g.Do(t, "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, prompt), "Authorization: Bearer sk-"+secret+"-client")
	}
	var seen bytes.Buffer // by the client
	for kind, s := range servers {
		good, bad := ask(kind, prompt), ask(kind, prompt)
		if text := content(good.Body); good.Status != 200 || !strings.HasPrefix(text, "found 0 in ") || len(text) < len("found 0 in 1000000") {
			t.Errorf("%s: %d %s", kind, good.Status, good.Body)
		}
		if !strings.Contains(bad.Body, `"message":"found 0 in `) {
			t.Errorf("%s: rejected request: %d %s", kind, bad.Status, bad.Body)
		}
		for _, r := range []*proxytest.Reply{good, bad} {
			fmt.Fprintf(&seen, "%s %d %v %s\n", kind, r.Status, r.Header, r.Body)
		}
		sent := s.Requests()
		if len(sent) != 2 {
			t.Errorf("%s: the provider received %d requests, want 2", kind, len(sent))
		}
		for _, r := range sent {
			if !strings.Contains(r.Head, secret) || strings.Contains(string(r.Body), secret) || r.Header.Get("X-Found") != "0" {
				t.Errorf("%s: request without the credential, or with the credential in the wrong place:\n%.2000s", kind, r.Head)
			}
		}
	}
	fmt.Fprint(&seen, g.Log.Lines())
	if i := strings.Index(seen.String(), secret); i >= 0 {
		t.Errorf("the client or the log sees a credential: …%s…", seen.String()[max(0, i-300):min(seen.Len(), i+40)])
	}
	// Prove that the search works: it must find the secret in the client's prompt.
	if r := ask("bearer", prompt+secret); r.Status == 200 && strings.HasPrefix(content(r.Body), "found 0") {
		t.Errorf("the search does not find the secret in the prompt: %s", r.Body)
	}
	if sent := servers["bearer"].Requests(); len(sent) < 3 || sent[2].Header.Get("X-Found") == "0" {
		t.Errorf("the search during the request does not find the secret, after %d requests", len(sent))
	}
}

// TestCredentialUnavailable checks that a request without a credential for its provider fails at once, without a
// connection to the provider and without quoting the token endpoint, or is served by the next target.
func TestCredentialUnavailable(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"invalid_grant","error_description":"`+secret+`"}`, http.StatusBadRequest)
	}))
	t.Cleanup(refuses.Close)
	account, _ := googleFiles(t, refuses.URL)
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	g := proxytest.Start(t, quietServer+demoProvider+fmt.Sprintf(`
[providers.p]
plugin   = "openai"
base_url = %q
auth     = { google = { credentials_file = %q } }
[[models]]
id      = "alone"
targets = [{ provider = "p", model = "m" }]
[[models]]
id      = "with-another"
targets = [{ provider = "p", model = "m" }, { provider = "demo", model = "demo", fallback = true }]
`, provider.URL(), account))
	if r := g.Chat(t, canaryRequest("alone", false)); r.Status != 502 || !strings.Contains(r.Body, `"code":"upstream_auth_failed"`) || strings.Contains(r.Body, secret) || strings.Contains(r.Body, "invalid_grant") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := g.Chat(t, canaryRequest("with-another", true)); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if log := fmt.Sprint(g.Log.Lines()); strings.Contains(log, secret) || !strings.Contains(log, "status 400 invalid_grant") {
		t.Errorf("the log does not have the token endpoint's error, or quotes its description: %s", log)
	}
	if n := provider.Connections(); n != 0 {
		t.Errorf("the gateway opened %d connections to the provider", n)
	}
}

// TestProviderWithoutCredentialIsDisabled checks that the gateway starts without a provider whose credential is
// missing.
func TestProviderWithoutCredentialIsDisabled(t *testing.T) {
	toml := quietServer + demoProvider + `
[providers.p]
plugin   = "openai"
base_url = "https://a.example"
auth     = { google = { credentials_file = "/nowhere/google.json" } }
[[models]]
id      = "alone"
targets = [{ provider = "p", model = "m" }]
`
	cfg, err := config.Parse("gateway.toml", []byte(toml), config.Options{Bundled: []string{"openai", "demo"}})
	if err != nil {
		t.Fatal(err)
	}
	if off := cfg.Provider("p").Off; !strings.Contains(off, "/nowhere/google.json") {
		t.Errorf("provider is off because of %q, want the missing file", off)
	}
	g := proxytest.Start(t, toml)
	if r := g.Chat(t, canaryRequest("demo", false)); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := g.Chat(t, canaryRequest("alone", false)); r.Status != 404 && r.Status != 503 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
