package upstream_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const scope = "https://www.googleapis.com/auth/cloud-platform"

// accountKey is the key of a service account, generated once.
var accountKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// accountFile writes the credentials file of a service account with a given token endpoint.
func accountFile(t *testing.T, tokenURI string) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(accountKey())
	if err != nil {
		t.Fatal(err)
	}
	return credentialsFile(t, map[string]any{
		"type": "service_account", "client_email": "me@example.iam.gserviceaccount.com", "private_key_id": "key-1", "token_uri": tokenURI,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
}

func credentialsFile(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, filepath.Join(t.TempDir(), "google.json"), string(b))
}

// checkAssertion verifies the token that a service account signs, as Google does, and its claims.
func checkAssertion(assertion, audience string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return fmt.Errorf("%d parts", len(parts))
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&accountKey().PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return err
	}
	var header struct{ Alg, Typ, Kid string }
	var claims struct {
		Iss, Aud, Scope string
		Iat, Exp        int64
	}
	for i, v := range []any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, v); err != nil {
			return err
		}
	}
	now := time.Now().Unix()
	if header.Alg != "RS256" || header.Kid != "key-1" || claims.Iss != "me@example.iam.gserviceaccount.com" || claims.Aud != audience ||
		claims.Scope != scope || claims.Iat > now || claims.Exp <= now || claims.Exp-claims.Iat > 3700 {
		return fmt.Errorf("header %+v, claims %+v", header, claims)
	}
	return nil
}

