package admission

import (
	"crypto/sha256"
	"crypto/x509"
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
	if e != nil && e.Code == "missing_api_key" && r.Keys.AcceptsCertificates() {
		if r.Ctx == nil {
			return access.Anonymous(), nil // before the request is handled, its connection is unknown
		}
		if conn, ok := r.Ctx.Conn().(certified); ok {
			chain, digest := conn.ClientCertificates()
			if by, refused := r.Keys.AuthenticateCertificate(chain, digest, r.Now); by != nil || refused != nil {
				key, e = by, refused
			}
		}
	}
	switch {
	case e != nil && r.Ctx != nil:
		return nil, c.recordWrongKey(r, e)
	case e != nil:
		return nil, e
	case r.Record != nil:
		r.Record.Key, r.Record.Team, r.Record.Series = key.Name(), key.Team(), key.Series()
	}
	return key, nil
}

// certified is a connection whose client may have presented a certificate.
type certified interface {
	ClientCertificates() ([]*x509.Certificate, [sha256.Size]byte)
}

// findKey finds the client's key in the headers that may contain it.
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
		e.Message = "No API key was given. Send it as " + own + ": YOUR_KEY, or as Authorization: Bearer YOUR_KEY."
	case e.Code == "duplicate_authorization":
		e.Status = fasthttp.StatusUnauthorized // Messages clients treat a 400 as a defect of the body, and retry with another body
	}
	return key, e
}

// ownHeaders are the headers in which clients of some APIs send their key instead of in Authorization.
var ownHeaders = [clientapi.NumAPIs]string{clientapi.Messages: "x-api-key", clientapi.Gemini: googleKey, clientapi.GeminiEmbed: googleKey, clientapi.GeminiEmbedBatch: googleKey}

const googleKey = "x-goog-api-key"

// recordWrongKey counts a rejected key and returns the error for the client: e, or a rate limit error after too many
// invalid keys from the same address.
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
			e.Message = "Send the API key as Authorization: Bearer YOUR_KEY. A key in another header or in the URL is ignored."
			if own := ownHeaders[r.API]; own != "" {
				e.Message = "Send the API key as " + own + ": YOUR_KEY, or as Authorization: Bearer YOUR_KEY. A key in another header or in the URL, which may be logged, is ignored."
			}
		}
	case (e.Code == "invalid_api_key" || e.Code == "invalid_token") && perMinute > 0:
		limited, tooMany := c.authLimiter.RecordInvalidKey(peerAddress(r.Ctx), perMinute, r.Now)
		if tooMany == nil {
			break
		}
		// Do not log each one, because that could be used to flood the log.
		r.Record.Unlogged = true
		if isPowerOfTen(limited) {
			c.log.Warn("invalid API keys rejected", "remote", r.Record.Remote, "rejected", limited, "max_wrong_keys", perMinute)
		}
		return tooMany
	}
	return e
}

// keyRejections maps reasons for rejecting a known key to the labels under which rejections are counted for that key.
var keyRejections = map[telemetry.Refusal]telemetry.Rejection{
	telemetry.RefusedDisabled: telemetry.RejectedDisabled, telemetry.RefusedExpired: telemetry.RejectedExpired, telemetry.RefusedNotYetValid: telemetry.RejectedNotYetValid,
}

// refusalReason returns the metrics label for the reason why a key was rejected.
func refusalReason(e *apierror.Error) telemetry.Refusal {
	switch {
	case e.Code == "missing_api_key":
		return telemetry.RefusedMissing
	case e.Code == "duplicate_authorization":
		return telemetry.RefusedTwice
	case e.Code == "invalid_token", e.Code == "invalid_certificate":
		return telemetry.RefusedToken
	case e.Code == "token_expired":
		return telemetry.RefusedExpired
	case e.Code == "identity_not_allowed":
		return telemetry.RefusedIdentity
	case e.Code == "identity_unavailable":
		return telemetry.RefusedUnavailable
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

// misplacedKey returns, for the log, where a request without a key contains one that is ignored, and which setting
// would change that; nil if it contains none.
func misplacedKey(ctx *fasthttp.RequestCtx, api clientapi.ID) error {
	for _, name := range credentialHeaders[1:] {
		if len(ctx.Request.Header.Peek(name)) > 0 && name != ownHeaders[api] {
			return fmt.Errorf("key in the header %s, which is not in server.key_headers", name)
		}
	}
	if query := ctx.QueryArgs(); query.Has("api_key") || query.Has("api-key") || query.Has("key") {
		return errors.New("key in the query string, where none is accepted")
	}
	return nil
}

// isPowerOfTen reports whether n is 1, 10, 100, ….
func isPowerOfTen(n int64) bool {
	for ; n >= 10 && n%10 == 0; n /= 10 {
	}
	return n == 1
}

// peerAddress returns the address of the connection's peer. That may be a proxy, because the gateway trusts no header
// about the client's address.
func peerAddress(ctx *fasthttp.RequestCtx) netip.Addr {
	at, _ := netip.ParseAddrPort(ctx.RemoteAddr().String())
	return at.Addr()
}
