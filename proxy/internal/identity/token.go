package identity

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

const (
	maxToken = 8 << 10          // bytes of a token
	maxKeyID = 256              // bytes of a key's ID
	skew     = 60 * time.Second // how far the clocks of issuer and gateway may differ
)

// limits bounds header and claims.
var limits = jsondoc.Limits{Depth: 32, Nodes: 4096}

// looksLikeToken reports whether a text has the form of a signed token: three parts, of which the first is an encoded JSON
// object.
func looksLikeToken(text []byte) bool {
	return bytes.HasPrefix(text, []byte("eyJ")) && bytes.Count(text, []byte(".")) == 2
}

// token is a parsed token whose signature may or may not have been verified.
type token struct {
	signed    []byte // what the signature is for
	signature []byte
	method    string // alg of the header
	keyID     string // kid of the header; "" if there is none
	claims    jsondoc.Doc
	issuer    string
	expires   time.Time
}

// The reasons for which a token is refused before its key is known.
var (
	errTooLong   = fmt.Errorf("longer than %d bytes", maxToken)
	errEncoding  = errors.New("not encoded in base64url without padding")
	errHeader    = errors.New("the header is not a JSON object, or has duplicate members")
	errClaims    = errors.New("the claims are not a JSON object, or have duplicate members")
	errMethod    = errors.New("the algorithm is not one of RS256, PS256, ES256 and EdDSA")
	errKeyID     = errors.New("kid is not a string of at most 256 bytes")
	errType      = errors.New("typ is not that of an access or ID token")
	errNoIssuer  = errors.New("iss is missing, or not a string")
	errAudience  = errors.New("aud contains no audience of the issuer")
	errExpiry    = errors.New("exp is missing, or not a time")
	errNotBefore = errors.New("nbf is not a time")
	errExpired   = errors.New("expired")
	errEarly     = errors.New("not valid yet")
	errSignature = errors.New("the signature is not valid")
)

// methods are the accepted algorithms.
var methods = []string{"RS256", "PS256", "ES256", "EdDSA"}

// refusedMembers are members of a header that change how a token is to be verified, or where its key is.
var refusedMembers = []string{"crit", "b64", "zip", "enc", "jku", "jwk", "x5u", "x5c"}

// types are the accepted values of typ, in lower case (RFC 7519 and RFC 9068).
var types = []string{"jwt", "at+jwt", "application/jwt", "application/at+jwt"}

// parse parses a token. It verifies nothing.
func (t *token) parse(text []byte) error {
	if len(text) > maxToken {
		return errTooLong
	}
	parts := bytes.SplitN(text, []byte("."), 4)
	if len(parts) != 3 {
		return errEncoding
	}
	var decoded [3][]byte
	for i, part := range parts {
		d := make([]byte, base64.RawURLEncoding.DecodedLen(len(part)))
		n, err := base64.RawURLEncoding.Strict().Decode(d, part)
		if err != nil || bytes.ContainsAny(part, "\r\n") { // which the decoder ignores
			return errEncoding
		}
		decoded[i] = d[:n]
	}
	t.signed, t.signature = text[:len(parts[0])+1+len(parts[1])], decoded[2]
	if err := t.readHeader(decoded[0]); err != nil {
		return err
	}
	if t.claims.Parse(decoded[1], limits) != nil || t.claims.Root().Kind() != jsondoc.Object {
		return errClaims
	}
	iss := t.claims.Root().Get("iss")
	if iss.Kind() != jsondoc.String {
		return errNoIssuer
	}
	t.issuer = iss.Text()
	return nil
}

func (t *token) readHeader(text []byte) error {
	var doc jsondoc.Doc
	if doc.Parse(text, limits) != nil || doc.Root().Kind() != jsondoc.Object {
		return errHeader
	}
	root := doc.Root()
	for _, name := range refusedMembers {
		if root.Get(name).Exists() {
			return fmt.Errorf("the header has the member %s, which is not supported", name)
		}
	}
	alg := root.Get("alg")
	if alg.Kind() != jsondoc.String || !slices.Contains(methods, alg.Text()) {
		return errMethod
	}
	t.method = alg.Text()
	if kid := root.Get("kid"); kid.Exists() {
		if kid.Kind() != jsondoc.String || kid.Is("") || len(kid.Text()) > maxKeyID {
			return errKeyID
		}
		t.keyID = kid.Text()
	}
	if typ := root.Get("typ"); typ.Exists() && (typ.Kind() != jsondoc.String || !slices.Contains(types, strings.ToLower(typ.Text()))) {
		return errType
	}
	return nil
}

// checkAudience checks that the token is for one of the audiences.
func (t *token) checkAudience(audiences []string) error {
	aud := t.claims.Root().Get("aud")
	is := func(v jsondoc.Value) bool { return v.Kind() == jsondoc.String && slices.Contains(audiences, v.Text()) }
	switch aud.Kind() {
	case jsondoc.String:
		if is(aud) {
			return nil
		}
	case jsondoc.Array:
		for v := aud.First(); v.Exists(); v = v.Next() {
			if is(v) {
				return nil
			}
		}
	}
	return errAudience
}

// checkTime checks that the token is valid at a time, and sets when it expires.
func (t *token) checkTime(now time.Time) error {
	exp, ok := numericDate(t.claims.Root().Get("exp"))
	if !ok {
		return errExpiry
	}
	t.expires = exp
	if !now.Before(exp.Add(skew)) {
		return errExpired
	}
	if v := t.claims.Root().Get("nbf"); v.Exists() {
		nbf, ok := numericDate(v)
		if !ok {
			return errNotBefore
		}
		if now.Before(nbf.Add(-skew)) {
			return errEarly
		}
	}
	return nil
}

// lastDate is the end of the year 9999, in seconds since 1970.
const lastDate = 253402300799

// numericDate returns a time, given in seconds since 1970, which need not be whole.
func numericDate(v jsondoc.Value) (time.Time, bool) {
	seconds, ok := v.Float()
	if v.Kind() != jsondoc.Number || !ok || !(seconds >= 0 && seconds <= lastDate) {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// claim returns a claim: a member or, with a leading "/", the value at a JSON Pointer.
func (t *token) claim(name string) jsondoc.Value {
	if strings.HasPrefix(name, "/") {
		return t.claims.Pointer([]byte(name))
	}
	return t.claims.Root().Get(name)
}

// claimTexts returns the text of a scalar claim, or those of an array's elements.
func (t *token) claimTexts(name string) (all []string) {
	v := t.claim(name)
	if v.Kind() != jsondoc.Array {
		if text, ok := claimText(v); ok {
			all = append(all, text)
		}
		return all
	}
	for e := v.First(); e.Exists(); e = e.Next() {
		if text, ok := claimText(e); ok {
			all = append(all, text)
		}
	}
	return all
}

// claimOne returns the text of a scalar claim.
func (t *token) claimOne(name string) (string, bool) { return claimText(t.claim(name)) }

// claimText returns the text of a scalar claim. ok is false for any other value.
func claimText(v jsondoc.Value) (text string, ok bool) {
	switch v.Kind() {
	case jsondoc.String:
		return v.Text(), true
	case jsondoc.Number, jsondoc.True, jsondoc.False:
		return string(v.Raw()), true
	}
	return "", false
}
