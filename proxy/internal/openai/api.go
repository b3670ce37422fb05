package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// API returns the chat completions API.
func API() *clientapi.API {
	return &clientapi.API{
		Name:        "chat",
		NewRequest:  func() clientapi.Request { return new(Request) },
		NewRenderer: func() clientapi.Renderer { return new(Renderer) },
		NewReader:   func() clientapi.Reader { return new(Reader) },
		AppendError: func(dst []byte, e *apierror.Error, _ string) []byte { return clientapi.AppendErrorBody(dst, e) },
		Limit:       clientapi.LimitMembers{Names: []string{"max_tokens", "max_completion_tokens"}},
		Failure:     native.Failure,
		Heartbeat:   ": keep-alive\n",
		IDPrefix:    "chatcmpl-",
	}
}

// Describe implements clientapi.Request.
func (r *Request) Describe() *clientapi.Facts { return &r.Facts }

// Document implements clientapi.Request.
func (r *Request) Document() (*jsondoc.Doc, []byte) { return &r.Doc, r.Body }

// AppendChat implements clientapi.Request. It copies the body, which is a chat completions request already.
func (r *Request) AppendChat(dst []byte) ([]byte, []clientapi.Warning, *apierror.Error) {
	return append(dst, r.Body...), nil, nil
}

// Origin implements clientapi.Request.
func (r *Request) Origin(path string) string { return path }

// Respond implements clientapi.Renderer. It does nothing, because responses repeat nothing of their requests.
func (r *Renderer) Respond(clientapi.Request) {}

// Pass implements clientapi.Renderer. It does nothing: responses of providers that speak chat completions are rendered
// like all others, which corrects members that these providers omit or write differently.
func (r *Renderer) Pass() {}

// Frame implements response.Renderer. It is never called, see Pass.
func (r *Renderer) Frame(name, data []byte) {}

// Reader implements clientapi.Reader. It produces no frames, see Renderer.Pass.
type Reader struct {
	native.Reader
	Options native.Options // used from the next Reset on
}

// Reset implements clientapi.Reader.
func (r *Reader) Reset(pass bool) { r.Reader.Reset(r.Options) }

// ReadEvent implements clientapi.Reader.
func (r *Reader) ReadEvent(_, data []byte, b *response.Batch) error { return r.ReadChunk(data, b) }
