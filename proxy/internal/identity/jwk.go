package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"math/big"
	"slices"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

const (
	maxKeySet  = 1 << 20 // bytes
	maxKeys    = 1000    // in a set
	minRSABits = 2048
	maxRSABits = 8192 // larger ones take milliseconds to verify
)

// publicKey is a key of an issuer.
type publicKey struct {
	id      string // kid; "" if it has none
	methods []jwt.SigningMethod
	key     crypto.PublicKey
}

// method returns the key's method of that name, or nil if the key does not serve it.
func (k *publicKey) method(name string) jwt.SigningMethod {
	for _, m := range k.methods {
		if m.Alg() == name {
			return m
		}
	}
	return nil
}

// verify verifies a token's signature.
func (k *publicKey) verify(t *token) error {
	return k.method(t.method).Verify(string(t.signed), t.signature, k.key)
}

var (
	errKeySet  = errors.New("the key set is not a JSON object with keys, or has duplicate members")
	errNoKeys  = errors.New("the key set has no key for RS256, PS256, ES256 or EdDSA")
	errTooMany = errors.New("the key set has too many keys")
)

// parseKeySet returns the usable keys of a key set (RFC 7517). Keys of other types, for other uses, and invalid ones are
// left out: an issuer may have some for other services.
func parseKeySet(data []byte) ([]publicKey, error) {
	var doc jsondoc.Doc
	if len(data) > maxKeySet || doc.Parse(data, jsondoc.Limits{Depth: 32, Nodes: 1 << 16}) != nil {
		return nil, errKeySet
	}
	list := doc.Root().Get("keys")
	if doc.Root().Kind() != jsondoc.Object || list.Kind() != jsondoc.Array {
		return nil, errKeySet
	}
	if list.Len() > maxKeys {
		return nil, errTooMany
	}
	var keys []publicKey
	for v := list.First(); v.Exists(); v = v.Next() {
		if k, ok := parseKey(v); ok {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	return keys, nil
}

// parseKey returns a key, and false if it is of no use.
func parseKey(v jsondoc.Value) (k publicKey, ok bool) {
	if v.Kind() != jsondoc.Object {
		return k, false
	}
	text := func(name string) string {
		if m := v.Get(name); m.Kind() == jsondoc.String {
			return m.Text()
		}
		return ""
	}
	if use := v.Get("use"); use.Exists() && text("use") != "sig" {
		return k, false
	}
	if ops := v.Get("key_ops"); ops.Exists() && !hasText(ops, "verify") {
		return k, false
	}
	if k.id = text("kid"); len(k.id) > maxKeyID || v.Get("kid").Exists() && k.id == "" {
		return k, false
	}
	switch text("kty") {
	case "RSA":
		k.key, ok = rsaKey(text("n"), text("e"))
		k.methods = []jwt.SigningMethod{jwt.SigningMethodRS256, jwt.SigningMethodPS256}
	case "EC":
		if text("crv") == "P-256" {
			k.key, ok = p256Key(text("x"), text("y"))
			k.methods = []jwt.SigningMethod{jwt.SigningMethodES256}
		}
	case "OKP":
		if text("crv") == "Ed25519" {
			x := fixedNumber(text("x"), ed25519.PublicKeySize)
			k.key, ok = ed25519.PublicKey(x), x != nil
			k.methods = []jwt.SigningMethod{jwt.SigningMethodEdDSA}
		}
	}
	if v.Get("alg").Exists() {
		alg := text("alg")
		k.methods = slices.DeleteFunc(k.methods, func(m jwt.SigningMethod) bool { return m.Alg() != alg && !(alg == "Ed25519" && m.Alg() == "EdDSA") })
	}
	return k, ok && len(k.methods) > 0
}

func hasText(array jsondoc.Value, text string) bool {
	if array.Kind() != jsondoc.Array {
		return false
	}
	for v := array.First(); v.Exists(); v = v.Next() {
		if v.Kind() == jsondoc.String && v.Is(text) {
			return true
		}
	}
	return false
}

func rsaKey(n, e string) (*rsa.PublicKey, bool) {
	modulus, exponent := number(n), number(e)
	if modulus == nil || exponent == nil {
		return nil, false
	}
	bits := modulus.BitLen()
	// A large exponent would make verifying slow; an even one is never valid.
	if bits < minRSABits || bits > maxRSABits || modulus.Bit(0) == 0 || exponent.BitLen() > 31 || exponent.Bit(0) == 0 || exponent.Cmp(big.NewInt(3)) < 0 {
		return nil, false
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, true
}

func p256Key(x, y string) (*ecdsa.PublicKey, bool) {
	const size = 32
	bx, by := fixedNumber(x, size), fixedNumber(y, size)
	if bx == nil || by == nil {
		return nil, false
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, bx, by)) // checks that it is on the curve
	return key, err == nil
}

// number decodes an unsigned number of any length; nil if it is none.
func number(text string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 || len(b) > maxRSABits/8+1 {
		return nil
	}
	return new(big.Int).SetBytes(b)
}

// fixedNumber decodes bytes of which there must be n; nil if there are not.
func fixedNumber(text string, n int) []byte {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != n {
		return nil
	}
	return b
}
