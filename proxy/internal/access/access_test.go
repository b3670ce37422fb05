package access_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func key(name, secret string, models ...config.Glob) config.Key {
	return config.Key{Name: name, Digest: sha256.Sum256([]byte(secret)), Models: models}
}

// keys returns two valid keys, good and window, and one key for each reason to reject it.
func keys() *access.Keys {
	disabled := key("disabled", "sk-disabled", "*")
	disabled.Disabled = true
	expired := key("expired", "sk-expired", "*")
	expired.Expires = now
	early := key("early", "sk-early", "*")
	early.NotBefore = now.Add(time.Nanosecond)
	window := key("window", "sk-window", "*")
	window.NotBefore, window.Expires = now, now.Add(time.Nanosecond)
	return access.New([]config.Key{key("good", "sk-good", "demo", "gpt-*", "a/*/b"), disabled, expired, early, window}, nil)
}

func check(k *access.Keys, headers ...string) (*access.Key, *apierror.Error) {
	var values [][]byte
	for _, h := range headers {
		values = append(values, []byte(h))
	}
	return k.Authenticate(values, now)
}

// covers: V16 F129
func TestAuthorizationForms(t *testing.T) {
	for _, header := range []string{
		"Bearer sk-good", "bearer sk-good", "BEARER sk-good", "bEaReR sk-good",
		"Bearer  sk-good", "Bearer\tsk-good", " Bearer sk-good", "Bearer sk-good ", "\tBearer \t sk-good\t ",
	} {
		t.Run(header, func(t *testing.T) {
			k, e := check(keys(), header)
			if e != nil {
				t.Fatal(e)
			}
			if k.Name() != "good" {
				t.Errorf("got key %q, want good", k.Name())
			}
		})
	}
	if k, e := check(keys(), "Bearer sk-window"); e != nil || k.Name() != "window" {
		t.Errorf("a key that is valid for one nanosecond: %v", e)
	}
}

func TestRejectsInvalidCredentials(t *testing.T) {
	const (
		absent  = "missing_api_key"
		invalid = "invalid_api_key"
		twice   = "duplicate_authorization"
	)
	tests := []struct {
		name    string
		headers []string
		status  int
		code    string
		cause   error
	}{
		// covers: F128
		{"no header", nil, 401, absent, nil},
		{"an empty header", []string{""}, 401, absent, nil},
		{"a blank header", []string{" \t"}, 401, absent, nil},
		// covers: V9 F129
		{"another scheme", []string{"Basic c2stZ29vZA=="}, 401, invalid, access.ErrMalformed},
		{"no key", []string{"Bearer"}, 401, invalid, access.ErrMalformed},
		{"no key but spaces", []string{"Bearer   "}, 401, invalid, access.ErrMalformed},
		// covers: V9
		{"no scheme", []string{"sk-good"}, 401, invalid, access.ErrMalformed},
		{"no space", []string{"Bearersk-good"}, 401, invalid, access.ErrMalformed},
		{"a scheme that begins so", []string{"Bearers sk-good"}, 401, invalid, access.ErrMalformed},
		{"two words", []string{"Bearer sk-good x"}, 401, invalid, access.ErrMalformed},
		{"a control character", []string{"Bearer sk-good\x00"}, 401, invalid, access.ErrMalformed},
		// covers: F130
		{"same length", []string{"Bearer sk-fool"}, 401, invalid, access.ErrUnknown},
		{"one byte different", []string{"Bearer sk-gooe"}, 401, invalid, access.ErrUnknown},
		{"a prefix", []string{"Bearer sk-goo"}, 401, invalid, access.ErrUnknown},
		{"another case", []string{"Bearer SK-GOOD"}, 401, invalid, access.ErrUnknown},
		{"8 KiB", []string{"Bearer " + strings.Repeat("k", 8192)}, 401, invalid, access.ErrUnknown},
		{"not ASCII", []string{"Bearer sk-gööd"}, 401, invalid, access.ErrMalformed},
		// covers: F131
		{"two headers", []string{"Bearer sk-good", "Bearer sk-good"}, 400, twice, nil},
		{"two headers, one empty", []string{"", "Bearer sk-good"}, 400, twice, nil},
		{"joined by a comma", []string{"Bearer sk-good, Bearer sk-good"}, 400, twice, nil},
		{"keys joined by a comma", []string{"Bearer sk-good,sk-x"}, 400, twice, nil},
		// covers: F133
		{"disabled", []string{"Bearer sk-disabled"}, 401, invalid, access.ErrDisabled},
		{"expired", []string{"Bearer sk-expired"}, 401, invalid, access.ErrExpired},
		{"not yet valid", []string{"Bearer sk-early"}, 401, invalid, access.ErrNotYetValid},
		{"I3/an injection", []string{"Bearer ' OR 1=1--"}, 401, invalid, access.ErrMalformed},
		{"I4/the digest is no key", []string{"Bearer sha256:" + hex.EncodeToString(func() []byte { d := sha256.Sum256([]byte("sk-good")); return d[:] }())}, 401, invalid, access.ErrUnknown},
	}
	_, unknown := check(keys(), "Bearer sk-nobody")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, e := check(keys(), tt.headers...)
			if e == nil || k != nil {
				t.Fatalf("got key %v, error %v, want an error", k, e)
			}
			if e.Status != tt.status || e.Code != tt.code || e.Kind != apierror.KindInvalidRequest || e.Param != "" {
				t.Errorf("got error %v, want status %d, code %s", e, tt.status, tt.code)
			}
			if e.Authenticate != (tt.status == 401) {
				t.Errorf("got Authenticate %t for status %d", e.Authenticate, e.Status)
			}
			if tt.cause != nil && !errors.Is(e, tt.cause) {
				t.Errorf("got cause %v, want %v", e.Cause, tt.cause)
			}
			// The client must not learn why a key is rejected.
			if tt.code == invalid && (e.Message != unknown.Message || e.Status != unknown.Status || e.Code != unknown.Code || e.Kind != unknown.Kind) {
				t.Errorf("the error differs from that of an unknown key: %v", e)
			}
			for _, h := range tt.headers {
				if secret := strings.TrimSpace(strings.TrimPrefix(h, "Bearer")); len(secret) > 4 && strings.Contains(e.Error(), secret) {
					t.Errorf("the error contains the presented key: %v", e)
				}
			}
		})
	}
}

