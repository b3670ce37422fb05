package endpoint

import (
	"bytes"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// maxRequestID is how long a client's own x-request-id may be.
const maxRequestID = 128

// RequestID is the client's own ID where it is usable, else a new one. It is logged and sent back, so it must not be or hold a
// credential: holdsSecret reports whether a text is or does.
func RequestID(h *fasthttp.RequestHeader, holdsSecret func(text []byte) bool) string {
	ids := h.PeekAll("x-request-id")
	if len(ids) != 1 || len(ids[0]) == 0 || len(ids[0]) > maxRequestID || !httpfield.VisibleASCII(ids[0]) || holdsSecret(ids[0]) {
		return NewRequestID()
	}
	return string(ids[0])
}

// NewRequestID is the ID of a request whose client has given it none.
func NewRequestID() string { return clientapi.RandomID("req_") }

// TraceHeader ties a request to the trace of its client (W3C Trace Context). It is logged, and sent to the provider as it came:
// the gateway makes no spans of its own.
const TraceHeader = "traceparent"

// Traceparent returns the client's trace context, "" for none or one that is not valid.
func Traceparent(h *fasthttp.RequestHeader) string {
	values := h.PeekAll(TraceHeader)
	if len(values) != 1 || !validTraceparent(values[0]) {
		return ""
	}
	return string(values[0])
}

// validTraceparent reports whether v has the form version-trace-parent-flags: 00-32 digits-16 digits-01, in lower-case hexadecimal,
// without the values that stand for none.
func validTraceparent(v []byte) bool {
	const none = "00000000000000000000000000000000"
	if len(v) != len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") {
		return false
	}
	for i, c := range v {
		dash := i == 2 || i == 35 || i == 52
		if dash != (c == '-') || !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return string(v[:2]) != "ff" && string(v[3:35]) != none && string(v[36:52]) != none[:16]
}

// Betas returns the words of a request's anthropic-beta headers, each once: features that the client wants of a provider of
// Messages. Plugins see them and may send them on, so none may be or hold a credential: holdsSecret reports whether a text is
// or does.
func Betas(h *fasthttp.RequestHeader, holdsSecret func(text []byte) bool) (betas []string) {
	const maxBetas, maxBeta = 64, 128
	for _, header := range h.PeekAll("anthropic-beta") {
		for word := range bytes.SplitSeq(header, []byte{','}) {
			word = bytes.Trim(word, " \t")
			if len(word) == 0 || len(word) > maxBeta || !httpfield.ValidName(word) || len(betas) == maxBetas {
				continue
			}
			beta := string(word)
			if !slices.Contains(betas, beta) && !holdsSecret(word) {
				betas = append(betas, beta)
			}
		}
	}
	return betas
}
