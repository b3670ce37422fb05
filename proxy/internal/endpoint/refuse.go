package endpoint

import (
	"bytes"
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// methodNotAllowed is for an endpoint that takes other methods.
func methodNotAllowed(h *fasthttp.RequestHeader, allowed string) *apierror.Error {
	e := apierror.Invalid("method_not_allowed", "", "This address takes %s, not %s.", allowed, Method(h))
	e.Status, e.Allow = fasthttp.StatusMethodNotAllowed, allowed
	return e
}

// unknownURL is for a path that no endpoint has.
func unknownURL(h *fasthttp.RequestHeader, path []byte) *apierror.Error {
	shown := sanitizePath(path)
	e := apierror.Invalid("unknown_url", "", "There is nothing at %s %s. The gateway has POST %s, GET %s and %s.",
		Method(h), shown, strings.Join([]string{pathCompletions, pathMessages, pathResponses, pathEmbeddings, pathRerank, pathLegacy, pathModerations, endpoints[geminiContent].path}, ", "),
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

// CheckStream refuses a stream in the one form that the gateway does not write: a JSON array, which the Gemini API's own clients never
// ask for. query is that of a request to an endpoint that Streams.
func CheckStream(query *fasthttp.Args) *apierror.Error {
	if string(query.Peek("alt")) == "sse" {
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
