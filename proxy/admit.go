package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// admission decides which requests may come in, and counts what those take that are in.
type admission struct {
	limits      atomic.Pointer[config.Server] // replaced by Reload; counts from the next request on
	requests    atomic.Int64                  // completions in flight
	bodies      atomic.Int64                  // bytes of bodies, beyond uncountedBody for each request
	authLimiter access.AuthLimiter
	metrics     *telemetry.Metrics
	log         *slog.Logger
}

// arrival is a request whose head has been read, and that matches an endpoint.
type arrival struct {
	generation *generation
	endpoint   endpoint.ID
	head       *fasthttp.RequestHeader
	now        time.Time

	// Of a request that gets a response about its key. nil: it is only judged.
	ctx    *fasthttp.RequestCtx
	record *telemetry.Record

	// Takes the room for a completion. nil: admit only checks whether there is any.
	room *reservation
}

// admit decides by a request's head whether it may come in: the client's key, then the body's type and size, then whether
// there is room. The last step, the key's rate limits, counts tokens, and so needs the body: admitTokens.
//
// It is called three times, as fasthttp asks: about large bodies once the head has been read (headReceived), before the
// client is told to send its body (expectContinue), and by the handler. So a request that is refused for its head is
// refused before its body is read. The key is nil where it is what is wrong.
func (a *admission) admit(r *arrival) (*access.Key, *apierror.Error) {
	key, e := a.authenticate(r)
	if e != nil {
		return nil, e
	}
	size := r.head.ContentLength()
	if int64(size) > a.limits.Load().MaxBody {
		return key, a.tooLarge()
	}
	if !r.endpoint.HasBody() {
		return key, nil
	}
	if e := checkContent(r.head); e != nil {
		return key, e
	}
	if hops := parseHops(r.head); hops >= maxHops {
		return key, loopDetected(hops)
	}
	if r.room != nil {
		return key, a.reserve(r.room)
	}
	return key, a.checkRoom(size)
}

// authenticate checks the client's key.
func (a *admission) authenticate(r *arrival) (*access.Key, *apierror.Error) {
	if r.generation.keys == nil {
		return access.Anonymous(), nil
	}
	key, e := findKey(r)
	switch {
	case e != nil && r.ctx != nil:
		return nil, a.recordWrongKey(r, e)
	case e != nil:
		return nil, e
	case r.record != nil:
		r.record.Key, r.record.Team = key.Name(), key.Team()
	}
	return key, nil
}

// findKey finds the client's key in the headers that may have it.
func findKey(r *arrival) (*access.Key, *apierror.Error) {
	authorization, names := r.head.PeekAll(fasthttp.HeaderAuthorization), r.generation.config.Server.KeyHeaders
	own := keyHeaders[endpoint.GuessAPI(r.head)]
	if len(names) == 0 && own == "" {
		return r.generation.keys.Authenticate(authorization, r.now)
	}
	authorization = slices.Clone(authorization) // PeekAll returns the same slice each time
	var others [][]byte
	for _, name := range names {
		others = append(others, r.head.PeekAll(name)...)
	}
	if own != "" && !slices.Contains(names, own) {
		others = append(others, r.head.PeekAll(own)...)
	}
	key, e := r.generation.keys.AuthenticateWith(authorization, others, r.now)
	switch {
	case own == "" || e == nil:
	case e.Code == "missing_api_key":
		e.Message = "No API key was given. Send it in the header " + own + ", or as Authorization: Bearer YOUR_KEY."
	case e.Code == "duplicate_authorization":
		e.Status = fasthttp.StatusUnauthorized // clients of Messages take a 400 for a defect of the body, and try another one
	}
	return key, e
}

// keyHeaders are the headers in which clients of some APIs send their key, unless they send it in Authorization.
var keyHeaders = [clientapi.NumAPIs]string{clientapi.Messages: "x-api-key", clientapi.Gemini: "x-goog-api-key"}

