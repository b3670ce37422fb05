package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"strconv"

	"github.com/valyala/fasthttp"
)

// A gateway whose provider is a gateway may be its own provider, by a mistake in a configuration, and each request would
// make another one without end. So each gateway says how many gateways a request has passed.
const (
	hopsHeader = "x-sluice-hops"
	maxHops    = 5
)

// hopsOf is how many gateways a request has passed before this one, as far as it says so. A client that invents a number
// can only be refused sooner.
func hopsOf(h *fasthttp.RequestHeader) int {
	hops := 0
	for _, v := range h.PeekAll(hopsHeader) {
		if n, err := strconv.ParseUint(string(v), 10, 16); err == nil {
			hops = max(hops, int(n))
		}
	}
	return hops
}

// looped refuses a request that has passed too many gateways. Nobody on its way should try it again.
func looped(hops int) *apierror.Error {
	e := apierror.Invalid("loop_detected", "", "The request has passed %d gateways: one of them is its own provider.", hops)
	e.NoRetry = true
	return e
}

var hopTexts = [maxHops + 1]string{"0", "1", "2", "3", "4", "5"}
