package identity_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

func TestRotation(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", "")
	before := i.Token(claims{"sub": "alice"})
	if got := g.code(before); got != "" {
		t.Fatal(got)
	}
	g.clock.Add(31) // since the fetch at the start
	i.AddKey("EdDSA")
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			if got := g.code(i.Token(claims{"sub": fmt.Sprint("user-", n)})); got != "" {
				t.Errorf("with the new key: %s", got)
			}
		})
	}
	all.Wait()
	if n := i.Fetches(); n != 2 {
		t.Errorf("the keys were fetched %d times, want 2", n)
	}
	g.clock.Add(31)
	i.Rotate("ES256")
	if got := g.code(i.Token(claims{"sub": "bob"})); got != "" {
		t.Error(got)
	}
	// The old key is gone, and with it every token that is not verified already.
	if got := g.code(before); got != "" {
		t.Errorf("a cached token of the old key: %s", got)
	}
	g.clock.Add(301)
	if got := g.code(before); got != "401 invalid_token" {
		t.Errorf("a token of the old key: got %q", got)
	}
}

func TestUnknownKeysCauseFewFetches(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", "")
	i.WaitFetches(1)
	signer := i.Signer()
	body := fmt.Sprintf(`{"iss":%q,"aud":"sluice","sub":"x","exp":4102444800}`, i.URL)
	for second := range 120 {
		for n := range 50 {
			token := signer.Sign(fmt.Sprintf(`{"alg":"ES256","kid":"junk-%d-%d"}`, second, n), body)
			if got := g.code(token); got != "401 invalid_token" {
				t.Fatalf("second %d: got %q", second, got)
			}
		}
		g.clock.Add(1)
	}
	// The first is that of the start.
	if n := i.Fetches(); n < 3 || n > 5 {
		t.Errorf("the keys were fetched %d times in two minutes, want 4", n)
	}
	before := i.Fetches()
	same := signer.Sign(`{"alg":"ES256","kid":"junk-again"}`, body)
	for range 59 {
		if got := g.code(same); got != "401 invalid_token" {
			t.Fatal(got)
		}
		g.clock.Add(1)
	}
	if n := i.Fetches() - before; n > 1 {
		t.Errorf("the same unknown key caused %d fetches in a minute", n)
	}
}

