package proxy

import "github.com/valyala/fasthttp"

// Headers that every completion's answer has, written as they are sent: fasthttp would bring any other way of writing
// them into this one, for each answer anew.
var (
	headerRequestID  = []byte("X-Request-Id")
	headerModel      = []byte("X-Gateway-Model")
	headerProvider   = []byte("X-Gateway-Provider")
	headerAttempts   = []byte("X-Gateway-Attempts")
	headerUpstreamID = []byte("X-Upstream-Request-Id")
	headerWarning    = []byte("X-Gateway-Warning")
)

// setHeader sets one of them. A value that cannot stand in a header is left out.
func setHeader(h *fasthttp.ResponseHeader, name []byte, value string) {
	if value == "" {
		return
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' {
			return
		}
	}
	var b [64]byte // most fit, and need no memory
	h.SetCanonical(name, append(b[:0], value...))
}
