package admission

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
)

// MinKey is how long the shortest text is that may be a key: a shorter one is a word like any other.
const MinKey = 6

// Redacted stands in the place of a key in what is shown or kept.
const Redacted = "[redacted]"

// credentialHeaders are where clients send keys: the first is the one for it, the others are those of other APIs.
var credentialHeaders = [...]string{fasthttp.HeaderAuthorization, "x-api-key", "api-key", "x-goog-api-key"}

// PresentedKeys are the last words of a request's Authorization and of the other headers in which clients send keys, whether they
// are looked for there or not, but for those that are too short to be a key.
func PresentedKeys(h *fasthttp.RequestHeader) (keys []string) {
	for _, name := range credentialHeaders {
		words := bytes.Fields(h.Peek(name))
		if len(words) > 0 && len(words[len(words)-1]) >= MinKey {
			keys = append(keys, string(words[len(words)-1]))
		}
	}
	return keys
}

// PresentsKey reports whether a text of a request is or holds a key that the request presents.
func PresentsKey(h *fasthttp.RequestHeader, text string) bool { return withoutKey(h, text) != text }

// RedactKey returns the error without the request's key, wherever in the request it stood: programs log the errors that
// they get.
func RedactKey(h *fasthttp.RequestHeader, e *apierror.Error) *apierror.Error {
	message, param := withoutKey(h, e.Message), withoutKey(h, e.Param)
	if message == e.Message && param == e.Param {
		return e
	}
	hidden := *e
	hidden.Message, hidden.Param = message, param
	return &hidden
}

// withoutKey returns a text without the request's key.
func withoutKey(h *fasthttp.RequestHeader, text string) string {
	for _, key := range PresentedKeys(h) {
		text = strings.ReplaceAll(text, key, Redacted)
	}
	return text
}
