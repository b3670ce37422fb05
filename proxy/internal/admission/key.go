package admission

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// authenticate checks the client's key.
func (c *Controller) authenticate(r *Arrival) (*access.Key, *apierror.Error) {
	if r.Keys == nil {
		return access.Anonymous(), nil
	}
	key, e := findKey(r)
	switch {
	case e != nil && r.Ctx != nil:
		return nil, c.recordWrongKey(r, e)
	case e != nil:
		return nil, e
	case r.Record != nil:
		r.Record.Key, r.Record.Team = key.Name(), key.Team()
	}
	return key, nil
}

// findKey finds the client's key in the headers that may have it.
func findKey(r *Arrival) (*access.Key, *apierror.Error) {
	authorization, names := r.Head.PeekAll(fasthttp.HeaderAuthorization), r.KeyHeaders
	own := ownHeaders[r.API]
	if len(names) == 0 && own == "" {
		return r.Keys.Authenticate(authorization, r.Now)
	}
	authorization = slices.Clone(authorization) // PeekAll returns the same slice each time
	var others [][]byte
	for _, name := range names {
		others = append(others, r.Head.PeekAll(name)...)
	}
	if own != "" && !slices.Contains(names, own) {
		others = append(others, r.Head.PeekAll(own)...)
	}
	key, e := r.Keys.AuthenticateWith(authorization, others, r.Now)
	switch {
	case own == "" || e == nil:
	case e.Code == "missing_api_key":
		e.Message = "No API key was given. Send it in the header " + own + ", or as Authorization: Bearer YOUR_KEY."
	case e.Code == "duplicate_authorization":
		e.Status = fasthttp.StatusUnauthorized // clients of Messages take a 400 for a defect of the body, and try another one
	}
	return key, e
}

// ownHeaders are the headers in which clients of some APIs send their key, unless they send it in Authorization.
var ownHeaders = [clientapi.NumAPIs]string{clientapi.Messages: "x-api-key", clientapi.Gemini: "x-goog-api-key"}

// recordWrongKey counts a refused key, and returns the error for its client: another one where too many wrong keys have
// come from its address.
func (c *Controller) recordWrongKey(r *Arrival, e *apierror.Error) *apierror.Error {
	reason := refusalReason(e)
	c.metrics.Refuse(reason)
	if known, ok := errors.AsType[*access.KeyError](e.Cause); ok {
		c.metrics.RejectKey(known.Name, keyRejections[reason])
	}
	perMinute := c.Limits().MaxWrongKeys
	switch {
	case e.Code == "missing_api_key":
		if where := misplacedKey(r.Ctx, r.API); where != nil {
			e.Cause = where
			e.Message = "The API key must be sent in the header Authorization: Bearer YOUR_KEY. Other headers and the address are not searched for one."
			if own := ownHeaders[r.API]; own != "" {
				e.Message = "The API key must be sent in the header " + own + ", or as Authorization: Bearer YOUR_KEY. Other headers and the address, which others log, are not searched for one."
			}
		}
	case e.Code == "invalid_api_key" && perMinute > 0:
		refused, tooMany := c.authLimiter.RecordInvalidKey(peerAddress(r.Ctx), perMinute, r.Now)
		if tooMany == nil {
			break
		}
		// A line for each would be a way to fill the log.
		r.Record.Unlogged = true
		if isPowerOfTen(refused) {
			c.log.Warn("invalid API keys rejected", "remote", r.Record.Remote, "refused", refused, "max_wrong_keys", perMinute)
		}
		return tooMany
	}
	return e
}

// keyRejections are the refusals of a key whose name is known, as they are counted for that key.
var keyRejections = map[telemetry.Refusal]telemetry.Rejection{
	telemetry.RefusedDisabled: telemetry.RejectedDisabled, telemetry.RefusedExpired: telemetry.RejectedExpired, telemetry.RefusedNotYetValid: telemetry.RejectedNotYetValid,
}

// refusalReason is why a key was refused, as metrics have it.
func refusalReason(e *apierror.Error) telemetry.Refusal {
	switch {
	case e.Code == "missing_api_key":
		return telemetry.RefusedMissing
	case e.Code == "duplicate_authorization":
		return telemetry.RefusedTwice
	case errors.Is(e.Cause, access.ErrMalformed):
		return telemetry.RefusedMalformed
	case errors.Is(e.Cause, access.ErrDisabled):
		return telemetry.RefusedDisabled
	case errors.Is(e.Cause, access.ErrExpired):
		return telemetry.RefusedExpired
	case errors.Is(e.Cause, access.ErrNotYetValid):
		return telemetry.RefusedNotYetValid
	}
	return telemetry.RefusedUnknown
}

// misplacedKey says, for the log, where a request without a key has one that is not looked for, and what would change that; nil if it
// has none.
func misplacedKey(ctx *fasthttp.RequestCtx, api clientapi.ID) error {
	for _, name := range credentialHeaders[1:] {
		if len(ctx.Request.Header.Peek(name)) > 0 && name != ownHeaders[api] {
			return fmt.Errorf("key in the header %s, which server.key_headers does not name", name)
		}
	}
	if query := ctx.QueryArgs(); query.Has("api_key") || query.Has("api-key") || query.Has("key") {
		return errors.New("key in the query, where no key is accepted")
	}
	return nil
}

// isPowerOfTen reports whether n is 1, 10, 100, ….
func isPowerOfTen(n int64) bool {
	for ; n >= 10 && n%10 == 0; n /= 10 {
	}
	return n == 1
}

// peerAddress is the address at the other end of the connection. It may be that of a proxy: the gateway trusts no header
// about it.
func peerAddress(ctx *fasthttp.RequestCtx) netip.Addr {
	at, _ := netip.ParseAddrPort(ctx.RemoteAddr().String())
	return at.Addr()
}
