package e2e_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

// askWith sends a request without a key, over a new connection with a client certificate; nil for none. The status is 0
// if the connection fails.
func askWith(t *testing.T, g *proxytest.Gateway, c *tls.Certificate, body string) (status int, text, id string) {
	t.Helper()
	client := clientWith(g, c)
	defer client.CloseIdleConnections()
	return askOver(t, client, g, body)
}

// clientWith returns a client with a certificate.
func clientWith(g *proxytest.Gateway, c *tls.Certificate) *http.Client {
	settings := g.TLS.Clone()
	if c != nil {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings}, Timeout: proxytest.EventTimeout}
}

func askOver(t *testing.T, client *http.Client, g *proxytest.Gateway, body string, headers ...string) (status int, text, id string) {
	t.Helper()
	r, err := http.NewRequest("POST", g.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data), resp.Header.Get("X-Request-Id")
}

// certificateGateway starts a gateway that asks clients for certificates of an authority. It returns its configuration,
// whose revocation list is revoked.pem in the folder.
func certificateGateway(t *testing.T, root *certtest.Authority, extra string) (g *proxytest.Gateway, toml, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range map[string][]byte{"clients.pem": root.PEM(), "revoked.pem": root.Revoke(nil)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	toml = certtest.Valid(t).Table(t, dir) + fmt.Sprintf("client_ca = %q\nclient_crl = %q\n", filepath.Join(dir, "clients.pem"), filepath.Join(dir, "revoked.pem")) + extra + `
[[identities]]
issuer = "certificate"
name   = "{san.uri}"
limits = { requests_per_minute = 3 }
` + proxytest.Keys + `
[providers.demo]
plugin = "demo"
[[models]]
id      = "m"
targets = [{ provider = "demo" }]
`
	return proxytest.Start(t, toml), toml, dir
}

// TestClientCertificates checks that a certificate identifies requests without a key, that each has limits of its own, and
// that revocation applies to open connections.
func TestClientCertificates(t *testing.T) {
	root := certtest.NewAuthority(t, "root")
	g, toml, dir := certificateGateway(t, root, "")
	ann, bob := root.Client(nil, "spiffe://acme.example/ann"), root.Client(nil, "spiffe://acme.example/bob")
	request := `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`
	open := clientWith(g, &ann)
	defer open.CloseIdleConnections()
	status, body, id := askOver(t, open, g, request)
	if status != 200 || g.Log.Request(t, id)["key"] != "certificate:spiffe://acme.example/ann" {
		t.Fatalf("%d %s, log %v", status, body, g.Log.Request(t, id))
	}
	// A large body is announced before its connection is known.
	large := strings.Replace(request, "Hello", strings.Repeat("Hello ", 50_000), 1)
	if status, body, _ := askOver(t, open, g, large); status != 200 {
		t.Errorf("a large body: %d %s", status, body)
	}
	if status, body, _ := askOver(t, open, g, request, "Authorization: Bearer "+proxytest.Key); status != 200 {
		t.Errorf("a key and a certificate: %d %s", status, body)
	}
	if status, body, _ := askOver(t, open, g, request, "Authorization: Bearer sk-unknown"); status != 401 || !strings.Contains(body, "invalid_api_key") {
		t.Errorf("an unknown key and a certificate: %d %s", status, body)
	}
	for _, want := range []int{200, 429} { // the requests with keys have not counted for the certificate
		if status, body, _ := askOver(t, open, g, request); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
	if status, body, _ := askWith(t, g, &bob, request); status != 200 {
		t.Errorf("another certificate: %d %s", status, body)
	}
	if status, body, _ := askWith(t, g, nil, large); status != 401 || !strings.Contains(body, "missing_api_key") {
		t.Errorf("no certificate: %d %s", status, body)
	}
	stranger := certtest.NewAuthority(t, "root").Client(nil, "spiffe://acme.example/ann")
	if status, body, _ := askWith(t, g, &stranger, request); status != 0 {
		t.Errorf("a certificate of another authority: %d %s", status, body)
	}

	if err := os.WriteFile(filepath.Join(dir, "revoked.pem"), root.Revoke(nil, ann.Leaf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t, toml); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := askOver(t, open, g, request); status != 401 || !strings.Contains(body, "invalid_certificate") {
		t.Errorf("revoked, on an open connection: %d %s", status, body)
	}
	if status, body, _ := askWith(t, g, &ann, request); status != 0 {
		t.Errorf("revoked, on a new connection: %d %s", status, body)
	}
	if status, body, _ := askWith(t, g, &bob, request); status != 200 {
		t.Errorf("another certificate after that: %d %s", status, body)
	}
}

// TestClientCertificateRequired checks that connections without a certificate are refused, that a resumed session has the
// certificate of the first, and that a reload can change both.
func TestClientCertificateRequired(t *testing.T) {
	root := certtest.NewAuthority(t, "root")
	g, toml, _ := certificateGateway(t, root, "client = \"require\"\n")
	ann := root.Client(nil, "spiffe://acme.example/ann")
	request := `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`
	if status, body, _ := askWith(t, g, nil, request); status != 0 {
		t.Errorf("no certificate: %d %s", status, body)
	}
	settings := g.TLS.Clone()
	settings.Certificates, settings.ClientSessionCache = []tls.Certificate{ann}, tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		c := dialWith(t, g, settings)
		if resumed := c.tls.ConnectionState().DidResume; resumed != (i > 0) {
			t.Errorf("connection %d resumed a session: %t", i, resumed)
		}
		_, _ = fmt.Fprintf(c.w, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
		c.readUntil("}}")
		c.Close()
	}
	if err := g.Reload(t, strings.Replace(toml, "\"require\"", "\"request\"", 1)); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := askWith(t, g, nil, request); status != 401 {
		t.Errorf("no certificate after the reload: %d %s", status, body)
	}
}

// TestClientCertificatesOfTools presents certificates as curl and Node do.
func TestClientCertificatesOfTools(t *testing.T) {
	root := certtest.NewAuthority(t, "root")
	g, _, dir := certificateGateway(t, root, "")
	ann := root.Client(nil, "spiffe://acme.example/ann")
	cert, key, server := filepath.Join(dir, "ann.pem"), filepath.Join(dir, "ann.key"), filepath.Join(dir, "cert.pem")
	for name, data := range map[string][]byte{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ann.Leaf.Raw}), key: certtest.KeyPEM(t, ann)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const request = `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`
	script := fmt.Sprintf(`const fs = require("fs"), https = require("https");
const r = https.request(%q, { method: "POST", ca: fs.readFileSync(%q), cert: fs.readFileSync(%q), key: fs.readFileSync(%q) }, s => s.pipe(process.stdout));
r.end(%q);`, g.URL+"/v1/chat/completions", server, cert, key, request)
	for tool, args := range map[string][]string{
		"curl": {"-sS", "--cacert", server, "--cert", cert, "--key", key, "-d", request, "-H", "Content-Type: application/json", g.URL + "/v1/chat/completions"},
		"node": {"-e", script},
	} {
		t.Run(tool, func(t *testing.T) {
			name, err := exec.LookPath(tool)
			if err != nil {
				t.Skip(err)
			}
			var problems bytes.Buffer
			command := exec.CommandContext(t.Context(), name, args...)
			command.Stderr = &problems
			if out, err := command.Output(); err != nil || !strings.Contains(string(out), `"finish_reason":"stop"`) {
				t.Errorf("%v %s %s", err, out, &problems)
			}
		})
	}
}
