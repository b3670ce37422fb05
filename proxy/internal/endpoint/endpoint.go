// Package endpoint reads what the head of a request says: which endpoint it is for (Match), in which client API (GuessAPI, where nothing
// else is known), whether the head is well-formed, and what else the gateway takes from it: the request's ID, its trace context and
// the betas that it asks for. It words the refusal of a request that no endpoint takes.
//
// Heads are judged as they came, byte for byte, before the body is read. Who may come in, keys and the body's type are those of package
// admission; how a request is served is that of package proxy.
//
// Concurrency: functions only. What they return of a head, other than strings, is the head's own.
package endpoint

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// ID is an endpoint: what a request is for.
type ID uint8

// The endpoints. Elsewhere they are told apart by their Service.
const (
	Unknown         ID = iota
	unknownMessages    // below the path of Messages
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
	service     Service
}{
	Unknown:              {},
	unknownMessages:      {api: clientapi.Messages},
	completions:          {pathCompletions, "POST", clientapi.Chat, Completion},
	messagesCompletions:  {pathMessages, "POST", clientapi.Messages, Completion},
	messagesCount:        {pathMessages + "/count_tokens", "POST", clientapi.Messages, TokenCount},
	unknownResponses:     {api: clientapi.Responses},
	responsesCompletions: {pathResponses, "POST", clientapi.Responses, Completion},
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
}

// Service is how the requests of an endpoint are served.
type Service uint8

// The services.
const (
	Nothing        Service = iota // the endpoint is none
	Completion                    // as a completion
	TokenCount                    // as a completion, but for the attempts
	StoredResponse                // from what is kept of responses
	StoredItems                   // from the input that is kept with them
	CancelStored                  // with a refusal: what is kept has ended
	ModelList
	OneModel
)

// Path is the endpoint's path, as the log names it: with a word in braces for what differs between requests. "" for Unknown.
func (id ID) Path() string { return endpoints[id].path }

// API is the client API that the endpoint is of.
func (id ID) API() clientapi.ID { return endpoints[id].api }

// Service is how its requests are served.
func (id ID) Service() Service { return endpoints[id].service }

// HasBody reports whether its requests have a body that counts.
func (id ID) HasBody() bool {
	return endpoints[id].service == Completion || endpoints[id].service == TokenCount
}

// Streams reports whether its responses are streams, whatever the body says.
func (id ID) Streams() bool { return id == geminiStream }

// Completions is the endpoint for completions of an API: the first, where there are several.
func Completions(api clientapi.ID) ID {
	id := Unknown
	for endpoints[id].api != api || endpoints[id].service != Completion {
		id++ // each API has one
	}
	return id
}

// allows reports whether the endpoint takes a method.
func (id ID) allows(method []byte) bool {
	for allowed := range strings.SplitSeq(endpoints[id].allow, ", ") {
		if string(method) == allowed {
			return true
		}
	}
	return false
}
