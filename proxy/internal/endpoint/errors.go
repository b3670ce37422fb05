package endpoint

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// methodNotAllowed returns the error for a method that the endpoint does not support.
func methodNotAllowed(h *fasthttp.RequestHeader, allowed string) *apierror.Error {
	e := apierror.Invalid("method_not_allowed", "", "This URL supports %s, not %s.", allowed, Method(h))
	e.Status, e.Allow = fasthttp.StatusMethodNotAllowed, allowed
	return e
}

// unknownURL returns the error for a path without an endpoint. The client sees the whole path, the log does not.
func unknownURL(h *fasthttp.RequestHeader, path []byte) *apierror.Error {
	e := apierror.Invalid("unknown_url", "", "Unknown URL: %s %s. The gateway serves POST %s, GET %s and %s.",
		Method(h), quotePath(path), strings.Join([]string{pathCompletions, pathMessages, pathResponses, pathEmbeddings, pathRerank, pathLegacy, pathModerations, endpoints[geminiContent].path}, ", "),
		pathModels, endpoints[oneModel].path)
	e.Status, e.Cause = fasthttp.StatusNotFound, errors.New("no such path: "+logPath(path))
	return e
}

// unknownCall returns the error for a method of the Gemini API that the gateway does not support.
func unknownCall(h *fasthttp.RequestHeader, path []byte) *apierror.Error {
	e := apierror.Invalid("unknown_url", "", "Unknown URL: %s %s. The gateway supports the methods generateContent, streamGenerateContent, countTokens, embedContent and batchEmbedContents of a model.", Method(h), quotePath(path))
	e.Status = fasthttp.StatusNotFound
	return e
}

// CheckStream rejects a stream in the one format that the gateway does not write, a JSON array, which the Gemini API's
// official clients never request. query is the query of a request to an endpoint for which Streams reports true.
func CheckStream(query *fasthttp.Args) *apierror.Error {
	if string(query.Peek("alt")) == "sse" {
		return nil
	}
	return apierror.Invalid(clientapi.CodeUnsupportedParameter, "alt", "Streams are only sent as server-sent events: add ?alt=sse to the URL.")
}

// NoWebSocket returns the error for a client that prefers a WebSocket where there is none; it falls back to POST.
func NoWebSocket() *apierror.Error {
	e := apierror.Invalid("websocket_unsupported", "", "WebSockets are not supported. Send POST %s.", pathResponses)
	e.Status = fasthttp.StatusUpgradeRequired
	return e
}

// knownSegments are the segments of the gateway's own paths, and of paths that clients request by mistake. Any other
// segment may contain a key, and is not logged.
var knownSegments = map[string]bool{
	"admin": true, "api": true, "assistants": true, "audio": true, "batches": true, "cancel": true, "chat": true, "compact": true,
	"completion": true, "completions": true, "count_tokens": true, "deployments": true, "embeddings": true, "engines": true, "favicon.ico": true, "files": true,
	"event_logging": true, "generate": true, "health": true, "healthz": true, "images": true, "input_items": true, "input_tokens": true, "messages": true, "metrics": true, "model": true,
	"models": true, "moderations": true, "openai": true, "readyz": true, "rerank": true, "responses": true, "robots.txt": true,
	"status": true, "tags": true, "threads": true, "v1": true, "v1beta": true, "v2": true,
}

// logPath returns a path for the log, with a star for each unknown segment, up to a number of segments.
func logPath(path []byte) string {
	return maskSegments(path, 8, func(segment []byte) bool { return !knownSegments[string(segment)] })
}

// quotePath returns a path for the client that requested it, in printable ASCII, up to a length that no real path has.
// Clients log errors, so a segment that is likely to be a key has a star.
func quotePath(path []byte) string {
	const longest = 512
	s := strconv.QuoteToASCII(maskSegments(path[:min(len(path), longest)], longest, func(segment []byte) bool {
		return bytes.HasPrefix(segment, []byte("sk-")) || bytes.HasPrefix(segment, []byte("AIza"))
	}))
	if s = s[1 : len(s)-1]; len(path) > longest {
		s += "…"
	}
	return s
}

// maskSegments returns the first segments of a path, with a star for each that is secret.
func maskSegments(path []byte, most int, secret func(segment []byte) bool) string {
	segments := bytes.Split(path, []byte{'/'})
	for i, segment := range segments {
		if len(segment) > 0 && secret(segment) {
			segments[i] = []byte{'*'}
		}
	}
	if most++; len(segments) > most { // the first one is empty, before the leading slash
		segments = append(segments[:most], []byte("…"))
	}
	return string(bytes.Join(segments, []byte{'/'}))
}
