package endpoint

import (
	"bytes"
	"errors"
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

// unknownURL returns the error for a path without an endpoint.
func unknownURL(h *fasthttp.RequestHeader, path []byte) *apierror.Error {
	shown := sanitizePath(path)
	e := apierror.Invalid("unknown_url", "", "Unknown URL: %s %s. The gateway serves POST %s, GET %s and %s.",
		Method(h), shown, strings.Join([]string{pathCompletions, pathMessages, pathResponses, pathEmbeddings, pathRerank, pathLegacy, pathModerations, endpoints[geminiContent].path}, ", "),
		pathModels, endpoints[oneModel].path)
	e.Status, e.Cause = fasthttp.StatusNotFound, errors.New("no such path: "+shown)
	return e
}

// unknownCall returns the error for a method of the Gemini API that the gateway does not support.
func unknownCall() *apierror.Error {
	e := apierror.Invalid("unknown_url", "", "The gateway supports the methods generateContent, streamGenerateContent and countTokens of a model. For embeddings, send POST %s.", pathEmbeddings)
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

// noWebSocket returns the error for a client that prefers a WebSocket; it falls back to POST.
func noWebSocket() *apierror.Error {
	e := apierror.Invalid("websocket_unsupported", "", "WebSockets are not supported. Send POST %s.", pathResponses)
	e.Status = fasthttp.StatusUpgradeRequired
	return e
}

// knownSegments are the segments of the gateway's own paths, and of paths that clients request by mistake. Any other
// segment may contain a key, and is not shown.
var knownSegments = map[string]bool{
	"admin": true, "api": true, "assistants": true, "audio": true, "batches": true, "cancel": true, "chat": true, "compact": true,
	"completion": true, "completions": true, "count_tokens": true, "deployments": true, "embeddings": true, "engines": true, "favicon.ico": true, "files": true,
	"event_logging": true, "generate": true, "health": true, "healthz": true, "images": true, "input_items": true, "input_tokens": true, "messages": true, "metrics": true, "model": true,
	"models": true, "moderations": true, "openai": true, "readyz": true, "rerank": true, "responses": true, "robots.txt": true,
	"status": true, "tags": true, "threads": true, "v1": true, "v1beta": true, "v2": true,
}

// maxSegments is the maximum number of segments of a path that are shown.
const maxSegments = 8

// sanitizePath returns a path for errors and logs, with a star for each unknown segment.
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
