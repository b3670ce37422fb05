package calls

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Failure parses a provider's error response in the OpenAI format. It becomes the field Failure of the API.
type Failure func(status int, body []byte) *apierror.Error

// call is one of the APIs.
type call struct {
	name     string
	idPrefix string
	request  func(r *Request, root jsondoc.Value, l *clientapi.Limits) *apierror.Error // reads and checks a request
	response func(r *reader, root jsondoc.Value) error                                 // reads and checks a response
}

var (
	embeddings  = &call{"embeddings", "embd-", (*Request).readEmbeddings, (*reader).readEmbeddings}
	rerank      = &call{"rerank", "rerank-", (*Request).readRerank, (*reader).readRanks}
	completions = &call{"completions", "cmpl-", (*Request).readCompletion, (*reader).readChoices}
	moderations = &call{"moderations", "modr-", (*Request).readModeration, (*reader).readResults}
)

// Embeddings returns the embeddings API of OpenAI.
func Embeddings(f Failure) *clientapi.API { return embeddings.api(f) }

// Rerank returns the rerank API of Cohere.
func Rerank(f Failure) *clientapi.API { return rerank.api(f) }

// Completions returns the legacy completions API of OpenAI.
func Completions(f Failure) *clientapi.API {
	api := completions.api(f)
	api.Limit.Names = []string{"max_tokens"}
	return api
}

// Moderations returns the moderations API of OpenAI.
func Moderations(f Failure) *clientapi.API { return moderations.api(f) }

func (c *call) api(f Failure) *clientapi.API {
	return &clientapi.API{
		Name:        c.name,
		NewRequest:  func() clientapi.Request { return &Request{call: c} },
		NewRenderer: func() clientapi.Renderer { return &Renderer{call: c} },
		NewReader:   func() clientapi.Reader { return &reader{call: c, failure: f} },
		AppendError: func(dst []byte, e *apierror.Error, _ string) []byte { return clientapi.AppendErrorBody(dst, e) },
		PassedTexts: passedTexts,
		Failure:     f,
		Heartbeat:   ": keep-alive\n",
		IDPrefix:    c.idPrefix,
	}
}
