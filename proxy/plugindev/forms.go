package plugindev

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// findAPI returns the API of a form, or nil if there is no form with that name.
func findAPI(form string) *clientapi.API {
	switch form {
	case "", "chat":
		return openai.API()
	case "completions":
		return calls.Completions(native.Failure)
	case "embeddings":
		return calls.Embeddings(native.Failure)
	case "moderations":
		return calls.Moderations(native.Failure)
	case "rerank":
		return calls.Rerank(native.Failure)
	case "messages":
		return messages.API(thinking.NewSealer(make([]byte, 32)))
	case "responses":
		return responses.API(responses.Options{Sealer: thinking.NewSealer(make([]byte, 32)), Failure: native.Failure, Now: func() time.Time { return time.Unix(testCreated, 0) }})
	case "gemini":
		return gemini.API(thinking.NewSealer(make([]byte, 32)))
	}
	return nil
}

// CheckRequest returns the error with which the gateway would reject a client's request in a form before it reaches
// a plugin, or nil if it would not.
func CheckRequest(form string, body []byte) error {
	api := findAPI(form)
	if api == nil {
		return fmt.Errorf("unknown form %s", form)
	}
	if e := newRequest(api, false).Parse(bytes.Clone(body), clientapi.Limits{}); e != nil {
		return e
	}
	return nil
}

// streams reports whether the responses to requests in a form can be streams.
func streams(form string) bool {
	return form != "embeddings" && form != "moderations" && form != "rerank"
}

// newRequest returns an empty request of an API. If the API takes the model and the kind of response from the path,
// they are m, the model of all vectors, and stream.
func newRequest(api *clientapi.API, stream bool) clientapi.Request {
	r := api.NewRequest()
	if addressed, ok := r.(clientapi.AddressedRequest); ok {
		addressed.Address("m", stream)
	}
	return r
}

// dialectAPI returns the API with which the gateway itself reads the response to a request in a form, or nil if the
// plugin reads it.
func dialectAPI(d abi.Dialect, form string) *clientapi.API {
	switch d {
	case abi.DialectOpenAI:
		switch form {
		case "completions", "embeddings", "moderations", "rerank":
			return findAPI(form)
		}
		return findAPI("chat")
	case abi.DialectMessages:
		return findAPI("messages")
	case abi.DialectResponses:
		return findAPI("responses")
	case abi.DialectGemini:
		return findAPI("gemini")
	}
	return nil
}

// openReader prepares to read a response of an API. If the upstream got the client's own document, events are passed on
// unchanged.
func (r *run) openReader(api *clientapi.API) {
	r.reader = api.NewReader()
	if chat, ok := r.reader.(*openai.Reader); ok {
		chat.Options = r.attempt.DialectOptions
	}
	pass := api.Name == r.v.Form
	if pass {
		r.renderer.Pass()
	}
	r.reader.Reset(pass)
}
