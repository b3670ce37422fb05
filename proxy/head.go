package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
)

const (
	// maxHeaders is how many header lines a request may have: clients and proxies together send twenty.
	maxHeaders = 100
	// maxURI is how long a request's target may be.
	maxURI = 8 << 10
	// smallBody is how large a body is read even if its request is refused, so that the connection can be used again. The
	// head of a request with a larger body is judged first.
	smallBody = 64 << 10
	// chunkedLength is the Content-Length that fasthttp returns for a chunked body.
	chunkedLength = -1
)

// endpoint is what a request is for.
type endpoint uint8

const (
	unknownEndpoint endpoint = iota
	unknownMessages          // below the path of Messages
	completions
	messagesCompletions
	messagesCount
	unknownResponses // below the path of Responses
	responsesCompletions
	responsesCount
	storedResponse
	storedItems
	cancelResponse
	embeddings
	rerank
	rerankV2
	legacyCompletions
	moderations
	modelList
	oneModel
	unknownGemini // below the path of Gemini
	geminiContent
	geminiStream
	geminiCount
	geminiModelList
	geminiModel
)

const (
	pathCompletions = "/v1/chat/completions"
	pathMessages    = "/v1/messages"
	pathResponses   = "/v1/responses"
	pathEmbeddings  = "/v1/embeddings"
	pathRerank      = "/v1/rerank"
	pathRerankV2    = "/v2/rerank"
	pathLegacy      = "/v1/completions"
	pathModerations = "/v1/moderations"
	pathModels      = "/v1/models"
	pathGemini      = "/v1beta/models"
)

// The calls of a model that the Gemini API has, behind its name.
const (
	callContent = ":generateContent"
	callStream  = ":streamGenerateContent"
	callCount   = ":countTokens"
)

// endpoints are each endpoint's path, as the log names it, the methods it takes, the API that it is of, and how its requests are
// served.
var endpoints = [...]struct {
	path, allow string
	api         clientapi.ID
	serve       service
}{
	unknownEndpoint:      {},
	unknownMessages:      {api: clientapi.Messages},
	completions:          {pathCompletions, "POST", clientapi.Chat, serveCompletions},
	messagesCompletions:  {pathMessages, "POST", clientapi.Messages, serveCompletions},
	messagesCount:        {pathMessages + "/count_tokens", "POST", clientapi.Messages, serveCounts},
	unknownResponses:     {api: clientapi.Responses},
	responsesCompletions: {pathResponses, "POST", clientapi.Responses, serveCompletions},
	responsesCount:       {pathResponses + "/input_tokens", "POST", clientapi.Responses, serveCounts},
	storedResponse:       {pathResponses + "/{id}", "GET, HEAD, DELETE", clientapi.Responses, serveStored},
	storedItems:          {pathResponses + "/{id}/input_items", "GET, HEAD", clientapi.Responses, serveStored},
	cancelResponse:       {pathResponses + "/{id}/cancel", "POST", clientapi.Responses, serveStored},
	embeddings:           {pathEmbeddings, "POST", clientapi.Embeddings, serveCompletions},
	rerank:               {pathRerank, "POST", clientapi.Rerank, serveCompletions},
	rerankV2:             {pathRerankV2, "POST", clientapi.Rerank, serveCompletions},
	legacyCompletions:    {pathLegacy, "POST", clientapi.LegacyCompletions, serveCompletions},
	moderations:          {pathModerations, "POST", clientapi.Moderations, serveCompletions},
	modelList:            {pathModels, "GET, HEAD", clientapi.Chat, serveModels},
	oneModel:             {pathModels + "/{id}", "GET, HEAD", clientapi.Chat, serveModels},
	unknownGemini:        {api: clientapi.Gemini},
	geminiContent:        {pathGemini + "/{model}" + callContent, "POST", clientapi.Gemini, serveCompletions},
	geminiStream:         {pathGemini + "/{model}" + callStream, "POST", clientapi.Gemini, serveCompletions},
	geminiCount:          {pathGemini + "/{model}" + callCount, "POST", clientapi.Gemini, serveCounts},
	geminiModelList:      {pathGemini, "GET, HEAD", clientapi.Gemini, serveModels},
	geminiModel:          {pathGemini + "/{id}", "GET, HEAD", clientapi.Gemini, serveModels},
}

