package plugindev

import (
	"bytes"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// findAPI returns the API with the name of a form, nil for a name that is not one.
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
		return documentAPI(form)
	}
	return nil
}

// CheckRequest tells why the gateway would refuse a client's request in a form before any plugin gets it; nil if it would not.
func CheckRequest(form string, body []byte) error {
	api := findAPI(form)
	if api == nil {
		return fmt.Errorf("unknown form %s", form)
	}
	if e := api.NewRequest().Parse(bytes.Clone(body), clientapi.Limits{}); e != nil {
		return e
	}
	return nil
}

// clientAPI returns the API with the name of a form as a client of it knows it.
func clientAPI(form string) *clientapi.API {
	if form != "responses" {
		return findAPI(form)
	}
	return responses.API(responses.Options{
		Sealer: thinking.NewSealer(make([]byte, 32)), Failure: native.Failure, Now: func() time.Time { return time.Unix(testCreated, 0) },
	})
}

// streams reports whether the responses to requests in a form can be streams.
func streams(form string) bool {
	return form != "embeddings" && form != "moderations" && form != "rerank"
}

// documentAPI is an API of whose requests this package knows only that they are JSON documents. Responses are not read.
func documentAPI(name string) *clientapi.API {
	api := openai.API()
	api.Name, api.NewRequest, api.NewReader = name, func() clientapi.Request { return new(document) }, nil
	return api
}

// document is a request of documentAPI. Methods that vectors do not need are missing.
type document struct {
	clientapi.Request
	doc   jsondoc.Doc
	body  []byte
	facts clientapi.Facts
}

func (d *document) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	if err := d.doc.Parse(body, l.Document()); err != nil {
		return apierror.Fail(abi.FailInvalidRequest, "", "", err.Error())
	}
	stream, _ := d.doc.Root().Get("stream").Bool()
	d.body, d.facts = body, clientapi.Facts{Model: d.doc.Root().Get("model").Text(), Stream: stream, N: 1}
	return nil
}

func (d *document) Describe() *clientapi.Facts { return &d.facts }

func (d *document) Document() (*jsondoc.Doc, []byte) { return &d.doc, d.body }

// dialectAPI returns the API that the gateway reads the response to a request in a form of, nil if the plugin reads it.
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
		return clientAPI("responses")
	}
	return nil
}

// openReader prepares to read a response of an API. The client whose own document the upstream was sent gets the events as they come.
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