// recordWrongKey counts a refused key, and returns the error for its client: another one where too many wrong keys have
// come from its address.
func (a *admission) recordWrongKey(r *arrival, e *apierror.Error) *apierror.Error {
	reason := refusalReason(e)
	a.metrics.Refuse(reason)
	if known, ok := errors.AsType[*access.KeyError](e.Cause); ok {
		a.metrics.RejectKey(known.Name, keyRejections[reason])
	}
	perMinute := a.limits.Load().MaxWrongKeys
	switch {
	case e.Code == "missing_api_key":
		if where := misplacedKey(r.ctx); where != nil {
			e.Cause = where
			e.Message = "The API key must be sent in the header Authorization: Bearer YOUR_KEY. Other headers and the address are not searched for one."
			if own := keyHeaders[endpoint.GuessAPI(r.head)]; own != "" {
				e.Message = "The API key must be sent in the header " + own + ", or as Authorization: Bearer YOUR_KEY. Other headers and the address, which others log, are not searched for one."
			}
		}
	case e.Code == "invalid_api_key" && perMinute > 0:
		refused, tooMany := a.authLimiter.RecordInvalidKey(peerAddress(r.ctx), perMinute, r.now)
		if tooMany == nil {
			break
		}
		// A line for each would be a way to fill the log.
		r.record.Unlogged = true
		if isPowerOfTen(refused) {
			a.log.Warn("invalid API keys rejected", "remote", r.record.Remote, "refused", refused, "max_wrong_keys", perMinute)
		}
		return tooMany
	}
	return e
}

// keyRejections are the refusals of a key whose name is known, as they are counted for that key.
var keyRejections = map[telemetry.Refusal]telemetry.Rejection{
	telemetry.RefusedDisabled: telemetry.RejectedDisabled, telemetry.RefusedExpired: telemetry.RejectedExpired, telemetry.RefusedNotYetValid: telemetry.RejectedNotYetValid,
}