// service is how the requests of an endpoint are served.
type service uint8

const (
	serveNothing     service = iota
	serveCompletions         // as a completion
	serveCounts              // as a completion, but for the attempts
	serveStored              // from what is kept of responses
	serveModels
)

// hasBody reports whether the requests of an endpoint have a body that counts.
func (e endpoint) hasBody() bool {
	return endpoints[e].serve == serveCompletions || endpoints[e].serve == serveCounts
}

// allows reports whether an endpoint takes a method.
func (e endpoint) allows(method []byte) bool {
	for allowed := range strings.SplitSeq(endpoints[e].allow, ", ") {
		if string(method) == allowed {
			return true
		}
	}
	return false
}

// matchPath compares a path as it came, byte for byte: what a normaliser would make of it is another path.
func matchPath(path []byte) endpoint {
	switch string(path) {
	case pathCompletions:
		return completions
	case pathMessages:
		return messagesCompletions
	case pathMessages + "/count_tokens":
		return messagesCount
	case pathResponses:
		return responsesCompletions
	case pathResponses + "/input_tokens":
		return responsesCount
	case pathEmbeddings:
		return embeddings
	case pathRerank:
		return rerank
	case pathRerankV2:
		return rerankV2
	case pathLegacy:
		return legacyCompletions
	case pathModerations:
		return moderations
	case pathModels:
		return modelList
	case pathGemini:
		return geminiModelList
	}
	switch {
	case bytes.HasPrefix(path, []byte(pathModels+"/")):
		to, _ := matchCall(path[len(pathModels)+1:], oneModel)
		return to
	case bytes.HasPrefix(path, []byte(pathGemini+"/")):
		to, _ := matchCall(path[len(pathGemini)+1:], geminiModel)
		return to
	case bytes.HasPrefix(path, []byte("/v1beta/")):
		return unknownGemini
	case bytes.HasPrefix(path, []byte(pathMessages+"/")):
		return unknownMessages
	case bytes.HasPrefix(path, []byte(pathResponses+"/")):
		return matchStored(path)
	}
	return unknownEndpoint
}

// matchCall finds what a path below that of a list of models is for: a call of a model in the Gemini API, whose clients may use either
// list, or else the model itself. model is its name, as the path has it.
func matchCall(rest []byte, otherwise endpoint) (to endpoint, model []byte) {
	for _, call := range [...]struct {
		suffix string
		to     endpoint
	}{{callContent, geminiContent}, {callStream, geminiStream}, {callCount, geminiCount}} {
		if model, ok := bytes.CutSuffix(rest, []byte(call.suffix)); ok && len(model) > 0 {
			return call.to, model
		}
	}
	return otherwise, rest
}

// addressedModel is the model that the path of a request of the Gemini API names.
func addressedModel(path []byte) (string, *apierror.Error) {
	rest, ok := bytes.CutPrefix(path, []byte(pathGemini+"/"))
	if !ok {
		rest = bytes.TrimPrefix(path, []byte(pathModels+"/"))
	}
	_, name := matchCall(rest, unknownGemini)
	model, err := url.PathUnescape(string(name))
	if err != nil || !utf8.ValidString(model) {
		return "", modellist.NotFound(string(name))
	}
	return model, nil
}

