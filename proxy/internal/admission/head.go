package admission

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// checkContent refuses what is not a JSON document as it stands. A missing content type is taken for JSON: the body
// shows whether it is.
func checkContent(h *fasthttp.RequestHeader) *apierror.Error {
	refuse := func(message string) *apierror.Error {
		e := apierror.Invalid("unsupported_media_type", "", "%s", message)
		e.Status = fasthttp.StatusUnsupportedMediaType
		return e
	}
	for _, e := range h.PeekAll(fasthttp.HeaderContentEncoding) {
		if len(e) > 0 && !httpfield.EqualFold(e, "identity") {
			return refuse("The request's body must not be compressed.")
		}
	}
	if hasSeveralTypes(h) {
		return refuse("The request has more than one Content-Type.")
	}
	declared := h.ContentType()
	if len(declared) == 0 {
		return nil
	}
	if !framing.IsJSON(declared) {
		return refuse("The request's Content-Type must be application/json.")
	}
	_, parameters, _ := bytes.Cut(declared, []byte(";"))
	for p := range bytes.SplitSeq(bytes.ToLower(parameters), []byte(";")) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(p), []byte("="))
		if string(name) == "charset" && !bytes.Equal(bytes.Trim(value, `"`), []byte("utf-8")) {
			return refuse("The request's body must be UTF-8.")
		}
	}
	return nil
}

// hasSeveralTypes reports whether a request has more than one Content-Type, of which fasthttp keeps the last.
func hasSeveralTypes(h *fasthttp.RequestHeader) bool {
	n := 0
	for line := range bytes.Lines(h.RawHeaders()) {
		if name, _, _ := bytes.Cut(line, []byte{':'}); httpfield.EqualFold(name, "content-type") {
			n++
		}
	}
	return n > 1
}

// HopsHeader is where each gateway counts how many gateways a request has passed. One may by mistake be configured as its own
// provider, and each request would make another one without end.
const HopsHeader = "x-sluice-hops"

// maxHops is how many gateways a request may pass.
const maxHops = 5

var hopTexts = [maxHops + 1]string{"0", "1", "2", "3", "4", "5"}

// Hops returns how many gateways a request says it has passed. A client that invents a number can only be refused
// sooner.
func Hops(h *fasthttp.RequestHeader) int {
	hops := 0
	for _, v := range h.PeekAll(HopsHeader) {
		if n, err := strconv.ParseUint(string(v), 10, 16); err == nil {
			hops = max(hops, int(n))
		}
	}
	return hops
}

// NextHops is the value of HopsHeader in the request to a provider, for a client's request that was admitted with n hops.
func NextHops(n int) string { return hopTexts[n+1] }

// loopDetected is for a request that has passed too many gateways. None of them should retry it.
func loopDetected(hops int) *apierror.Error {
	e := apierror.Invalid("loop_detected", "", "The request has passed %d gateways: one of them is its own provider.", hops)
	e.NoRetry = true
	return e
}
