package admission

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// MinKey is the minimum length of a text that is treated as a key. Anything shorter is an ordinary word.
const MinKey = 6

// Redacted replaces a key in text that is shown or stored.
const Redacted = "[redacted]"

// credentialHeaders are the headers in which clients send keys: the standard one first, then those of particular APIs.
var credentialHeaders = [...]string{fasthttp.HeaderAuthorization, "x-api-key", "api-key", "x-goog-api-key"}

// PresentedKeys returns the last words of Authorization and of other headers in which clients send keys, even those
// that are ignored for authentication, except words too short to be a key.
func PresentedKeys(h *fasthttp.RequestHeader) (keys []string) {
	for _, name := range credentialHeaders {
		words := bytes.Fields(h.Peek(name))
		if len(words) > 0 && len(words[len(words)-1]) >= MinKey {
			keys = append(keys, string(words[len(words)-1]))
		}
	}
	return keys
}

// PresentsKey reports whether a text from a request contains a key that the request presents.
func PresentsKey(h *fasthttp.RequestHeader, text string) bool { return withoutKey(h, text) != text }

// RedactKey returns the error without any key that the request presents, because clients log the errors they receive.
func RedactKey(h *fasthttp.RequestHeader, e *apierror.Error) *apierror.Error {
	message, param := withoutKey(h, e.Message), withoutKey(h, e.Param)
	if message == e.Message && param == e.Param {
		return e
	}
	hidden := *e
	hidden.Message, hidden.Param = message, param
	return &hidden
}

// withoutKey returns a text without the keys that the request presents.
func withoutKey(h *fasthttp.RequestHeader, text string) string {
	for _, key := range PresentedKeys(h) {
		text = strings.ReplaceAll(text, key, Redacted)
	}
	return text
}