// matchStored finds what a path below that of Responses is for.
func matchStored(path []byte) endpoint {
	id, rest, more := bytes.Cut(path[len(pathResponses)+1:], []byte{'/'})
	switch {
	case len(id) == 0, string(id) == "compact":
	case !more:
		return storedResponse
	case string(rest) == "input_items":
		return storedItems
	case string(rest) == "cancel":
		return cancelResponse
	}
	return unknownResponses
}

// headAPI is the API of a request of which nothing but its head is known, and maybe not all of that: the one that its path looks
// like.
func headAPI(h *fasthttp.RequestHeader) clientapi.ID {
	to := matchPath(requestPath(h))
	switch {
	case to == geminiModelList, to == geminiModel, endpoints[to].serve != serveModels:
	case len(h.Peek(messagesVersion)) > 0:
		return clientapi.Messages
	case len(h.Peek(geminiClient)) > 0:
		return clientapi.Gemini
	}
	return endpoints[to].api
}

// messagesVersion is a header that clients of Messages send: their list of models has another form.
const messagesVersion = "anthropic-version"

// geminiClient is a header that Google's clients send, whichever version of the API they use.
const geminiClient = "x-goog-api-client"

// matchEndpoint checks a request's head, and finds what the request is for. The path is without its query; it is the
// header's.
func matchEndpoint(h *fasthttp.RequestHeader) (to endpoint, path []byte, e *apierror.Error) {
	if e := checkHead(h); e != nil {
		return unknownEndpoint, nil, e
	}
	path = requestPath(h)
	to = matchPath(path)
	switch {
	case endpoints[to].serve == serveNothing:
		return to, path, unknownURL(h, path)
	case to.allows(h.Method()):
		return to, path, nil
	case to == geminiModel && h.IsPost():
		return unknownGemini, path, unknownCall()
	case to == responsesCompletions && httpfield.EqualFold(h.Peek(fasthttp.HeaderUpgrade), "websocket"):
		return to, path, noWebSocket()
	}
	return to, path, methodNotAllowed(h, endpoints[to].allow)
}

// requestPath is the path of a request's target. The target may be a whole URL; checkHead has verified that it names the
// same host as the header Host.
func requestPath(h *fasthttp.RequestHeader) []byte {
	uri, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	if authority, path, whole := splitURL(uri); whole && authority != nil {
		return path
	}
	return uri
}

// splitURL splits a whole URL; whole is false for a target that is only a path. authority is nil unless the scheme is
// http or https.
func splitURL(uri []byte) (authority, path []byte, whole bool) {
	if len(uri) == 0 || uri[0] == '/' {
		return nil, nil, false
	}
	scheme, rest, whole := bytes.Cut(uri, []byte("://"))
	if !whole || !httpfield.EqualFold(scheme, "http") && !httpfield.EqualFold(scheme, "https") {
		return nil, nil, whole
	}
	n := bytes.IndexAny(rest, "/?")
	if n < 0 {
		n = len(rest)
	}
	return rest[:n:n], rest[n:], true
}

// checkHead refuses what fasthttp lets pass: what an intermediary may have read in another way, other versions of HTTP,
// unknown expectations, and oversized heads.
func checkHead(h *fasthttp.RequestHeader) *apierror.Error {
	if !h.IsHTTP11() && string(h.Protocol()) != "HTTP/1.0" {
		e := apierror.Invalid("http_version_not_supported", "", "The gateway speaks HTTP/1.1 and HTTP/1.0.")
		return refusedHead(e, fasthttp.StatusHTTPVersionNotSupported)
	}
	if len(h.RequestURI()) > maxURI {
		e := apierror.Invalid("uri_too_long", "", "The request's address is longer than %d KiB.", maxURI>>10)
		return refusedHead(e, fasthttp.StatusRequestURITooLong)
	}
	lines, hasEncoding, hasLength := 0, false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		text, whole := bytes.CutSuffix(line, []byte("\r\n"))
		if whole && len(text) == 0 {
			break
		}
		name, value, colon := bytes.Cut(text, []byte{':'})
		if lines++; !whole || !colon || !httpfield.ValidName(name) {
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
				e := apierror.Invalid("expectation_failed", "", "The request's Expect can only be 100-continue.")
				return refusedHead(e, fasthttp.StatusExpectationFailed)
			}
		}
	}
	switch {
	case lines > maxHeaders:
		e := apierror.Invalid("request_header_too_large", "", "The request has more than %d header lines.", maxHeaders)
		return refusedHead(e, fasthttp.StatusRequestHeaderFieldsTooLarge)
	case hasEncoding && hasLength, !isHost(h.Host()):
		return ambiguous()
	}
	if authority, _, whole := splitURL(h.RequestURI()); whole && (len(authority) == 0 || !bytes.EqualFold(authority, h.Host())) {
		return ambiguous()
	}
	return nil
}