// limitRejections are the limits of a scope, as their excesses are counted.
var limitRejections = [...]telemetry.Rejection{
	spend.LimitRequests: telemetry.RejectedRequests, spend.LimitTokens: telemetry.RejectedTokens, spend.LimitConcurrent: telemetry.RejectedConcurrent,
	spend.LimitBudget: telemetry.RejectedBudget,
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

// credentialHeaders are where clients send keys: the first is the one for it, the others are those of other APIs.
var credentialHeaders = [...]string{fasthttp.HeaderAuthorization, "x-api-key", "api-key", "x-goog-api-key"}

// minKey is how long the shortest text is that may be a key: a shorter one is a word like any other.
const minKey = 6

// presentedKeys are the last words of a request's Authorization and of the other headers in which clients send keys, whether they
// are looked for there or not, but for those that are too short to be a key.
func presentedKeys(h *fasthttp.RequestHeader) (keys []string) {
	for _, name := range credentialHeaders {
		words := bytes.Fields(h.Peek(name))
		if len(words) > 0 && len(words[len(words)-1]) >= minKey {
			keys = append(keys, string(words[len(words)-1]))
		}
	}
	return keys
}

// misplacedKey says, for the log, where a request without a key has one that is not looked for, and what would change that; nil if it
// has none.
func misplacedKey(ctx *fasthttp.RequestCtx) error {
	for _, name := range credentialHeaders[1:] {
		if len(ctx.Request.Header.Peek(name)) > 0 && name != keyHeaders[endpoint.GuessAPI(&ctx.Request.Header)] {
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

// A gateway may by mistake be configured as its own provider, and each request would make another one without end. So
// each gateway counts in this header how many gateways a request has passed.
const (
	hopsHeader = "x-sluice-hops"
	maxHops    = 5
)

var hopTexts = [maxHops + 1]string{"0", "1", "2", "3", "4", "5"}

// parseHops returns how many gateways a request says it has passed. A client that invents a number can only be refused
// sooner.
func parseHops(h *fasthttp.RequestHeader) int {
	hops := 0
	for _, v := range h.PeekAll(hopsHeader) {
		if n, err := strconv.ParseUint(string(v), 10, 16); err == nil {
			hops = max(hops, int(n))
		}
	}
	return hops
}

// loopDetected is for a request that has passed too many gateways. None of them should retry it.
func loopDetected(hops int) *apierror.Error {
	e := apierror.Invalid("loop_detected", "", "The request has passed %d gateways: one of them is its own provider.", hops)
	e.NoRetry = true
	return e
}

func (a *admission) tooLarge() *apierror.Error {
	e := apierror.Invalid("request_too_large", "", "The request's body is larger than %d bytes.", a.limits.Load().MaxBody)
	e.Status, e.CloseClient = fasthttp.StatusRequestEntityTooLarge, true
	return e
}

// shedError is which resource a request was rejected for.
type shedError telemetry.Shed

func (s shedError) Error() string {
	if telemetry.Shed(s) == telemetry.ShedBodies {
		return "too much memory held by large bodies"
	}
	return "too many completions in flight"
}

// overloaded is the error of a request for which there is no room.
func overloaded(of telemetry.Shed) *apierror.Error {
	e := &apierror.Error{Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second, Cause: shedError(of)}
	e.Message = "Too many concurrent requests."
	if of == telemetry.ShedBodies {
		e.Message = "Too many large requests and responses in flight."
	}
	return e
}

// reservation is what one completion takes of the gateway's room. The zero value holds nothing.
type reservation struct {
	admission *admission // nil: it is not counted
	response  int64      // bytes that are counted for a response
}

// uncountedBody is how large a body may be without being counted byte by byte: each completion is counted as a whole, and
// most bodies are smaller.
const uncountedBody = 64 << 10

// checkRoom reports whether there is room for another completion with a body of n bytes, without taking it.
func (a *admission) checkRoom(n int) *apierror.Error {
	limits := a.limits.Load()
	switch {
	case a.requests.Load() >= int64(limits.MaxRequests):
		return overloaded(telemetry.ShedRequests)
	case n > uncountedBody && a.bodies.Load()+int64(n)-uncountedBody > limits.MaxBodyMemory:
		return overloaded(telemetry.ShedBodies)
	}
	return nil
}

// reserve counts a completion among those in flight, until r is released.
func (a *admission) reserve(r *reservation) *apierror.Error {
	if a.requests.Add(1) > int64(a.limits.Load().MaxRequests) {
		a.requests.Add(-1)
		return overloaded(telemetry.ShedRequests)
	}
	r.admission = a
	return nil
}

// release gives back all of the room.
func (r *reservation) release() {
	if r.admission != nil {
		r.admission.shrink(&r.response)
		r.admission.requests.Add(-1)
		r.admission = nil
	}
}

// growStep is by how much at a time a body's count grows: what grows in small pieces is not counted with each of them.
const growStep = 64 << 10

// grow makes a body's count reach n bytes in all, or fails and leaves it as it is.
func (a *admission) grow(body *int64, n int) *apierror.Error {
	more := int64(n) - uncountedBody - *body
	if more <= 0 {
		return nil
	}
	limit := a.limits.Load().MaxBodyMemory
	step := (more + growStep - 1) / growStep * growStep
	if a.bodies.Add(step) > limit {
		// The last step need not be a whole one.
		if a.bodies.Add(more-step) > limit {
			a.bodies.Add(-more)
			return overloaded(telemetry.ShedBodies)
		}
		step = more
	}
	*body += step
	return nil
}

// shrink gives back a body's count.
func (a *admission) shrink(body *int64) {
	if *body > 0 {
		a.bodies.Add(-*body)
		*body = 0
	}
}

// shadows bounds the copies of requests that shadows are sent. They take nothing that clients could be short of: they have a count and
// memory of their own.
type shadows struct {
	admission admission
	ctx       context.Context // of all copies
	stop      context.CancelCauseFunc
}

const (
	// requestsPerShadow is for how many completions that may be in flight there may be one copy, maxShadows how many copies at most.
	requestsPerShadow = 64
	maxShadows        = 256

	// shadowMemory is the share of the memory for bodies that copies may take besides, as a divisor.
	shadowMemory = 16
)

// setLimits bounds the copies by the limits of the server.
func (s *shadows) setLimits(l *config.Server) {
	s.admission.limits.Store(&config.Server{
		MaxRequests: min(max(l.MaxRequests/requestsPerShadow, 4), maxShadows), MaxBodyMemory: l.MaxBodyMemory / shadowMemory,
	})
}

// admit takes room for a copy with a document of n bytes. While the gateway has much to do for its clients, there is none.
func (s *shadows) admit(y *completion, to *provider, n int) bool {
	clients := &y.server.admission
	limits := clients.limits.Load()
	switch {
	case clients.requests.Load() > int64(limits.MaxRequests)/4*3+1, clients.bodies.Load() > limits.MaxBodyMemory/4*3:
		return false
	case to.client != nil && !to.client.HasSpare(), s.admission.reserve(&y.room) != nil:
		return false
	case s.admission.grow(&y.counted, n) != nil:
		y.room.release()
		return false
	}
	return true
}

// withCapacity fills in the limits that the configuration leaves to the machine. A body larger than the memory for bodies is refused
// as such, since there is never room for it.
func withCapacity(s config.Server, m capacity.Machine) *config.Server {
	c := m.Ceilings(s.MaxBody)
	if s.MaxConns == 0 {
		s.MaxConns = c.Conns
	}
	if s.MaxRequests == 0 {
		s.MaxRequests = c.Requests
	}
	if s.MaxBodyMemory == 0 {
		s.MaxBodyMemory = c.BodyMemory
		s.MaxBody = min(s.MaxBody, c.BodyMemory)
	}
	return &s
}
