package identity_test

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"encoding/base64"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("time.goFunc")) }

// gateway is what authenticates the clients of a gateway.
type gateway struct {
	keys  *access.Keys
	clock atomic.Int64 // seconds that have passed
}

func (g *gateway) now() time.Time { return time.Now().Add(time.Duration(g.clock.Load()) * time.Second) }

// check presents a token, and returns the principal or the error.
func (g *gateway) check(token string) (*access.Key, *apierror.Error) {
	return g.keys.Authenticate([][]byte{[]byte("Bearer " + token)}, g.now())
}

// code presents a token, and returns the status and code of the error; "" for none.
func (g *gateway) code(token string) string {
	if _, e := g.check(token); e != nil {
		return fmt.Sprint(e.Status, " ", e.Code)
	}
	return ""
}

// open starts a gateway for an issuer, with entries of [[identities]]; the default accepts every token.
func open(t testing.TB, i *issuertest.Issuer, dir string, entries string) *gateway {
	t.Helper()
	if entries == "" {
		entries = "[[identities]]\nissuer = \"idp\"\nname = \"{sub}\"\n"
	}
	text := fmt.Sprintf("[[issuers]]\nname = \"idp\"\nurl = %q\naudience = %q\n[[teams]]\nname = \"red\"\n[[teams]]\nname = \"blue\"\n", i.URL, issuertest.Audience) + entries
	cfg, err := config.Parse("gateway.toml", []byte(text), config.Options{Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return openConfig(t, cfg, dir)
}

func openConfig(t testing.TB, cfg *config.Config, dir string) *gateway {
	t.Helper()
	g := new(gateway)
	o := identity.Options{Log: slog.New(slog.DiscardHandler), Now: g.now}
	if dir != "" {
		o.Dir = func() (string, error) { return dir, nil }
	}
	d := identity.New(o)
	v, err := d.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.Close()
		d.Wait()
	})
	g.keys = access.New(nil, v)
	return g
}

type claims = map[string]any

func TestAcceptsEachMethod(t *testing.T) {
	for _, method := range []string{"RS256", "PS256", "ES256", "EdDSA"} {
		t.Run(method, func(t *testing.T) {
			i := issuertest.New(t)
			i.Rotate(method)
			g := open(t, i, "", "")
			key, e := g.check(i.Token(claims{"sub": "alice"}))
			if e != nil {
				t.Fatal(e, e.Cause)
			}
			if key.Name() != "idp:alice" || key.Series() != "identities[0]" || !key.Allows("anything") || key.Team() != "" {
				t.Errorf("got key %q, series %q, team %q", key.Name(), key.Series(), key.Team())
			}
			if a := key.Account(); !strings.HasPrefix(a, "idp:") || strings.Contains(a, "alice") {
				t.Errorf("the account is %q", a)
			}
		})
	}
}