func refusedHead(e *apierror.Error, status int) *apierror.Error {
	e.Status, e.CloseClient = status, true
	return e
}

// ambiguous is for a head that HTTP does not allow, or that can be read in more than one way: a folded line or one without
// CR LF, both Content-Length and Transfer-Encoding, an encoding other than chunked, an invalid Host or one that differs
// from the target's.
func ambiguous() *apierror.Error {
	return refusedHead(apierror.Invalid("bad_request", "", "The request's header can be read in more than one way."), fasthttp.StatusBadRequest)
}

// isHost reports whether a Host is a name or an address, with or without a port, and nothing else of a URL. It is empty
// where HTTP/1.0 leaves it out.
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

// knownSegments are those of our own paths and of paths that clients request by mistake. What else a path holds may be
// anything, a key among it, and is not shown.
var knownSegments = map[string]bool{
	"admin": true, "api": true, "assistants": true, "audio": true, "batches": true, "cancel": true, "chat": true, "compact": true,
	"completion": true, "completions": true, "count_tokens": true, "deployments": true, "embeddings": true, "engines": true, "favicon.ico": true, "files": true,
	"event_logging": true, "generate": true, "health": true, "healthz": true, "images": true, "input_items": true, "input_tokens": true, "messages": true, "metrics": true, "model": true,
	"models": true, "moderations": true, "openai": true, "readyz": true, "rerank": true, "responses": true, "robots.txt": true,
	"status": true, "tags": true, "threads": true, "v1": true, "v1beta": true, "v2": true,
}

// maxSegments is how many segments of a path are shown.
const maxSegments = 8

// sanitizePath returns a path as it may be shown and logged, with a star for each unknown segment.
func sanitizePath(path []byte) string {
	var b strings.Builder
	segments := 0
	for segment := range bytes.SplitSeq(bytes.TrimPrefix(path, []byte{'/'}), []byte{'/'}) {
		if segments++; segments > maxSegments {
			b.WriteString("/…")
			break
		}
		b.WriteByte('/')
		switch {
		case knownSegments[string(segment)]:
			b.Write(segment)
		case len(segment) > 0:
			b.WriteByte('*')
		}
	}
	return b.String()
}

func methodNotAllowed(h *fasthttp.RequestHeader, allowed string) *apierror.Error {
	e := apierror.Invalid("method_not_allowed", "", "This address takes %s, not %s.", allowed, knownMethod(h))
	e.Status, e.Allow = fasthttp.StatusMethodNotAllowed, allowed
	return e
}

func unknownURL(h *fasthttp.RequestHeader, path []byte) *apierror.Error {
	shown := sanitizePath(path)
	e := apierror.Invalid("unknown_url", "", "There is nothing at %s %s. The gateway has POST %s, GET %s and %s.",
		knownMethod(h), shown, strings.Join([]string{pathCompletions, pathMessages, pathResponses, pathEmbeddings, pathRerank, pathLegacy, pathModerations, endpoints[geminiContent].path}, ", "),
		pathModels, endpoints[oneModel].path)
	e.Status, e.Cause = fasthttp.StatusNotFound, errors.New("no such path: "+shown)
	return e
}