// tokenServer issues canary-token-N, which is valid for N hours, to service accounts that authenticate. before is
// called for each request, and may be nil.
func tokenServer(t *testing.T, before func(n int32)) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		if before != nil {
			before(n)
		}
		if err := r.ParseForm(); err != nil || r.Form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			t.Errorf("form %v, %v", r.Form, err)
		}
		if err := checkAssertion(r.Form.Get("assertion"), s.URL); err != nil {
			t.Errorf("assertion: %v", err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"canary-token-%d","token_type":"Bearer","expires_in":%d}`, n, 3600*n)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func newGoogleClient(t *testing.T, s *upstreamtest.Server, g credential.Google, change func(*upstream.Config)) *upstream.Client {
	return newClient(t, s, func(c *upstream.Config) {
		c.Credential = credential.Credential{Google: &g}
		if change != nil {
			change(c)
		}
	})
}

func TestServiceAccountToken(t *testing.T) {
	t.Parallel()
	u, requests := tokenServer(t, nil)
	s := acceptingServer(t)
	redactor := credential.NewRedactor()
	c := newGoogleClient(t, s, credential.Google{File: accountFile(t, u)}, func(c *upstream.Config) { c.Redactor = redactor })
	for range 3 {
		if status, _, err := roundTrip(t, c, post("{}")); err != nil || status != 200 {
			t.Fatal(status, err)
		}
	}
	for _, r := range s.Requests() {
		if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer canary-token-1" {
			t.Errorf("authorization %q", got)
		}
	}
	if requests.Load() != 1 {
		t.Errorf("%d token requests, want 1", requests.Load())
	}
	if got := string(redactor.Redact([]byte("bad token canary-token-1"))); got != "bad token [redacted]" {
		t.Errorf("redacted: %s", got)
	}
}

// TestTokenIsRenewedOnce checks that an expired token is fetched once for a hundred concurrent requests.
func TestTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	const many = 100
	var arrived sync.WaitGroup
	u, requests := tokenServer(t, func(int32) { arrived.Wait() }) // responds once all requests are in flight
	var ahead atomic.Int64
	redactor := credential.NewRedactor()
	s := acceptingServer(t)
	c := newGoogleClient(t, s, credential.Google{File: accountFile(t, u)}, func(c *upstream.Config) {
		c.Redactor = redactor
		// The library computes the expiry of a token from the real clock.
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	for round := range int32(3) {
		arrived.Add(many)
		var wg sync.WaitGroup
		for range many {
			wg.Go(func() {
				arrived.Done()
				if status, _, err := roundTrip(t, c, post("{}")); err != nil || status != 200 {
					t.Error(status, err)
				}
			})
		}
		wg.Wait()
		if got := requests.Load(); got != round+1 {
			t.Fatalf("round %d: %d token requests, want %d", round, got, round+1)
		}
		all := s.Requests()
		for _, r := range all[len(all)-many:] {
			if got, want := r.Header.Get("Authorization"), fmt.Sprintf("Bearer canary-token-%d", round+1); got != want {
				t.Fatalf("authorization %q, want %q", got, want)
			}
		}
		ahead.Add(int64(3600 * time.Second))
	}
	// The current token and the previous one may still occur in text.
	if got := string(redactor.Redact([]byte("canary-token-1 canary-token-2 canary-token-3"))); got != "canary-token-1 [redacted] [redacted]" {
		t.Errorf("redacted: %s", got)
	}
}

// google simulates Google's other endpoints. Each accepts only the requests that the real one accepts.
func google(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		_ = r.ParseForm()
		switch {
		case r.URL.Path == "/user" && r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") == "canary-refresh" && r.Form.Get("client_id") == "id" && r.Form.Get("client_secret") == "canary-client":
			fmt.Fprint(w, `{"access_token":"canary-user","token_type":"Bearer","expires_in":3599}`)
		case r.URL.Path == "/exchange" && r.Form.Get("subject_token") == "canary-subject" && r.Form.Get("audience") == "//iam/x":
			fmt.Fprint(w, `{"access_token":"canary-federated","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3599}`)
		case r.URL.Path == "/impersonate" && r.Header.Get("Authorization") == "Bearer canary-user":
			var body struct {
				Scope    []string
				Lifetime string
			}
			if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Scope) != 1 || body.Scope[0] != scope || body.Lifetime != "3600s" {
				t.Errorf("body %+v", body)
			}
			fmt.Fprintf(w, `{"accessToken":"canary-impersonated","expireTime":%q}`, expires)
		case r.URL.Path == "/computeMetadata/v1/instance/service-accounts/default/token" && r.Header.Get("Metadata-Flavor") == "Google" && r.Form.Get("scopes") == scope:
			fmt.Fprint(w, `{"access_token":"canary-machine","token_type":"Bearer","expires_in":3599}`)
		default:
			t.Errorf("unexpected request: %s %s", r.Method, r.URL.Path)
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTokenSources(t *testing.T) {
	t.Parallel()
	g := google(t)
	user := map[string]any{
		"type": "authorized_user", "client_id": "id", "client_secret": "canary-client", "refresh_token": "canary-refresh", "token_uri": g.URL + "/user",
		"quota_project_id": "project-7",
	}
	subject := writeFile(t, filepath.Join(t.TempDir(), "subject"), "canary-subject")
	for _, tt := range []struct {
		name, want, quota string
		from              credential.Google
	}{
		{"user", "canary-user", "project-7", credential.Google{File: credentialsFile(t, user)}},
		{"federated workload", "canary-federated", "", credential.Google{File: credentialsFile(t, map[string]any{
			"type": "external_account", "audience": "//iam/x", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
			"token_url": g.URL + "/exchange", "credential_source": map[string]any{"file": subject},
		})}},
		{"impersonated account", "canary-impersonated", "", credential.Google{File: credentialsFile(t, map[string]any{
			"type": "impersonated_service_account", "service_account_impersonation_url": g.URL + "/impersonate", "source_credentials": user,
		})}},
		{"machine", "canary-machine", "", credential.Google{Metadata: strings.TrimPrefix(g.URL, "http://")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := acceptingServer(t)
			c := newGoogleClient(t, s, tt.from, nil)
			if status, _, err := roundTrip(t, c, post("{}")); err != nil || status != 200 {
				t.Fatal(status, err)
			}
			r := s.Requests()[0]
			if r.Header.Get("Authorization") != "Bearer "+tt.want || r.Header.Get("X-Goog-User-Project") != tt.quota {
				t.Errorf("request\n%s", r.Head)
			}
			own := post("{}")
			own.Headers = []upstream.Header{{Name: "x-goog-user-project", Value: "another"}}
			if _, _, err := roundTrip(t, c, own); errorKind(t, err) != upstream.BadRequest {
				t.Errorf("header with another project: got %v, want BadRequest", err)
			}
		})
	}
}

func TestTokenErrors(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	at := func(status int, body string, headers ...string) func(t *testing.T) credential.Google {
		return func(t *testing.T) credential.Google {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, h := range headers {
					name, value, _ := strings.Cut(h, ": ")
					w.Header().Set(name, value)
				}
				if status == 0 {
					_ = r.ParseForm() // the server detects a disconnect only after it has read the body
					select {
					case <-silent:
					case <-r.Context().Done():
					}
					return
				}
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}))
			t.Cleanup(s.Close)
			return credential.Google{File: accountFile(t, s.URL+"/canary?canary=canary")}
		}
	}
	file := func(text string) func(t *testing.T) credential.Google {
		return func(t *testing.T) credential.Google {
			return credential.Google{File: writeFile(t, filepath.Join(t.TempDir(), "google.json"), text)}
		}
	}
	for _, tt := range []struct {
		name string
		from func(t *testing.T) credential.Google
		want string
	}{
		{"rejected", at(400, `{"error":"invalid_grant","error_description":"canary"}`), "status 400 invalid_grant"},
		{"rejected with an invalid code", at(401, `{"error":"canary canary"}`), "status 401"},
		{"server error", at(500, `canary`), "status 500"},
		{"redirect", at(307, `canary`, "Location: https://canary.example/"), "status 307"},
		{"invalid response", at(200, `canary`), "invalid response"},
		{"no token", at(200, `{"canary":1}`), "the response has no token"},
		{"invalid token", at(200, `{"access_token":"canary\r\nX: y","expires_in":1}`), "the response has no token"},
		{"silent", at(0, ""), "timed out"},
		{"connection refused", func(t *testing.T) credential.Google {
			return credential.Google{File: accountFile(t, "http://127.0.0.1:1/canary")}
		}, "dial 127.0.0.1:1: connect: connection refused"},
		{"no metadata server", func(t *testing.T) credential.Google { return credential.Google{Metadata: "127.0.0.1:1"} }, "Google, the metadata server: dial 127.0.0.1:1"},
		{"no file", func(t *testing.T) credential.Google { return credential.Google{File: "/nowhere/google.json"} }, "open /nowhere/google.json: no such file"},
		{"not JSON", file("canary"), "the file is not a JSON credential"},
		{"no type", file("{}"), "the file has no type"},
		{"unknown type", file(`{"type":"canary"}`), "credentials of this type are not supported"},
		{"no key", file(`{"type":"service_account","client_email":"canary"}`), "client_email or private_key is missing"},
		{"not a key", file(`{"type":"service_account","client_email":"a","private_key":"canary"}`), "private_key is not a PEM key"},
		{"incomplete federation", file(`{"type":"external_account","audience":"canary"}`), "the external account is incomplete"},
		{"incomplete impersonation", file(`{"type":"impersonated_service_account","service_account_impersonation_url":"canary"}`), "source_credentials or service_account_impersonation_url is missing"},
		{"impersonates itself", file(`{"type":"impersonated_service_account","service_account_impersonation_url":"canary","source_credentials":{"type":"impersonated_service_account"}}`), "is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := acceptingServer(t)
			c := newGoogleClient(t, s, tt.from(t), func(c *upstream.Config) {
				if tt.name == "silent" {
					c.Timeouts.Connect, c.Timeouts.TLS = 30*time.Millisecond, 30*time.Millisecond
				}
			})
			start := time.Now()
			for range 2 {
				_, _, err := roundTrip(t, c, post(`{"prompt":"canary"}`))
				if errorKind(t, err) != upstream.NoCredential || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
					t.Errorf("got error %v, want %q", err, tt.want)
				}
				var cause *credential.Error
				if tt.name != "silent" && (!errors.As(err, &cause) || !strings.HasPrefix(cause.Source, "Google, ")) {
					t.Errorf("cause of %v: %+v", err, cause)
				}
			}
			if d := time.Since(start); d > testTimeout {
				t.Errorf("took %v", d)
			}
			if n := len(s.Requests()); n != 0 {
				t.Errorf("%d requests were sent, want none", n)
			}
		})
	}
}

func TestTokenWaitIsCancelled(t *testing.T) {
	t.Parallel()
	requests := make(chan struct{}, 8)
	token := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // the server detects a disconnect only after it has read the body
		requests <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(token.Close)
	c := newGoogleClient(t, acceptingServer(t), credential.Google{File: accountFile(t, token.URL)}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	send := func(ctx context.Context) {
		_, err := c.Do(ctx, post("{}"), nil)
		failed <- err
	}
	go send(ctx)
	<-requests
	cancel()
	if err := <-failed; errorKind(t, err) != upstream.Cancelled {
		t.Errorf("error %v", err)
	}
	go send(t.Context())
	c.Close()
	if k := errorKind(t, <-failed); k != upstream.NoCredential && k != upstream.Closed {
		t.Errorf("kind %v", k)
	}
}
