package admission

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// checkContent rejects a body that is not plain JSON. A missing content type is assumed to be JSON, because the body
// shows whether it is.
func checkContent(h *fasthttp.RequestHeader) *apierror.Error {
	reject := func(message string) *apierror.Error {
		e := apierror.Invalid("unsupported_media_type", "", "%s", message)
		e.Status = fasthttp.StatusUnsupportedMediaType
		return e
	}
	for _, e := range h.PeekAll(fasthttp.HeaderContentEncoding) {
		if len(e) > 0 && !httpfield.EqualFold(e, "identity") {
			return reject("The request body must not be compressed.")
		}
	}
	if hasSeveralTypes(h) {
		return reject("The request has more than one Content-Type header.")
	}
	declared := h.ContentType()
	if len(declared) == 0 {
		return nil
	}
	if !framing.IsJSON(declared) {
		return reject("The Content-Type header must be application/json.")
	}
	_, parameters, _ := bytes.Cut(declared, []byte(";"))
	for p := range bytes.SplitSeq(bytes.ToLower(parameters), []byte(";")) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(p), []byte("="))
		if string(name) == "charset" && !bytes.Equal(bytes.Trim(value, `"`), []byte("utf-8")) {
			return reject("The request body must be UTF-8.")
		}
	}
	return nil
}

// hasSeveralTypes reports whether a request has more than one Content-Type header. fasthttp keeps only the last.
func hasSeveralTypes(h *fasthttp.RequestHeader) bool {
	n := 0
	for line := range bytes.Lines(h.RawHeaders()) {
		if name, _, _ := bytes.Cut(line, []byte{':'}); httpfield.EqualFold(name, "content-type") {
			n++
		}
	}
	return n > 1
}

// HopsHeader is the header in which gateways count how many gateways a request has passed through. It breaks the loop
// of a gateway that is configured by mistake as its own provider.
const HopsHeader = "x-sluice-hops"

// maxHops is how many gateways a request may pass through.
const maxHops = 5

var hopTexts = [maxHops + 1]string{"0", "1", "2", "3", "4", "5"}

// Hops returns how many gateways a request has passed through, according to its head. A client that makes up a number
// can only get its request rejected earlier.
func Hops(h *fasthttp.RequestHeader) int {
	hops := 0
	for _, v := range h.PeekAll(HopsHeader) {
		if n, err := strconv.ParseUint(string(v), 10, 16); err == nil {
			hops = max(hops, int(n))
		}
	}
	return hops
}

// NextHops returns the value of HopsHeader in the request to a provider, for a client's request with n hops.
func NextHops(n int) string { return hopTexts[n+1] }

// loopDetected returns the error of a request that has passed through too many gateways, none of which should retry it.
func loopDetected(hops int) *apierror.Error {
	return apierror.Invalid("loop_detected", "", "The request has passed through %d gateways: one of them is its own provider.", hops)
}