// unknownCall is for a call of a model that the Gemini API has, and the gateway has not.
func unknownCall() *apierror.Error {
	e := apierror.Invalid("unknown_url", "", "The gateway has the calls generateContent, streamGenerateContent and countTokens of a model. For embeddings, send POST %s.", pathEmbeddings)
	e.Status = fasthttp.StatusNotFound
	return e
}

// checkStream refuses a stream in the one form that the gateway does not write: a JSON array, which the Gemini API's own clients never
// ask for.
func checkStream(to endpoint, ctx *fasthttp.RequestCtx) *apierror.Error {
	if to != geminiStream || string(ctx.QueryArgs().Peek("alt")) == "sse" {
		return nil
	}
	return apierror.Invalid(clientapi.CodeUnsupportedParameter, "alt", "A stream is sent as server-sent events only: add ?alt=sse to the address.")
}

// noWebSocket is for a client that would rather use a WebSocket: it goes on with POST.
func noWebSocket() *apierror.Error {
	e := apierror.Invalid("websocket_unsupported", "", "The gateway has no WebSocket. Send POST %s.", pathResponses)
	e.Status = fasthttp.StatusUpgradeRequired
	return e
}

var methods = [...]string{"POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

// knownMethod is a request's method; "other" keeps what a client invents out of the log.
func knownMethod(h *fasthttp.RequestHeader) string {
	for _, known := range methods {
		if string(h.Method()) == known {
			return known
		}
	}
	return "other"
}

// parseBetas returns the words of a request's anthropic-beta headers, each once: features that the client wants of a provider of
// Messages. Plugins see them and may send them on, so none may be or hold a credential.
func parseBetas(h *fasthttp.RequestHeader, g *generation) (betas []string) {
	const maxBetas, maxBeta = 64, 128
	for _, header := range h.PeekAll("anthropic-beta") {
		for word := range bytes.SplitSeq(header, []byte{','}) {
			word = bytes.Trim(word, " \t")
			if len(word) == 0 || len(word) > maxBeta || !httpfield.ValidName(word) || len(betas) == maxBetas {
				continue
			}
			beta := string(word)
			if !slices.Contains(betas, beta) && withoutKey(h, beta) == beta && !g.holdsSecret(word) {
				betas = append(betas, beta)
			}
		}
	}
	return betas
}

// isVisibleASCII reports whether s can be a token in a header and in the log.
func isVisibleASCII(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// maxRequestID is how long a client's own x-request-id may be.
const maxRequestID = 128

// requestID is the client's own id where it is usable, else a new one: the id is logged and sent back, so it must not be or hold a
// credential, be it that of the request or another one of the configuration.
func requestID(h *fasthttp.RequestHeader, g *generation) string {
	ids := h.PeekAll("x-request-id")
	if len(ids) != 1 || len(ids[0]) == 0 || len(ids[0]) > maxRequestID || !isVisibleASCII(ids[0]) {
		return newRequestID()
	}
	if id := string(ids[0]); withoutKey(h, id) != id {
		return newRequestID()
	}
	if g != nil && g.holdsSecret(ids[0]) {
		return newRequestID()
	}
	return string(ids[0])
}

// traceHeader ties a request to the trace of its client (W3C Trace Context). It is logged, and sent to the provider as it came:
// the gateway makes no spans of its own.
const traceHeader = "traceparent"

// traceparent returns the client's trace context, "" for none or one that is not valid.
func traceparent(h *fasthttp.RequestHeader) string {
	values := h.PeekAll(traceHeader)
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

func newRequestID() string { return randomID("req_") }

// randomID is 128 random bits after a prefix. They need not be secret: they only must not repeat.
func randomID(prefix string) string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	var id [48]byte
	return string(hex.AppendEncode(append(id[:0], prefix...), b[:]))
}

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
