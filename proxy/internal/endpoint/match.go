package endpoint

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Match checks a request's head and finds its endpoint. rest is the variable part of the path: the model as it is
// written there (see UnescapeModel), which for Azure is its deployment, or the ID of a stored response. It belongs to the head.
func Match(h *fasthttp.RequestHeader) (to ID, rest []byte, e *apierror.Error) {
	if e := check(h); e != nil {
		return Unknown, nil, e
	}
	path := requestPath(h)
	to, rest = matchPath(path)
	switch {
	case endpoints[to].service == Nothing:
		return to, nil, unknownURL(h, path)
	case to == responsesCompletions && h.IsGet() && httpfield.EqualFold(h.Peek(fasthttp.HeaderUpgrade), "websocket"):
		return responsesSocket, nil, nil
	case to.allows(h.Method()):
		return to, rest, nil
	case to == geminiModel && h.IsPost():
		return unknownGemini, nil, unknownCall(h, path)
	}
	return to, nil, methodNotAllowed(h, endpoints[to].allow)
}

// GuessAPI guesses the API of a request from its head, which may be incomplete. It uses the path and, for lists of
// models, headers that only clients of some APIs send.
func GuessAPI(h *fasthttp.RequestHeader) clientapi.ID {
	to, _ := matchPath(requestPath(h))
	switch {
	case to != modelList && to != oneModel:
	case len(h.Peek(messagesVersion)) > 0:
		return clientapi.Messages
	case len(h.Peek(geminiClient)) > 0:
		return clientapi.Gemini
	}
	return endpoints[to].api
}

// messagesVersion is a header that Messages clients send. They expect another format of the list of models.
const messagesVersion = "anthropic-version"

// geminiClient is a header that Google's clients send with every version of the API.
const geminiClient = "x-goog-api-client"

// matchPath matches a path as received, byte for byte; a path that would only match after normalisation is a different
// one. rest is as in Match.
func matchPath(path []byte) (to ID, rest []byte) {
	switch string(path) {
	case pathCompletions:
		return completions, nil
	case pathMessages:
		return messagesCompletions, nil
	case pathMessages + "/count_tokens":
		return messagesCount, nil
	case pathResponses:
		return responsesCompletions, nil
	case pathResponses + "/input_tokens":
		return responsesCount, nil
	case pathEmbeddings:
		return embeddings, nil
	case pathRerank:
		return rerank, nil
	case pathRerankV2:
		return rerankV2, nil
	case pathLegacy:
		return legacyCompletions, nil
	case pathModerations:
		return moderations, nil
	case pathEmbed:
		return cohereEmbed, nil
	case pathEmbedV1:
		return cohereEmbedV1, nil
	case pathModels:
		return modelList, nil
	case pathGemini:
		return geminiModelList, nil
	}
	if below, ok := bytes.CutPrefix(path, []byte(pathModels+"/")); ok {
		return matchCall(below, oneModel)
	}
	if below, ok := bytes.CutPrefix(path, []byte(pathGemini+"/")); ok {
		return matchCall(below, geminiModel)
	}
	if below, ok := bytes.CutPrefix(path, []byte(pathResponses+"/")); ok {
		return matchStored(below)
	}
	if to, rest := matchSpelling(path); to != Unknown {
		return to, rest
	}
	switch {
	case bytes.HasPrefix(path, []byte("/v1beta/")):
		return unknownGemini, nil
	case bytes.HasPrefix(path, []byte(pathMessages+"/")):
		return unknownMessages, nil
	}
	return Unknown, nil
}

// matchCall matches a path below a list of models: a method of a model in the Gemini API, whose clients may use either
// list, or else the model itself. model is the model's name as written in the path.
func matchCall(rest []byte, otherwise ID) (to ID, model []byte) {
	for _, call := range [...]struct {
		suffix string
		to     ID
	}{{callContent, geminiContent}, {callStream, geminiStream}, {callCount, geminiCount}, {callEmbed, geminiEmbed}, {callBatch, geminiEmbedBatch}} {
		if model, ok := bytes.CutSuffix(rest, []byte(call.suffix)); ok && len(model) > 0 {
			return call.to, model
		}
	}
	return otherwise, rest
}

