package endpoint

import (
	"bytes"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// maxRequestID is the maximum length of a client's own x-request-id.
const maxRequestID = 128

// RequestID returns the client's own ID if it is usable, else a new one. The ID is logged and sent back, so it must not
// contain a credential: holdsSecret reports whether a text does.
func RequestID(h *fasthttp.RequestHeader, holdsSecret func(text []byte) bool) string {
	ids := h.PeekAll("x-request-id")
	if len(ids) != 1 || len(ids[0]) == 0 || len(ids[0]) > maxRequestID || !httpfield.VisibleASCII(ids[0]) || holdsSecret(ids[0]) {
		return NewRequestID()
	}
	return string(ids[0])
}

// NewRequestID returns a random ID, for a request without a usable one of its own.
func NewRequestID() string { return clientapi.RandomID("req_") }

// The headers that link a request to its client's trace (W3C Trace Context).
const (
	TraceHeader = "traceparent"
	TraceState  = "tracestate"
)

// Traceparent returns the client's trace context, or "" if it is missing or invalid.
func Traceparent(h *fasthttp.RequestHeader) string {
	values := h.PeekAll(TraceHeader)
	if len(values) != 1 || !validTraceparent(values[0]) {
		return ""
	}
	return string(values[0])
}

// maxTracestate is the maximum length of a trace state that is passed on, the least that the standard asks for.
const maxTracestate = 512

// Tracestate returns what vendors have added to the client's trace context, or "" if it is missing, too long, or not in
// the form of a header.
func Tracestate(h *fasthttp.RequestHeader) string {
	all := bytes.Join(h.PeekAll(TraceState), []byte{','})
	if len(all) > maxTracestate || !httpfield.VisibleASCII(bytes.ReplaceAll(all, []byte{' '}, nil)) {
		return ""
	}
	return string(bytes.Trim(all, " "))
}

// validTraceparent reports whether v has the form version-trace-parent-flags, as in 00-(32 digits)-(16 digits)-01, in
// lower-case hexadecimal, and no part has a value that means invalid.
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

// Betas returns the words of a request's anthropic-beta headers, without duplicates: beta features that a Messages
// client requests. Plugins receive them and may send them on, so none may contain a credential: holdsSecret reports
// whether a text does.
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
