package thinking

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// extraContent is the member of a tool call that has the token.
const extraContent = "extra_content"

// tokenPrefix begins a token, and no provider's signature: those are base64.
var tokenPrefix = []byte("sluice.thinking.1.")

// appendToken appends entries of reasoning_details, a JSON array, as a token: printable ASCII that no JSON string has to escape.
// It is not secret and not signed: a client could as well return the entries themselves, and the provider checks them.
func appendToken(dst, details []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, tokenPrefix...), details)
}

// isToken reports whether the inside of a JSON string is a token, valid or not.
func isToken(s []byte) bool { return bytes.HasPrefix(s, tokenPrefix) }

// decodeToken returns the entries in a token without the brackets around them, nil for a token that is not valid.
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
