package upstream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const canary = `sk-canary/+"\0123456789`

func TestRejectsInvalidConfiguration(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  upstream.Config
		want string
	}{
		{"no URL", upstream.Config{}, "neither http nor https"},
		{"another scheme", upstream.Config{BaseURL: "ftp://a"}, "neither http nor https"},
		{"no scheme", upstream.Config{BaseURL: "api.openai.com/v1"}, "neither http nor https"},
		{"no host", upstream.Config{BaseURL: "https:///v1"}, "no host"},
		{"opaque", upstream.Config{BaseURL: "https:canary"}, "no host"},
		{"user", upstream.Config{BaseURL: "https://me:canary@a"}, "user information"},
		{"query", upstream.Config{BaseURL: "https://a/v1?key=canary"}, "query or a fragment"},
		{"empty query", upstream.Config{BaseURL: "https://a/v1?"}, "query or a fragment"},
		{"fragment", upstream.Config{BaseURL: "https://a/v1#canary"}, "query or a fragment"},
		{"not ASCII", upstream.Config{BaseURL: "https://cänary"}, "not ASCII"},
		{"control byte", upstream.Config{BaseURL: "https://a/\ncanary"}, "is malformed"},
		{"port", upstream.Config{BaseURL: "https://a:canary"}, "is malformed"},
		{"dot segment", upstream.Config{BaseURL: "https://a/v1/%2e./canary"}, "dot segment"},
		{"empty segment", upstream.Config{BaseURL: "https://a//canary"}, "empty segment"},
		{"credential nowhere", upstream.Config{BaseURL: "https://a", Credential: credential.Credential{Secrets: []string{canary}}}, "needs a header or a query"},
		{"credential in both", upstream.Config{BaseURL: "https://a", Credential: credential.Credential{Header: "a", Query: "b", Secrets: []string{canary}}}, "needs a header or a query"},
		{"credential with LF", upstream.Config{BaseURL: "https://a", Credential: credential.Credential{Header: "a", Secrets: []string{canary + "\n"}}}, "cannot be sent"},
		{"credential's header with a space", upstream.Config{BaseURL: "https://a", Credential: credential.Credential{Header: "a b", Secrets: []string{canary}}}, "cannot be sent"},
		{"TLS unverified", upstream.Config{BaseURL: "https://a", TLS: &tls.Config{InsecureSkipVerify: true}}, "InsecureSkipVerify"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := upstream.New(tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

func TestCredentialIsNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, c := range []credential.Credential{{Header: "Authorization", Prefix: "Bearer ", Secrets: []string{canary}}, {Query: "key", Secrets: []string{canary}}} {
		j, err := json.Marshal(map[string]any{"c": c, "p": &c})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "c", c, "p", &c, "s", struct{ C credential.Credential }{c})
		for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%v %+v %#v", &c, &c, &c), string(j), log.String()} {
			if strings.Contains(s, "canary") {
				t.Errorf("printed: %s", s)
			}
		}
	}
}

func TestErrorsOmitQueryAndCredential(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 200 OK\r\nX-Canary: sk-canary\x00\r\n\r\n"), upstreamtest.AwaitClose()})
	for _, cred := range []credential.Credential{{Header: "x-api-key", Secrets: []string{"sk-canary"}}, {Query: "key", Secrets: []string{"sk-canary"}}} {
		c := newClient(t, s, func(c *upstream.Config) { c.Credential = cred })
		r := post(`{"prompt":"canary"}`)
		r.Path = "/x?q=canary"
		_, err := c.Do(context.Background(), r, nil)
		if errorKind(t, err) != upstream.InvalidResponse || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "/v1/x:") {
			t.Errorf("got error %v", err)
		}
	}
}

func TestRedactor(t *testing.T) {
	t.Parallel()
	r := credential.NewRedactor(canary, "short", "", "another-secret")
	inJSON, err := json.Marshal(canary)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"raw": canary, "query": url.QueryEscape(canary), "path": url.PathEscape(canary), "JSON": strings.Trim(string(inJSON), `"`),
		"base64": base64.StdEncoding.EncodeToString([]byte(canary)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(canary)),
		"hexadecimal": fmt.Sprintf("%x", canary), "second secret": "another-secret",
	} {
		text := "key " + form + " and again " + form + "."
		got := string(r.Redact([]byte(text)))
		if strings.Contains(got, form) || strings.Count(got, "[redacted]") != 2 || !strings.HasPrefix(got, "key ") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	plain := []byte("no long secrets, in short")
	if got := r.Redact(plain); &got[0] != &plain[0] || string(got) != "no long secrets, in short" {
		t.Errorf("got %q", got)
	}
	if got := credential.NewRedactor().Redact(plain); &got[0] != &plain[0] {
		t.Error("a redactor without secrets copied its input")
	}
	if got := (credential.Credential{Secrets: []string{"sk-0123456789"}}).Redactor().Redact([]byte("Incorrect API key: sk-0123456789")); string(got) != "Incorrect API key: [redacted]" {
		t.Errorf("got %q", got)
	}
}

func TestKindAndPhaseNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := upstream.Unreachable; k <= upstream.NoCredential; k++ {
		seen[k.String()] = true
	}
	for p := upstream.PhaseConnect; p <= upstream.PhaseBody; p++ {
		seen[p.String()] = true
	}
	if len(seen) != int(upstream.NoCredential)+int(upstream.PhaseBody) {
		t.Errorf("names are not unique: %v", seen)
	}
	if s := upstream.ErrorKind(0).String() + " " + upstream.Phase(99).String(); s != "error kind 0 phase 99" {
		t.Error(s)
	}
}