func TestIssuerIsDown(t *testing.T) {
	i := issuertest.New(t)
	dir := t.TempDir()
	g := open(t, i, dir, "")
	if got := g.code(i.Token(claims{"sub": "alice"})); got != "" {
		t.Fatal(got)
	}
	i.Down()
	g.clock.Add(3600)
	if got := g.code(i.Token(claims{"sub": "bob", "exp": 4102444800})); got != "" {
		t.Errorf("with the keys of an hour ago: %s", got)
	}
	i.AddKey("ES256")
	if got := g.code(i.Token(claims{"sub": "bob", "exp": 4102444800})); got != "503 identity_unavailable" {
		t.Errorf("with a new key: got %q", got)
	}
	// Another process starts with the keys of this one.
	i.Rotate("ES256")
	other := open(t, i, dir, "")
	if got := other.code(i.Token(claims{"sub": "bob"})); got != "503 identity_unavailable" {
		t.Errorf("a new key at the start: got %q", got)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 || filepath.Base(files[0]) != "idp.json" {
		t.Errorf("the folder has %v", files)
	}
	g.clock.Add(24 * 3600)
	if got := g.code(i.Token(claims{"sub": "alice", "exp": 4102444800})); got != "503 identity_unavailable" {
		t.Errorf("with the keys of a day ago: got %q", got)
	}
	i.Respond(nil)
	g.clock.Add(31)
	if got := g.code(i.Token(claims{"sub": "alice", "exp": 4102444800})); got != "" {
		t.Errorf("up again: %s", got)
	}
}

func TestStartsWithSavedKeys(t *testing.T) {
	i := issuertest.New(t)
	dir := t.TempDir()
	first := open(t, i, dir, "")
	token := i.Token(claims{"sub": "alice"})
	if got := first.code(token); got != "" {
		t.Fatal(got)
	}
	i.Down()
	for name, c := range map[string]struct {
		change func(text string) string
		want   string
	}{
		"as saved":          {func(s string) string { return s }, ""},
		"of another issuer": {func(s string) string { return strings.Replace(s, i.URL, "https://other.example", 1) }, "503 identity_unavailable"},
		"damaged":           {func(s string) string { return s[:len(s)/2] }, "503 identity_unavailable"},
		"too old":           {func(s string) string { return strings.Replace(s, `"fetched":1`, `"fetched":0`, 1) }, "503 identity_unavailable"},
		"duplicate members": {func(s string) string { return strings.Replace(s, `"kty"`, `"kty":"RSA","kty"`, 1) }, "503 identity_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "idp.json"))
			if err != nil {
				t.Fatal(err)
			}
			own := t.TempDir()
			if err := os.WriteFile(filepath.Join(own, "idp.json"), []byte(c.change(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := open(t, i, own, "").code(token); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestIssuerLies checks that nothing an issuer's server sends makes a gateway trust other keys or wait forever.
func TestIssuerLies(t *testing.T) {
	for name, respond := range map[string]func(i *issuertest.Issuer) func(http.ResponseWriter, string) bool{
		"discovery for another issuer": func(i *issuertest.Issuer) func(http.ResponseWriter, string) bool {
			return discovery(`{"issuer":"https://other.example","jwks_uri":"` + i.URL + `/keys"}`)
		},
		"discovery to a file": func(i *issuertest.Issuer) func(http.ResponseWriter, string) bool {
			return discovery(`{"issuer":"` + i.URL + `","jwks_uri":"file:///etc/passwd"}`)
		},
		"discovery with two jwks_uri": func(i *issuertest.Issuer) func(http.ResponseWriter, string) bool {
			return discovery(`{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys","jwks_uri":"` + i.URL + `/keys"}`)
		},
		"a redirect": func(i *issuertest.Issuer) func(http.ResponseWriter, string) bool {
			return func(w http.ResponseWriter, path string) bool {
				if path == "/keys" {
					w.Header().Set("Location", i.URL+"/other")
					w.WriteHeader(http.StatusFound)
				} else if path == "/other" {
					_, _ = w.Write(i.KeySet())
				}
				return path == "/keys" || path == "/other"
			}
		},
		"no key of use": func(*issuertest.Issuer) func(http.ResponseWriter, string) bool {
			return keySet(`{"keys":[{"kty":"oct","k":"AAAA","kid":"key-1"},{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"key-1"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"key-1"}]}`)
		},
		"too large": func(*issuertest.Issuer) func(http.ResponseWriter, string) bool {
			return keySet(`{"keys":[` + strings.Repeat(" ", 2<<20) + `]}`)
		},
		"not JSON": func(*issuertest.Issuer) func(http.ResponseWriter, string) bool { return keySet("<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			i := issuertest.New(t)
			i.Respond(respond(i))
			g := open(t, i, "", "")
			if got := g.code(i.Token(claims{"sub": "alice"})); got != "503 identity_unavailable" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func discovery(text string) func(http.ResponseWriter, string) bool {
	return func(w http.ResponseWriter, path string) bool {
		if path == "/keys" {
			return false
		}
		_, _ = w.Write([]byte(text))
		return true
	}
}

func keySet(text string) func(http.ResponseWriter, string) bool {
	return func(w http.ResponseWriter, path string) bool {
		if path != "/keys" {
			return false
		}
		_, _ = w.Write([]byte(text))
		return true
	}
}

func TestKeyWithoutID(t *testing.T) {
	i := issuertest.New(t)
	es := i.Signer()
	body := fmt.Sprintf(`{"iss":%q,"aud":"sluice","sub":"alice","exp":4102444800}`, i.URL)
	i.AddKey("EdDSA")
	g := open(t, i, "", "")
	if got := g.code(es.Sign(`{"alg":"ES256"}`, body)); got != "" {
		t.Errorf("the only key for ES256: %s", got)
	}
	g.clock.Add(31)
	i.AddKey("ES256")
	other := open(t, i, "", "")
	if got := other.code(es.Sign(`{"alg":"ES256"}`, body)); got != "401 invalid_token" {
		t.Errorf("one of two keys for ES256: got %q", got)
	}
}