// TestAttacks is the table of attacks on tokens: each must be refused, and none says why to the client.
func TestAttacks(t *testing.T) {
	i := issuertest.New(t)
	es := i.Signer()
	rs := i.AddKey("RS256")
	ed := i.AddKey("EdDSA")
	stranger := issuertest.New(t).Signer()
	g := open(t, i, "", "")
	header := func(members string) string { return `{"typ":"JWT",` + members + `}` }
	now := time.Now()
	body := func(changes claims) string {
		all := claims{"iss": i.URL, "aud": issuertest.Audience, "sub": "alice", "exp": now.Add(time.Hour).Unix()}
		maps.Copy(all, changes)
		for name, v := range all {
			if v == nil {
				delete(all, name)
			}
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := body(nil)
	es256 := fmt.Sprintf(`"alg":"ES256","kid":%q`, es.ID)
	n, _ := base64.RawURLEncoding.DecodeString(rs.JWK()["n"])
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
	const (
		invalid    = "401 invalid_token"
		expired    = "401 token_expired"
		notAllowed = "403 identity_not_allowed"
		unknown    = "401 invalid_api_key" // not even the form of a token
	)
	if got := g.code(es.Sign(header(es256), good)); got != "" {
		t.Fatalf("the good token: %s", got)
	}
	valid := es.Sign(header(es256), good)
	parts := strings.Split(valid, ".")
	for _, c := range []struct{ name, token, want string }{
		// Algorithms.
		{"none", issuertest.Unsigned(header(`"alg":"none"`), good), invalid},
		{"None", issuertest.Unsigned(header(`"alg":"None"`), good), invalid},
		{"none with a signature", es.Sign(header(`"alg":"none","kid":"`+es.ID+`"`), good), invalid},
		{"ES256 without a signature", issuertest.Unsigned(header(es256), good), invalid},
		{"no alg", es.Sign(header(`"kid":"`+es.ID+`"`), good), invalid},
		{"alg is a number", es.Sign(header(`"alg":256,"kid":"`+es.ID+`"`), good), invalid},
		{"alg in another case", es.Sign(header(`"alg":"es256","kid":"`+es.ID+`"`), good), invalid},
		{"HMAC with the modulus", issuertest.SignHMAC(public.N.Bytes(), header(`"alg":"HS256","kid":"`+rs.ID+`"`), good), invalid},
		{"HMAC with the key set", issuertest.SignHMAC(i.KeySet(), header(`"alg":"HS256","kid":"`+rs.ID+`"`), good), invalid},
		{"HMAC that claims RS256", issuertest.SignHMAC(public.N.Bytes(), header(`"alg":"RS256","kid":"`+rs.ID+`"`), good), invalid},
		{"PS256 with a key for RS256", rs.Sign(header(`"alg":"PS256","kid":"`+rs.ID+`"`), good), invalid},
		{"RS256 with the key for ES256", rs.Sign(header(`"alg":"RS256","kid":"`+es.ID+`"`), good), invalid},
		{"ES256 with the key for RS256", es.Sign(header(`"alg":"ES256","kid":"`+rs.ID+`"`), good), invalid},
		{"EdDSA with the key for ES256", ed.Sign(header(`"alg":"EdDSA","kid":"`+es.ID+`"`), good), invalid},
		{"ES384", es.Sign(header(`"alg":"ES384","kid":"`+es.ID+`"`), good), invalid},
		{"RS1", rs.Sign(header(`"alg":"RS1","kid":"`+rs.ID+`"`), good), invalid},
		// Keys.
		{"another issuer's key", stranger.Sign(header(es256), good), invalid},
		{"kid is a path", es.Sign(header(`"alg":"ES256","kid":"../../../../dev/null"`), good), invalid},
		{"kid is SQL", es.Sign(header(`"alg":"ES256","kid":"key-1' UNION SELECT 'AA' --"`), good), invalid},
		{"kid is a command", es.Sign(header(`"alg":"ES256","kid":"| touch /tmp/x"`), good), invalid},
		{"kid is a URL", es.Sign(header(`"alg":"ES256","kid":"https://attacker.example/k"`), good), invalid},
		{"kid is a number", es.Sign(header(`"alg":"ES256","kid":1`), good), invalid},
		{"kid is empty", es.Sign(header(`"alg":"ES256","kid":""`), good), invalid},
		{"kid is null", es.Sign(header(`"alg":"ES256","kid":null`), good), invalid},
		{"kid is long", es.Sign(header(`"alg":"ES256","kid":"`+strings.Repeat("k", 300)+`"`), good), invalid},
		{"jku", es.Sign(header(es256+`,"jku":"https://attacker.example/keys"`), good), invalid},
		{"x5u", es.Sign(header(es256+`,"x5u":"https://attacker.example/cert"`), good), invalid},
		{"x5c", es.Sign(header(es256+`,"x5c":["AA=="]`), good), invalid},
		{"an embedded key", stranger.Sign(header(es256+`,"jwk":{"kty":"EC","crv":"P-256","x":"`+stranger.JWK()["x"]+`","y":"`+stranger.JWK()["y"]+`"}`), good), invalid},
		// Header.
		{"crit", es.Sign(header(es256+`,"crit":["exp"],"exp":1`), good), invalid},
		{"crit is empty", es.Sign(header(es256+`,"crit":[]`), good), invalid},
		{"b64 is false", es.Sign(header(es256+`,"b64":false`), good), invalid},
		{"zip", es.Sign(header(es256+`,"zip":"DEF"`), good), invalid},
		{"alg twice", es.Sign(`{"alg":"none",`+es256+`}`, good), invalid},
		{"alg twice, once escaped", es.Sign(`{"\u0061lg":"none",`+es256+`}`, good), invalid},
		{"typ of a logout token", es.Sign(`{"typ":"logout+jwt",`+es256+`}`, good), invalid},
		{"typ of a DPoP proof", es.Sign(`{"typ":"dpop+jwt",`+es256+`}`, good), invalid},
		{"typ is a number", es.Sign(`{"typ":1,`+es256+`}`, good), invalid},
		{"header is an array", es.Sign(`[]`, good), unknown},
		{"header with text after it", es.Sign(header(es256)+`{}`, good), invalid},
		{"header is not UTF-8", es.Sign(header(es256+`,"x":"`+"\xff"+`"`), good), invalid},
		// Claims.
		{"claims are an array", es.Sign(header(es256), `["alice"]`), invalid},
		{"sub twice", es.Sign(header(es256), `{"sub":"alice",`+strings.Replace(good, `"sub":"alice"`, `"sub":"root"`, 1)[1:]), invalid},
		{"exp twice", es.Sign(header(es256), `{"exp":1,`+good[1:]), invalid},
		{"claims with text after them", es.Sign(header(es256), good+`,`), invalid},
		{"deep claims", es.Sign(header(es256), strings.Replace(good, "{", `{"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,`, 1)), invalid},
		{"iss of another", es.Sign(header(es256), body(claims{"iss": "https://attacker.example"})), invalid},
		{"iss with a slash", es.Sign(header(es256), body(claims{"iss": i.URL + "/"})), invalid},
		{"iss is an array", es.Sign(header(es256), body(claims{"iss": []string{i.URL}})), invalid},
		{"no iss", es.Sign(header(es256), body(claims{"iss": nil})), invalid},
		{"aud of another", es.Sign(header(es256), body(claims{"aud": "payroll"})), invalid},
		{"aud in another case", es.Sign(header(es256), body(claims{"aud": "Sluice"})), invalid},
		{"aud of others", es.Sign(header(es256), body(claims{"aud": []any{"payroll", 1, nil}})), invalid},
		{"aud is an object", es.Sign(header(es256), body(claims{"aud": claims{"sluice": true}})), invalid},
		{"no aud", es.Sign(header(es256), body(claims{"aud": nil})), invalid},
		// Times.
		{"expired beyond the skew", es.Sign(header(es256), body(claims{"exp": now.Add(-61 * time.Second).Unix()})), expired},
		{"not valid yet, beyond the skew", es.Sign(header(es256), body(claims{"nbf": now.Add(2 * time.Minute).Unix()})), expired},
		{"no exp", es.Sign(header(es256), body(claims{"exp": nil})), expired},
		{"exp is a text", es.Sign(header(es256), body(claims{"exp": "4102444800"})), expired},
		{"exp is negative", es.Sign(header(es256), body(claims{"exp": -1})), expired},
		{"exp has a huge exponent", es.Sign(header(es256), strings.Replace(body(claims{"exp": 7}), `"exp":7`, `"exp":1e300`, 1)), expired},
		{"exp overflows", es.Sign(header(es256), strings.Replace(body(claims{"exp": 7}), `"exp":7`, `"exp":1e400`, 1)), invalid},
		{"nbf is a text", es.Sign(header(es256), body(claims{"nbf": "0"})), expired},
		// Names.
		{"no sub", es.Sign(header(es256), body(claims{"sub": nil})), notAllowed},
		{"sub is empty", es.Sign(header(es256), body(claims{"sub": ""})), notAllowed},
		{"sub is an object", es.Sign(header(es256), body(claims{"sub": claims{}})), notAllowed},
		{"sub has a line break", es.Sign(header(es256), body(claims{"sub": "alice\nkey=root"})), notAllowed},
		{"sub turns the text around", es.Sign(header(es256), body(claims{"sub": "alice\u202etoor"})), notAllowed},
		{"sub is long", es.Sign(header(es256), body(claims{"sub": strings.Repeat("a", 257)})), notAllowed},
		// Encoding.
		{"changed claims", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(body(claims{"sub": "root"}))) + "." + parts[2], invalid},
		{"the signature is cut", valid[:len(valid)-2], invalid},
		{"padding", parts[0] + "." + parts[1] + "=." + parts[2], invalid},
		{"standard base64", parts[0] + "." + parts[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(parts[2]) + "+/", invalid},
		{"four parts", valid + ".AA", unknown},
		{"two parts", parts[0] + "." + parts[1], unknown},
		{"empty claims", parts[0] + ".." + parts[2], invalid},
		{"longer than 8 KB", es.Sign(header(es256), body(claims{"x": strings.Repeat("x", 7000)})), invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, e := g.check(c.token)
			if e == nil {
				t.Fatalf("accepted as %s", key.Name())
			}
			if got := fmt.Sprint(e.Status, " ", e.Code); got != c.want {
				t.Errorf("got %s (%v), want %s", got, e.Cause, c.want)
			}
			if part := strings.Split(c.token, ".")[1]; len(part) > 20 && strings.Contains(e.Error()+fmt.Sprint(e.Cause), part) {
				t.Error("the error contains the token")
			}
		})
	}
	for _, c := range []struct {
		name   string
		claims claims
	}{
		{"expired within the skew", claims{"exp": now.Add(-50 * time.Second).Unix()}},
		{"not valid yet, within the skew", claims{"nbf": now.Add(50 * time.Second).Unix()}},
		{"exp is not whole", claims{"exp": float64(now.Add(time.Hour).Unix()) + 0.5}},
		{"several audiences", claims{"aud": []string{"payroll", issuertest.Audience}}},
		{"a service account", claims{"sub": "system:serviceaccount:prod:worker"}},
		{"a path", claims{"sub": "spiffe://acme.example/ns/prod/sa/worker"}},
		{"a name of another alphabet", claims{"sub": "Ренé 名"}},
	} {
		if got := g.code(es.Sign(header(es256), body(c.claims))); got != "" {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	for _, typ := range []string{"jwt", "JWT", "at+jwt", "application/at+JWT"} {
		if got := g.code(es.Sign(fmt.Sprintf(`{"typ":%q,%s}`, typ, es256), good)); got != "" {
			t.Errorf("typ %s: %s", typ, got)
		}
	}
}

func TestRules(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", `
		[[identities]]
		issuer = "idp"
		when = { claim = { groups = ["ai-*", "research"], email_verified = ["true"] } }
		name = "{email}"
		team = "{department}"
		models = ["gpt-*"]
		tags = { plan = "gold" }
		explain = true

		[[identities]]
		issuer = "idp"
		when = { claim = { "/kubernetes.io/namespace" = ["prod"] } }
		name = "k8s/{/kubernetes.io/namespace}/{/kubernetes.io/serviceaccount/name}"
		team = "{department}"
		team_default = "blue"

		[[identities]]
		issuer = "idp"
		when = { claim = { level = ["3"] } }
		name = "{sub}"
		team = "red"
		pseudonym = true

		[router]
		salt = "pepper"
		`)
	k8s := func(namespace string) claims {
		return claims{"namespace": namespace, "serviceaccount": claims{"name": "worker"}}
	}
	for _, c := range []struct {
		name       string
		claims     claims
		want, team string // or the code of the error
	}{
		{"the first rule", claims{"email": "a@x", "groups": []string{"all", "ai-users"}, "email_verified": true, "department": "red"}, "idp:a@x", "red"},
		{"a single value", claims{"email": "a@x", "groups": "research", "email_verified": true, "department": "blue"}, "idp:a@x", "blue"},
		{"the group does not match", claims{"email": "a@x", "groups": []string{"all"}, "email_verified": true, "department": "red"}, "403 identity_not_allowed", ""},
		{"one claim is missing", claims{"email": "a@x", "groups": []string{"ai-users"}, "department": "red"}, "403 identity_not_allowed", ""},
		{"a team that does not exist", claims{"email": "a@x", "groups": "ai-x", "email_verified": true, "department": "green"}, "403 identity_not_allowed", ""},
		{"no team", claims{"email": "a@x", "groups": "ai-x", "email_verified": true}, "403 identity_not_allowed", ""},
		{"by JSON Pointer", claims{"kubernetes.io": k8s("prod"), "department": "red"}, "idp:k8s/prod/worker", "red"},
		{"the default team", claims{"kubernetes.io": k8s("prod"), "department": "green"}, "idp:k8s/prod/worker", "blue"},
		{"the default team without a claim", claims{"kubernetes.io": k8s("prod")}, "idp:k8s/prod/worker", "blue"},
		{"another namespace", claims{"kubernetes.io": k8s("test")}, "403 identity_not_allowed", ""},
		{"a number", claims{"level": 3, "sub": "alice"}, "idp:p-", "red"},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, e := g.check(i.Token(c.claims))
			if e != nil {
				if got := fmt.Sprint(e.Status, " ", e.Code); got != c.want {
					t.Errorf("got %s (%v), want %s", got, e.Cause, c.want)
				}
				return
			}
			if !strings.HasPrefix(key.Name(), c.want) || key.Team() != c.team || strings.Contains(key.Name(), "alice") {
				t.Errorf("got %q of team %q, want %q of %q", key.Name(), key.Team(), c.want, c.team)
			}
		})
	}
	first := claims{"email": "a@x", "groups": "ai-x", "email_verified": true, "department": "red"}
	key, _ := g.check(i.Token(first))
	if key.Allows("claude") || !key.Allows("gpt-6") || key.TagText() != "plan=gold" || !key.MayExplain() {
		t.Errorf("the first rule gives tags %q and explain %t", key.TagText(), key.MayExplain())
	}
	// A token with the same name has the same account, whatever its other claims.
	first["department"] = "blue"
	if other, _ := g.check(i.Token(first)); other.Account() != key.Account() || other.Team() != "blue" {
		t.Errorf("got account %s of team %s, want %s of blue", other.Account(), other.Team(), key.Account())
	}
}

// TestTokensAreNotMixedUp checks that a cached token does not stand for another one that has a part in common with it.
func TestTokensAreNotMixedUp(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", "")
	token := i.Token(claims{"sub": "alice"})
	for range 2 { // verified, then from the cache
		if key, e := g.check(token); e != nil || key.Name() != "idp:alice" {
			t.Fatal(key, e)
		}
	}
	parts := strings.Split(token, ".")
	other := strings.Split(i.Token(claims{"sub": "bob"}), ".")
	for _, forged := range []string{
		parts[0] + "." + parts[1] + "." + other[2], parts[0] + "." + other[1] + "." + parts[2], token[:len(token)-1], token + "A",
	} {
		if got := g.code(forged); got != "401 invalid_token" {
			t.Errorf("got %q, want 401 invalid_token", got)
		}
	}
	if key, e := g.check(strings.Join(other, ".")); e != nil || key.Name() != "idp:bob" {
		t.Error(key, e)
	}
}

func TestCachedTokenExpires(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", "")
	token := i.Token(claims{"sub": "alice", "exp": time.Now().Add(2 * time.Minute).Unix()})
	if got := g.code(token); got != "" {
		t.Fatal(got)
	}
	g.clock.Store(179)
	if got := g.code(token); got != "" {
		t.Errorf("within the skew: %s", got)
	}
	g.clock.Store(182)
	if got := g.code(token); got != "401 token_expired" {
		t.Errorf("after the skew: got %q", got)
	}
}

func TestErrorNamesIssuer(t *testing.T) {
	i := issuertest.New(t)
	g := open(t, i, "", "")
	_, e := g.check(i.Token(claims{"sub": "alice", "aud": "payroll"}))
	cause, ok := errors.AsType[*identity.Error](e.Cause)
	if !ok || cause.Issuer != "idp" || cause.Error() != "token of issuer idp: aud contains no audience of the issuer" {
		t.Errorf("got cause %v", e.Cause)
	}
}

func TestKeysInFile(t *testing.T) {
	i := issuertest.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "keys.json")
	if err := os.WriteFile(file, i.KeySet(), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[[issuers]]\nname = \"idp\"\nurl = %q\njwks = { file = \"keys.json\" }\naudience = \"sluice\"\n[[identities]]\nissuer = \"idp\"\nname = \"{sub}\"\n", i.URL)
	cfg, err := config.Parse(filepath.Join(dir, "gateway.toml"), []byte(text), config.Options{Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	g := openConfig(t, cfg, "")
	if key, e := g.check(i.Token(claims{"sub": "alice"})); e != nil || key.Name() != "idp:alice" {
		t.Error(key, e)
	}
	old := i.Token(claims{"sub": "bob"})
	i.Rotate("ES256")
	if got := g.code(i.Token(claims{"sub": "alice"})); got != "401 invalid_token" {
		t.Errorf("a key that is not in the file: got %q", got)
	}
	g.clock.Store(1e9 / 1000) // the file never becomes stale, so the reason is the token's age
	if got := g.code(old); got != "401 token_expired" {
		t.Errorf("after eleven days: got %q", got)
	}
	if i.Fetches() != 0 {
		t.Errorf("the keys were fetched %d times", i.Fetches())
	}
	if err := os.WriteFile(file, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.New(identity.Options{Now: time.Now}).Open(cfg); err == nil || !strings.Contains(err.Error(), "issuers[0].jwks") {
		t.Errorf("a file without keys: %v", err)
	}
}
