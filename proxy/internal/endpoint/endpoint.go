// Package endpoint interprets the head of a request: which endpoint it is for (Match), in which client API (GuessAPI,
// if nothing else is known), whether the head is well-formed, and its request ID, trace context and requested betas. It
// also words the errors for requests that match no endpoint.
//
// Heads are checked as received, byte for byte, before the body is read. Authentication, keys and the type of the body
// are up to package admission, and serving the request is up to package proxy.
//
// Concurrency: functions only. Byte slices that they return belong to the head.
package endpoint

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// ID identifies an endpoint.
type ID uint8

// The endpoints. Other packages distinguish them by their Service.
const (
	Unknown         ID = iota
	unknownMessages    // below the path of Messages
	completions
	messagesCompletions
	messagesCount
	unknownResponses // below the path of Responses
	responsesCompletions
	responsesSocket
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
	geminiEmbed
	geminiEmbedBatch
	cohereEmbed
	cohereEmbedV1
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
	pathEmbed       = "/v2/embed"
	pathEmbedV1     = "/v1/embed"
	pathGemini      = "/v1beta/models"
)

// The methods of a model in the Gemini API, which follow its name in the path.
const (
	callContent = ":generateContent"
	callStream  = ":streamGenerateContent"
	callCount   = ":countTokens"
	callEmbed   = ":embedContent"
	callBatch   = ":batchEmbedContents"
)

// endpoints holds each endpoint's path as logged, its methods, its API, and how its requests are served.
var endpoints = [...]struct {
	path, allow string
	api         clientapi.ID
	service     Service
}{
	Unknown:              {},
	unknownMessages:      {api: clientapi.Messages},
	completions:          {pathCompletions, "POST", clientapi.Chat, Completion},
	messagesCompletions:  {pathMessages, "POST", clientapi.Messages, Completion},
	messagesCount:        {pathMessages + "/count_tokens", "POST", clientapi.Messages, TokenCount},
	unknownResponses:     {api: clientapi.Responses},
	responsesCompletions: {pathResponses, "POST", clientapi.Responses, Completion},
	responsesSocket:      {pathResponses, "GET", clientapi.Responses, Socket},
	responsesCount:       {pathResponses + "/input_tokens", "POST", clientapi.Responses, TokenCount},
	storedResponse:       {pathResponses + "/{id}", "GET, HEAD, DELETE", clientapi.Responses, StoredResponse},
	storedItems:          {pathResponses + "/{id}/input_items", "GET, HEAD", clientapi.Responses, StoredItems},
	cancelResponse:       {pathResponses + "/{id}/cancel", "POST", clientapi.Responses, CancelStored},
	embeddings:           {pathEmbeddings, "POST", clientapi.Embeddings, Completion},
	rerank:               {pathRerank, "POST", clientapi.Rerank, Completion},
	rerankV2:             {pathRerankV2, "POST", clientapi.Rerank, Completion},
	legacyCompletions:    {pathLegacy, "POST", clientapi.LegacyCompletions, Completion},
	moderations:          {pathModerations, "POST", clientapi.Moderations, Completion},
	modelList:            {pathModels, "GET, HEAD", clientapi.Chat, ModelList},
	oneModel:             {pathModels + "/{id}", "GET, HEAD", clientapi.Chat, OneModel},
	unknownGemini:        {api: clientapi.Gemini},
	geminiContent:        {pathGemini + "/{model}" + callContent, "POST", clientapi.Gemini, Completion},
	geminiStream:         {pathGemini + "/{model}" + callStream, "POST", clientapi.Gemini, Completion},
	geminiCount:          {pathGemini + "/{model}" + callCount, "POST", clientapi.Gemini, TokenCount},
	geminiModelList:      {pathGemini, "GET, HEAD", clientapi.Gemini, ModelList},
	geminiModel:          {pathGemini + "/{id}", "GET, HEAD", clientapi.Gemini, OneModel},
	geminiEmbed:          {pathGemini + "/{model}" + callEmbed, "POST", clientapi.GeminiEmbed, Completion},
	geminiEmbedBatch:     {pathGemini + "/{model}" + callBatch, "POST", clientapi.GeminiEmbedBatch, Completion},
	cohereEmbed:          {pathEmbed, "POST", clientapi.CohereEmbed, Completion},
	cohereEmbedV1:        {pathEmbedV1, "POST", clientapi.CohereEmbedV1, Completion},
}

// Service is the way in which requests to an endpoint are served.
type Service uint8

// The services.
const (
	Nothing        Service = iota // there is no such endpoint
	Completion                    // as a completion
	TokenCount                    // as a completion, but without attempts
	StoredResponse                // from stored responses
	StoredItems                   // from the input that is stored with a response
	CancelStored                  // with an error, because a stored response has ended
	ModelList
	OneModel
	Socket // as a WebSocket, whose messages are requests
)

// Path returns the endpoint's path as logged, with a name in braces for each variable part; "" for Unknown.
func (id ID) Path() string { return endpoints[id].path }

// API returns the endpoint's client API.
func (id ID) API() clientapi.ID { return endpoints[id].api }

// Service returns how requests to the endpoint are served.
func (id ID) Service() Service { return endpoints[id].service }

// HasBody reports whether requests to the endpoint have a body.
func (id ID) HasBody() bool {
	return endpoints[id].service == Completion || endpoints[id].service == TokenCount
}

// Streams reports whether responses of the endpoint are always streams, whatever the body says.
func (id ID) Streams() bool { return id == geminiStream }

// Completions returns the endpoint for completions of an API, or the first of several.
func Completions(api clientapi.ID) ID {
	id := Unknown
	for endpoints[id].api != api || endpoints[id].service != Completion {
		id++ // ends, because each API has one
	}
	return id
}

// allows reports whether the endpoint supports a method.
func (id ID) allows(method []byte) bool {
	for allowed := range strings.SplitSeq(endpoints[id].allow, ", ") {
		if string(method) == allowed {
			return true
		}
	}
	return false
}
