package exchange

import (
	"sync"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// API is an API that clients can use, with the pools of objects that serve its requests.
type API struct {
	*clientapi.API
	ID             clientapi.ID
	Form           abi.Forms    // form of its requests for plugins
	dialect        abi.Dialect  // dialect of a provider's response in this API
	Kind           config.Kinds // kind of models that serve its requests; Init sets chat if unset
	IDHeader       string       // response header for the request's ID besides x-request-id; "" for none
	HeartbeatChunk []byte       // API.Heartbeat as an HTTP chunk

	// Objects are reset before they are put into a pool.
	requests   sync.Pool // clientapi.Request
	workspaces sync.Pool // *workspace
}

// APIs holds all APIs, indexed by their IDs.
type APIs [clientapi.NumAPIs]API

// StatusOf returns the HTTP status of an error response.
func (a *API) StatusOf(e *apierror.Error) int {
	if a.Status == nil {
		return e.Status
	}
	return a.Status(e)
}

// GetRequest returns a request from the pool. PutRequest gives it back.
func (a *API) GetRequest() clientapi.Request {
	if r, ok := a.requests.Get().(clientapi.Request); ok {
		return r
	}
	return a.NewRequest()
}

// PutRequest clears r and puts it back into the pool.
func (a *API) PutRequest(r clientapi.Request) {
	r.Reset()
	a.requests.Put(r)
}

// Init sets up all APIs.
func (a *APIs) Init(o responses.Options) {
	o.Failure = native.Failure
	a[clientapi.Chat].API, a[clientapi.Chat].Form, a[clientapi.Chat].dialect = openai.API(), abi.FormChat, abi.DialectOpenAI
	a[clientapi.Messages].API, a[clientapi.Messages].Form, a[clientapi.Messages].dialect = messages.API(o.Sealer), abi.FormMessages, abi.DialectMessages
	a[clientapi.Messages].IDHeader = "request-id"
	a[clientapi.Responses].API = responses.API(o)
	a[clientapi.Responses].Form, a[clientapi.Responses].dialect = abi.FormResponses, abi.DialectResponses
	a[clientapi.Embeddings] = API{API: calls.Embeddings(native.Failure), Form: abi.FormEmbeddings, Kind: config.KindEmbeddings, dialect: abi.DialectOpenAI}
	a[clientapi.Rerank] = API{API: calls.Rerank(native.Failure), Form: abi.FormRerank, Kind: config.KindRerank, dialect: abi.DialectOpenAI}
	a[clientapi.LegacyCompletions] = API{API: calls.Completions(native.Failure), Form: abi.FormCompletions, Kind: config.KindCompletions, dialect: abi.DialectOpenAI}
	a[clientapi.Moderations] = API{API: calls.Moderations(native.Failure), Form: abi.FormModerations, Kind: config.KindModerations, dialect: abi.DialectOpenAI}
	a[clientapi.Gemini].API, a[clientapi.Gemini].Form, a[clientapi.Gemini].dialect = gemini.API(o.Sealer), abi.FormGemini, abi.DialectGemini
	for id, api := range map[clientapi.ID]*clientapi.API{
		clientapi.GeminiEmbed:      calls.GeminiEmbed(native.Failure, a[clientapi.Gemini].API),
		clientapi.GeminiEmbedBatch: calls.GeminiEmbedBatch(native.Failure, a[clientapi.Gemini].API),
		clientapi.CohereEmbed:      calls.CohereEmbed(native.Failure),
		clientapi.CohereEmbedV1:    calls.CohereEmbedV1(native.Failure),
	} {
		a[id] = API{API: api, Form: abi.FormEmbeddings, Kind: config.KindEmbeddings, dialect: abi.DialectOpenAI}
	}
	for id := range a {
		if a[id].Kind == 0 {
			a[id].Kind = config.KindChat
		}
		a[id].ID, a[id].HeartbeatChunk = clientapi.ID(id), chunked.Append(nil, a[id].Heartbeat)
	}
}

// ByDialect returns the API in which a provider responds to a request in the API requested, or nil if the plugin
// translates the response. Several APIs share the dialect of OpenAI, so the requested API takes precedence.
func (a *APIs) ByDialect(d abi.Dialect, requested *API) *API {
	if d != abi.DialectTranslated && requested.dialect == d {
		return requested
	}
	for id := range a {
		if d != abi.DialectTranslated && a[id].dialect == d {
			return &a[id]
		}
	}
	return nil
}
