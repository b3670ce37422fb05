// Package issuertest is an identity provider for tests: it serves discovery and a key set on 127.0.0.1, signs any header
// and claims, rotates its keys, and can be down, slow, or lie.
//
// It imports no package of the gateway, and signs with the standard library, so that it is a second opinion on tokens.
//
// Concurrency: all methods may be called from any goroutine of a test.
package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Audience is the audience of tokens, unless their claims have another.
const Audience = "sluice"

// Issuer is an identity provider. New returns one.
type Issuer struct {
	URL string

	tb     testing.TB
	server *httptest.Server

	mu      sync.Mutex
	keys    []*Key // the last one signs
	made    int
	fetches int
	respond func(w http.ResponseWriter, path string) bool
	fetched chan struct{} // closed by the next fetch of keys, and replaced
}

// Key is a signing key.
type Key struct {
	ID     string
	Method string // RS256, PS256, ES256, EdDSA, or HS256 with the public key as the secret
	secret crypto.Signer
}

// New starts an issuer with one ES256 key. It ends with the test.
func New(tb testing.TB) *Issuer {
	i := &Issuer{tb: tb, fetched: make(chan struct{})}
	i.Rotate("ES256")
	i.server = httptest.NewServer(http.HandlerFunc(i.serve))
	i.URL = i.server.URL
	tb.Cleanup(i.server.Close)
	return i
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	respond := i.respond
	i.mu.Unlock()
	isKeys := r.URL.Path == "/keys"
	if isKeys {
		defer i.countFetch()
	}
	switch {
	case respond != nil && respond(w, r.URL.Path):
	case isKeys:
		_, _ = w.Write(i.KeySet())
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	default:
		http.NotFound(w, r)
	}
}

func (i *Issuer) countFetch() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetches++
	close(i.fetched)
	i.fetched = make(chan struct{})
}

// Respond makes f respond to requests for which it returns true. nil ends that.
func (i *Issuer) Respond(f func(w http.ResponseWriter, path string) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.respond = f
}

// Down makes all requests fail with 503.
func (i *Issuer) Down() {
	i.Respond(func(w http.ResponseWriter, _ string) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
}

// Fetches returns how many requests for the key set have ended.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// WaitFetches waits until n requests for the key set have ended.
func (i *Issuer) WaitFetches(n int) {
	i.tb.Helper()
	timeout := time.After(20 * time.Second)
	for {
		i.mu.Lock()
		have, fetched := i.fetches, i.fetched
		i.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-fetched:
		case <-timeout:
			i.tb.Fatalf("the keys were fetched %d times, want %d", have, n)
		}
	}
}

// Rotate replaces the keys by a new one for a method, and returns it.
func (i *Issuer) Rotate(method string) *Key {
	i.mu.Lock()
	i.keys = nil
	i.mu.Unlock()
	return i.AddKey(method)
}

// AddKey adds a key for a method, which signs from then on.
func (i *Issuer) AddKey(method string) *Key {
	i.tb.Helper()
	var secret crypto.Signer
	var err error
	switch method {
	case "RS256", "PS256":
		secret, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		secret, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "EdDSA":
		_, secret, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("no method %s", method)
	}
	if err != nil {
		i.tb.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	k := &Key{fmt.Sprint("key-", i.made), method, secret}
	i.keys = append(i.keys, k)
	return k
}

// Signer returns the key that signs.
func (i *Issuer) Signer() *Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[len(i.keys)-1]
}

// KeySet returns the key set.
func (i *Issuer) KeySet() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := []map[string]string{}
	for _, k := range i.keys {
		all = append(all, k.JWK())
	}
	text, _ := json.Marshal(map[string]any{"keys": all})
	return text
}

// JWK returns the public key as a JWK.
func (k *Key) JWK() map[string]string {
	m := map[string]string{"kid": k.ID, "use": "sig", "alg": k.Method}
	switch p := k.secret.Public().(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", encode(p.N.Bytes()), encode(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		m["kty"], m["crv"] = "EC", "P-256"
		point, _ := p.ECDH()
		m["x"], m["y"] = encode(point.Bytes()[1:33]), encode(point.Bytes()[33:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", encode(p)
	}
	return m
}

// Token returns a token of the issuer with these claims, and with iss, aud, iat and exp, in an hour, where they are
// missing.
func (i *Issuer) Token(claims map[string]any) string {
	now := time.Now()
	all := map[string]any{"iss": i.URL, "aud": Audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	text, err := json.Marshal(all)
	if err != nil {
		i.tb.Fatal(err)
	}
	k := i.Signer()
	return k.Sign(fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"JWT"}`, k.Method, k.ID), string(text))
}

// Sign returns a token with a header and claims as they are written, signed with the method of the key whatever the header
// says.
func (k *Key) Sign(header, claims string) string {
	signed := encode([]byte(header)) + "." + encode([]byte(claims))
	return signed + "." + encode(k.sign([]byte(signed)))
}

func (k *Key) sign(text []byte) []byte {
	sum := sha256.Sum256(text)
	var out []byte
	var err error
	switch s := k.secret.(type) {
	case *ecdsa.PrivateKey:
		var r, v *big.Int
		if r, v, err = ecdsa.Sign(rand.Reader, s, sum[:]); err == nil {
			out = append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
		}
	case *rsa.PrivateKey:
		if k.Method == "PS256" {
			out, err = rsa.SignPSS(rand.Reader, s, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			out, err = rsa.SignPKCS1v15(rand.Reader, s, crypto.SHA256, sum[:])
		}
	case ed25519.PrivateKey:
		out = ed25519.Sign(s, text)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// SignHMAC returns a token signed with HMAC and a secret, as an attacker would who knows a public key.
func SignHMAC(secret []byte, header, claims string) string {
	signed := encode([]byte(header)) + "." + encode([]byte(claims))
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(signed))
	return signed + "." + encode(h.Sum(nil))
}

// Unsigned returns a token without a signature.
func Unsigned(header, claims string) string {
	return strings.Join([]string{encode([]byte(header)), encode([]byte(claims)), ""}, ".")
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
