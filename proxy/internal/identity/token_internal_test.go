package identity

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// TestRFCVectors verifies the signatures of examples in RFC 7515 (A.2 and A.3) and RFC 8037 (A.4).
func TestRFCVectors(t *testing.T) {
	const (
		claims = ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
		n      = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
	)
	for _, v := range []struct{ name, jwk, token string }{
		{"RS256", `{"kty":"RSA","n":"` + n + `","e":"AQAB"}`, "eyJhbGciOiJSUzI1NiJ9" + claims + "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"},
		{"ES256", `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`, "eyJhbGciOiJFUzI1NiJ9" + claims + "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
		{"EdDSA", `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
	} {
		t.Run(v.name, func(t *testing.T) {
			keys, err := parseKeySet([]byte(`{"keys":[` + v.jwk + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			var got token
			if err := got.parse([]byte(v.token)); err != nil && v.name != "EdDSA" { // whose payload is not JSON
				t.Fatal(err)
			}
			if got.method != v.name {
				t.Fatalf("got method %q", got.method)
			}
			if err := keys[0].verify(&got); err != nil {
				t.Errorf("not verified: %v", err)
			}
			for _, changed := range []func(){func() { got.signature[3] ^= 1 }, func() { got.signature[3] ^= 1; got.signed = got.signed[1:] }} {
				if changed(); keys[0].verify(&got) == nil {
					t.Error("a changed token is verified")
				}
			}
		})
	}
}

// TestKeyParsing checks which keys of a set are used (RFC 7517 and RFC 7518).
func TestKeyParsing(t *testing.T) {
	const (
		ec  = `"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"`
		okp = `"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`
	)
	modulus := strings.Repeat("_", 342) // 2052 bits, odd
	for _, c := range []struct{ name, jwk, methods string }{
		{"EC", ec, "ES256"},
		{"EC with alg", ec + `,"alg":"ES256"`, "ES256"},
		{"EC with another alg", ec + `,"alg":"ES384"`, ""},
		{"EC for encryption", ec + `,"use":"enc"`, ""},
		{"EC to sign only", ec + `,"key_ops":["sign"]`, ""},
		{"EC to verify", ec + `,"key_ops":["verify"]`, "ES256"},
		{"EC not on the curve", strings.Replace(ec, "f83O", "f84O", 1), ""},
		{"EC of another curve", strings.Replace(ec, "P-256", "P-384", 1), ""},
		{"Ed25519", okp, "EdDSA"},
		{"X25519", strings.Replace(okp, "Ed25519", "X25519", 1), ""},
		{"RSA", `"kty":"RSA","e":"AQAB","n":"` + modulus + `"`, "RS256 PS256"},
		{"RSA for PS256", `"kty":"RSA","alg":"PS256","e":"AQAB","n":"` + modulus + `"`, "PS256"},
		{"RSA for encryption", `"kty":"RSA","alg":"RSA-OAEP","e":"AQAB","n":"` + modulus + `"`, ""},
		{"RSA of 1024 bits", `"kty":"RSA","e":"AQAB","n":"` + modulus[:171] + `"`, ""},
		{"RSA with exponent 1", `"kty":"RSA","e":"AQ","n":"` + modulus + `"`, ""},
		{"RSA with a huge exponent", `"kty":"RSA","e":"` + modulus + `","n":"` + modulus + `"`, ""},
		{"RSA with an even exponent", `"kty":"RSA","e":"AQAC","n":"` + modulus + `"`, ""},
		{"a secret", `"kty":"oct","k":"AAAA"`, ""},
		{"no type", `"crv":"P-256"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var doc jsondoc.Doc
			if err := doc.Parse([]byte("{"+c.jwk+"}"), limits); err != nil {
				t.Fatal(err)
			}
			k, ok := parseKey(doc.Root())
			var names []string
			for _, m := range k.methods {
				names = append(names, m.Alg())
			}
			if got := strings.Join(names, " "); ok != (c.methods != "") || ok && got != c.methods {
				t.Errorf("got %q, %t, want %q", got, ok, c.methods)
			}
		})
	}
}

func TestCacheControl(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                         time.Hour,
		"max-age=600":              10 * time.Minute,
		"public, Max-Age=\"7200\"": 2 * time.Hour,
		"max-age=1":                leastAge,
		"max-age=99999999":         mostAge,
		"max-age=99999999999":      leastAge,
		"max-age=x":                leastAge,
		"no-store":                 leastAge,
		"private":                  time.Hour,
	} {
		h := http.Header{}
		if value != "" {
			h.Set("Cache-Control", value)
		}
		if got := maxAge(h); got != want {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// FuzzToken checks that a token is parsed only if its parts are JSON objects that every parser reads alike.
func FuzzToken(f *testing.F) {
	f.Add([]byte("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UifQ.AAAA"))
	f.Add([]byte("eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ."))
	f.Add([]byte("eyJ.eyJ."))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got token
		if !looksLikeToken(text) || got.parse(text) != nil {
			return
		}
		if got.issuer == "" && !got.claims.Root().Get("iss").Is("") || len(got.signed) >= len(text) {
			t.Errorf("%q: issuer %q, signed %q", text, got.issuer, got.signed)
		}
		_ = got.checkAudience([]string{"x"})
		_ = got.checkTime(time.Unix(1e9, 0))
		_, _ = fill(&got, []string{"", "sub", "/", "/a/b", ""})
	})
}

func FuzzVerdict(f *testing.F) {
	f.Add([]byte(`{"allow":true,"name":"ann","team":"red","tags":{"plan":"gold"},"ttl":60}`))
	f.Add([]byte(`{"allow":false,"ttl":1e999}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		now := time.Unix(1e9, 0)
		v, err := parseVerdict(text, now)
		if err == nil && (v.until.Sub(now) > maxVerdictTime || !v.until.IsZero() && v.until.Before(now)) {
			t.Errorf("%q: until %v", text, v.until)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeySet(data)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("%d keys, error %v", len(keys), err)
		}
		for i := range keys {
			if len(keys[i].methods) == 0 {
				t.Error("a key without a method")
			}
		}
	})
}