// covers: F133
func TestRejectionNamesKey(t *testing.T) {
	_, e := check(keys(), "Bearer sk-expired")
	if got := e.Cause.Error(); got != "key expired: expired key" {
		t.Errorf("got cause %q", got)
	}
	if strings.Contains(e.Message, "expired") {
		t.Errorf("the message reveals the reason: %s", e.Message)
	}
}

func TestNoKeysRejectsEveryone(t *testing.T) {
	none := access.New(nil, nil)
	for _, h := range []string{"Bearer x", "Bearer", ""} {
		if k, e := check(none, h); e == nil {
			t.Errorf("%q is accepted as %v", h, k)
		}
	}
}

// covers: V4
func TestKeyModelRestriction(t *testing.T) {
	k, e := check(keys(), "Bearer sk-good")
	if e != nil {
		t.Fatal(e)
	}
	for model, want := range map[string]bool{
		"demo": true, "demo2": false, "gpt-": true, "gpt-5.4/mini": true, "xgpt-5": false, "a/x/b": true, "a/x/y/b": true, "a/b": false, "": false, "*": false,
	} {
		if got := k.Allows(model); got != want {
			t.Errorf("Allows(%q): got %t, want %t", model, got, want)
		}
	}
	if access.New([]config.Key{key("none", "x")}, nil) == nil || new(access.Key).Allows("demo") {
		t.Error("a key without models may use one")
	}
	if a := access.Anonymous(); !a.Allows("anything") || a.Name() != "" {
		t.Error("the anonymous key has a name, or may not use every model")
	}
}

func TestNewSecretMatchesDigest(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		secret, digest := config.NewKey()
		if seen[secret] {
			t.Fatal("NewKey returned the same secret twice")
		}
		seen[secret] = true
		// 256 bits in base 64.
		if random, ok := strings.CutPrefix(secret, "sk-sluice-"); !ok || len(random) != 43 {
			t.Fatalf("the secret has %d characters, or the wrong prefix", len(secret))
		}
		text := fmt.Sprintf("[[keys]]\nname = \"new\"\ndigest = %q\n", digest)
		c, err := config.Parse("gateway.toml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if k, e := check(access.New(c.Keys, nil), "Bearer "+secret); e != nil || k.Name() != "new" {
			t.Fatalf("the key is rejected: %v", e)
		}
	}
}

// many returns n keys, and the Authorization header of the middle one.
func many(n int) (*access.Keys, [][]byte) {
	all := make([]config.Key, n)
	for i := range all {
		all[i] = key(fmt.Sprint("client-", i), fmt.Sprint("sk-", i), "gpt-*")
	}
	return access.New(all, nil), [][]byte{fmt.Appendf(nil, "Bearer sk-%d", n/2)}
}