// matchStored matches a path below that of Responses.
func matchStored(below []byte) (to ID, response []byte) {
	id, part, more := bytes.Cut(below, []byte{'/'})
	switch {
	case len(id) == 0, string(id) == "compact":
	case !more:
		return storedResponse, id
	case string(part) == "input_items":
		return storedItems, id
	case string(part) == "cancel":
		return cancelResponse, id
	}
	return unknownResponses, nil
}

// spellings are the prefixes under which other hosts have the endpoints that OpenAI has under /v1/: Groq and the v1 API of
// Azure, Google's compatible API, and Azure with ?api-version= for endpoints without a deployment. A longer one comes
// before its own prefix. See https://learn.microsoft.com/azure/ai-services/openai/reference and
// https://ai.google.dev/gemini-api/docs/openai.
var spellings = [...][]byte{[]byte("/openai/v1/"), []byte("/v1beta/openai/"), []byte(pathAzure)}

// pathAzure is the beginning of all paths of Azure. Its clients send the key in the header api-key.
const pathAzure = "/openai/"

// matchSpelling matches a path under which another host has an endpoint of the OpenAI API. rest is as in Match; for a
// deployment of Azure, it is the deployment, which names the model.
func matchSpelling(path []byte) (to ID, rest []byte) {
	if below, ok := bytes.CutPrefix(path, []byte(pathAzure+"deployments/")); ok {
		deployment, call, _ := bytes.Cut(below, []byte{'/'})
		switch to := matchStandard(call); to {
		case completions, legacyCompletions, embeddings:
			if len(deployment) > 0 {
				return to, deployment
			}
		}
		return Unknown, nil
	}
	for _, prefix := range spellings {
		below, ok := bytes.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		if model, ok := bytes.CutPrefix(below, []byte("models/")); ok {
			return oneModel, model
		}
		if stored, ok := bytes.CutPrefix(below, []byte("responses/")); ok && string(stored) != "input_tokens" {
			return matchStored(stored)
		}
		return matchStandard(below), nil
	}
	return Unknown, nil
}

// matchStandard matches the rest of a path after /v1/ that has no variable part.
func matchStandard(below []byte) ID {
	for id := range endpoints {
		if tail, ok := strings.CutPrefix(endpoints[id].path, "/v1/"); ok && endpoints[id].api != clientapi.Messages && tail == string(below) {
			return ID(id)
		}
	}
	return Unknown
}

// KeyHeaders returns the headers that may carry a client's key: those that are configured and, on paths of Azure,
// api-key.
func KeyHeaders(h *fasthttp.RequestHeader, configured []string) []string {
	switch {
	case !bytes.HasPrefix(requestPath(h), []byte(pathAzure)) || slices.Contains(configured, azureKey):
		return configured
	case len(configured) == 0:
		return azureKeyHeaders
	}
	return slices.Concat(configured, azureKeyHeaders)
}

const azureKey = "api-key"

var azureKeyHeaders = []string{azureKey}

// UnescapeModel returns the model's name from a path; ok is false if it is not validly encoded.
func UnescapeModel(rest []byte) (name string, ok bool) {
	name, err := url.PathUnescape(string(rest))
	return name, err == nil && utf8.ValidString(name)
}

// requestPath returns the path of the request target, which may be in absolute form; check has verified that its host
// matches the Host header.
func requestPath(h *fasthttp.RequestHeader) []byte {
	uri, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	if authority, path, absolute := splitURL(uri); absolute && authority != nil {
		return path
	}
	return uri
}

// splitURL splits a request target in absolute form, which is a URL; absolute is false if the target is only a path.
// authority is nil unless the scheme is http or https.
func splitURL(uri []byte) (authority, path []byte, absolute bool) {
	if len(uri) == 0 || uri[0] == '/' {
		return nil, nil, false
	}
	scheme, rest, absolute := bytes.Cut(uri, []byte("://"))
	if !absolute || !httpfield.EqualFold(scheme, "http") && !httpfield.EqualFold(scheme, "https") {
		return nil, nil, absolute
	}
	n := bytes.IndexAny(rest, "/?")
	if n < 0 {
		n = len(rest)
	}
	return rest[:n:n], rest[n:], true
}
