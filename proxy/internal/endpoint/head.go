package endpoint

import (
	"bytes"
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/websocket"
)

const (
	// SmallBody is the size up to which a body is read even if its request is rejected, so that the connection can be
	// reused. The head of a request with a larger body is checked before the body is read.
	SmallBody = 64 << 10
	// Chunked is the Content-Length that fasthttp returns for a chunked body.
	Chunked = -1

	// maxHeaders is the maximum number of header lines of a request. Clients and proxies together send about twenty.
	maxHeaders = 100
	// maxURI is the maximum length of a request target.
	maxURI = 8 << 10
)

// check rejects heads that fasthttp accepts: those that an intermediary may parse differently, other versions of HTTP,
// unknown expectations, and oversized heads.
func check(h *fasthttp.RequestHeader) *apierror.Error {
	if !h.IsHTTP11() && string(h.Protocol()) != "HTTP/1.0" {
		e := apierror.Invalid("http_version_not_supported", "", "The gateway speaks HTTP/1.1 and HTTP/1.0.")
		return rejectHead(e, fasthttp.StatusHTTPVersionNotSupported)
	}
	if len(h.RequestURI()) > maxURI {
		e := apierror.Invalid("uri_too_long", "", "The request target is longer than %d KiB.", maxURI>>10)
		return rejectHead(e, fasthttp.StatusRequestURITooLong)
	}
	lines, hasEncoding, hasLength := 0, false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		text, terminated := bytes.CutSuffix(line, []byte("\r\n"))
		if terminated && len(text) == 0 {
			break
		}
		name, value, colon := bytes.Cut(text, []byte{':'})
		if lines++; !terminated || !colon || !httpfield.ValidName(name) {
			return ambiguous()
		}
		switch len(name) {
		case len("transfer-encoding"):
			if httpfield.EqualFold(name, "transfer-encoding") {
				hasEncoding = true
				if !httpfield.EqualFold(bytes.Trim(value, " \t"), "chunked") {
					return ambiguous()
				}
			}
		case len("content-length"):
			hasLength = hasLength || httpfield.EqualFold(name, "content-length")
		case len("expect"):
			value = bytes.Trim(value, " \t")
			if httpfield.EqualFold(name, "expect") && len(value) > 0 && !httpfield.EqualFold(value, "100-continue") {
				e := apierror.Invalid("expectation_failed", "", "The Expect header must be 100-continue.")
				return rejectHead(e, fasthttp.StatusExpectationFailed)
			}
		}
	}
	switch {
	case lines > maxHeaders:
		e := apierror.Invalid("request_header_too_large", "", "The request has more than %d header lines.", maxHeaders)
		return rejectHead(e, fasthttp.StatusRequestHeaderFieldsTooLarge)
	case hasEncoding && hasLength, !isHost(h.Host()):
		return ambiguous()
	}
	if authority, _, absolute := splitURL(h.RequestURI()); absolute && (len(authority) == 0 || !bytes.EqualFold(authority, h.Host())) {
		return ambiguous()
	}
	return nil
}

// rejectHead completes the error of a rejected head. The connection is closed, because the rest of the request is not
// read.
func rejectHead(e *apierror.Error, status int) *apierror.Error {
	e.Status, e.CloseClient = status, true
	return e
}

// ambiguous returns the error of a head that HTTP does not allow or that can be parsed in more than one way: a folded
// line or one without CR LF, both Content-Length and Transfer-Encoding, an encoding other than chunked, an invalid
// Host, or a Host that differs from the request target.
func ambiguous() *apierror.Error {
	return rejectHead(apierror.Invalid("bad_request", "", "The request header is malformed or ambiguous."), fasthttp.StatusBadRequest)
}

// isHost reports whether a Host header is a name or an address, with or without a port, and contains no other part of a
// URL. It may be empty, because HTTP/1.0 allows leaving it out.
func isHost(host []byte) bool {
	for _, c := range host {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(".-_:[]", c) >= 0) {
			return false
		}
	}
	colon := bytes.LastIndexByte(host, ':')
	if colon < 0 || bytes.LastIndexByte(host, ']') > colon {
		return true
	}
	port := 0
	for _, c := range host[colon+1:] {
		if c < '0' || c > '9' {
			return false
		}
		port = min(10*port+int(c-'0'), 1<<16)
	}
	return port < 1<<16
}

var methods = [...]string{"POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

// Method returns a request's method, or "other" for an unknown one, so that a client cannot write arbitrary text to the
// log.
func Method(h *fasthttp.RequestHeader) string {
	for _, known := range methods {
		if string(h.Method()) == known {
			return known
		}
	}
	return "other"
}

// CheckHandshake rejects a request to upgrade to a WebSocket that is not one of the protocol.
func CheckHandshake(h *fasthttp.RequestHeader) *apierror.Error {
	err := websocket.CheckHandshake(h.Peek)
	if err == nil && (!h.IsHTTP11() || h.ContentLength() > 0 || h.ContentLength() == Chunked) {
		err = errHandshake
	}
	if err == nil {
		return nil
	}
	e := apierror.Invalid("bad_request", "", "The request is not a WebSocket handshake: %s.", err)
	e.CloseClient = true
	return e
}

var errHandshake = errors.New("it is not an HTTP/1.1 request without a body")