// covers: F14
func TestManyKeys(t *testing.T) {
	const n = 100_000
	start := time.Now()
	k, header := many(n)
	t.Logf("%d keys in %s", n, time.Since(start))
	found, e := k.Authenticate(header, now)
	if e != nil || found.Name() != "client-50000" {
		t.Errorf("got key %v, error %v", found, e)
	}
}

func BenchmarkCheckManyKeys(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		k, header := many(n)
		b.Run(fmt.Sprint(n, "keys"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, e := k.Authenticate(header, now); e != nil {
					b.Fatal(e)
				}
			}
		})
		wrong := [][]byte{[]byte("Bearer sk-wrong")}
		b.Run(fmt.Sprint(n, "keys/unknown"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, e := k.Authenticate(wrong, now); e == nil {
					b.Fatal("an unknown key is accepted")
				}
			}
		})
	}
}

func TestKeyInOtherHeaders(t *testing.T) {
	values := func(list []string) (b [][]byte) {
		for _, v := range list {
			b = append(b, []byte(v))
		}
		return b
	}
	type list = []string
	for _, c := range []struct {
		name                  string
		authorization, others list
		code                  string // "" if the key is accepted
	}{
		{"in one", nil, list{"sk-good"}, ""},
		{"with spaces around it", nil, list{" sk-good\t"}, ""},
		{"in two", nil, list{"sk-good", "sk-good"}, ""},
		{"and in Authorization", list{"Bearer sk-good"}, list{"sk-good"}, ""},
		{"only in Authorization", list{"Bearer sk-good"}, list{"", " "}, ""},
		{"Authorization is empty", list{" "}, list{"sk-good"}, ""},

		{"nowhere", nil, list{""}, "missing_api_key"},
		{"unknown", nil, list{"sk-nobody"}, "invalid_api_key"},
		{"expired", nil, list{"sk-expired"}, "invalid_api_key"},
		{"disabled", nil, list{"sk-disabled"}, "invalid_api_key"},
		{"with a scheme", nil, list{"Bearer sk-good"}, "invalid_api_key"},
		{"two that differ", nil, list{"sk-good", "sk-nobody"}, "duplicate_authorization"},
		{"another in Authorization", list{"Bearer sk-nobody"}, list{"sk-good"}, "duplicate_authorization"},
		{"the good one in Authorization", list{"Bearer sk-good"}, list{"sk-nobody"}, "duplicate_authorization"},
		{"another scheme in Authorization", list{"Basic eDp5"}, list{"sk-good"}, "duplicate_authorization"},
		{"Authorization twice", list{"Bearer sk-good", "Bearer sk-good"}, list{"sk-good"}, "duplicate_authorization"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, e := keys().AuthenticateWith(values(c.authorization), values(c.others), now)
			switch {
			case c.code == "" && (e != nil || k.Name() != "good"):
				t.Errorf("got key %v, error %v, want good", k, e)
			case c.code != "" && (e == nil || e.Code != c.code || k != nil):
				t.Errorf("got key %v, error %v, want %s", k, e, c.code)
			}
		})
	}
}

// TestDigests checks a key with three secrets, of which each has its own end.
func TestDigests(t *testing.T) {
	rotated := key("rotated", "sk-first", "*")
	rotated.Expires = now.Add(time.Hour)
	for secret, expires := range map[string]time.Time{"sk-first": now.Add(time.Minute), "sk-second": {}, "sk-third": now.Add(2 * time.Hour)} {
		rotated.Digests = append(rotated.Digests, config.KeyDigest{Digest: sha256.Sum256([]byte(secret)), Expires: expires})
	}
	k := access.New([]config.Key{rotated}, nil)
	for secret, until := range map[string]time.Time{"sk-first": now.Add(time.Minute), "sk-second": rotated.Expires, "sk-third": rotated.Expires} {
		header := [][]byte{[]byte("Bearer " + secret)}
		if found, e := k.Authenticate(header, until.Add(-time.Nanosecond)); e != nil || found.Name() != "rotated" {
			t.Errorf("%s before its end: %v", secret, e)
		}
		if _, e := k.Authenticate(header, until); e == nil || !errors.Is(e.Cause, access.ErrExpired) {
			t.Errorf("%s at its end: %v, want it expired", secret, e)
		}
	}
	if found, err := k.Named("rotated", now.Add(2*time.Minute)); err != nil || found.Name() != "rotated" {
		t.Errorf("by name, with one secret expired: %v", err)
	}
	if _, err := k.Named("rotated", rotated.Expires); !errors.Is(err, access.ErrExpired) {
		t.Errorf("by name, with all secrets expired: %v", err)
	}
}
