package thinking

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// extraContent is the member of a tool call that contains the token.
const extraContent = "extra_content"

// tokenPrefix starts every token. Signatures of providers cannot start with it: they are base64, which has no dot.
var tokenPrefix = []byte("sluice.thinking.1.")

// appendToken appends a token with details, a JSON array of entries of reasoning_details. The token consists of
// printable ASCII that needs no escaping in JSON. It is neither encrypted nor authenticated: a client could return the
// entries themselves, and the provider checks them.
func appendToken(dst, details []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, tokenPrefix...), details)
}

// isToken reports whether the contents of a JSON string are a token, valid or not.
func isToken(s []byte) bool { return bytes.HasPrefix(s, tokenPrefix) }

// decodeToken returns the entries in a token without the surrounding brackets, or nil if the token is invalid.
func decodeToken(token []byte, doc *jsondoc.Doc) []byte {
	json, err := base64.RawURLEncoding.AppendDecode(nil, token[len(tokenPrefix):])
	if err != nil || doc.Parse(json, jsondoc.Limits{}) != nil || doc.Root().Kind() != jsondoc.Array {
		return nil
	}
	for e := doc.Root().First(); e.Exists(); e = e.Next() {
		if e.Kind() != jsondoc.Object {
			return nil
		}
	}
	raw := doc.Root().Raw()
	return bytes.TrimSpace(raw[1 : len(raw)-1])
}
