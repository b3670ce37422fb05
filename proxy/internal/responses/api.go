package responses

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// Options are the settings and shared parts of the API.
type Options struct {
	Sealer *thinking.Sealer
	Memory *Memory // nil disables storing responses

	// ShowReasoning adds the text of reasoning, as the content of its item, for clients that do not ask for a summary.
	ShowReasoning bool

	// Failure reads a provider's error response in the format of the OpenAI APIs. The status 0 means an error inside a
	// response that started with a success status.
	Failure func(status int, body []byte) *apierror.Error

	Now func() time.Time // nil: time.Now
}

// API returns the Responses API.
func API(o Options) *clientapi.API {
	if o.Now == nil {
		o.Now = time.Now
	}
	var store Store
	if o.Memory != nil {
		store = o.Memory
	}
	return &clientapi.API{
		Name:         "responses",
		NewRequest:   func() clientapi.Request { return NewRequest(o.Sealer, store) },
		NewRenderer:  func() clientapi.Renderer { return NewRenderer(o) },
		NewReader:    func() clientapi.Reader { return NewReader(o.Failure) },
		AppendError:  func(dst []byte, e *apierror.Error, _ string) []byte { return clientapi.AppendErrorBody(dst, e) },
		AppendCount:  AppendCount,
		AppendCallID: appendCallID,
		PassedTexts:  passedTexts,
		Limit:        clientapi.LimitMembers{Names: []string{"max_output_tokens"}},
		Failure:      o.Failure,
		Heartbeat:    ": keep-alive\n\n",
		IDPrefix:     responsePrefix,
	}
}

// NewRenderer returns a renderer.
func NewRenderer(o Options) clientapi.Renderer {
	if o.Now == nil {
		o.Now = time.Now
	}
	return clientapi.InOrder(&renderer{sealer: o.Sealer, memory: o.Memory, showReasoning: o.ShowReasoning, now: o.Now, current: -1, deltaItem: -1})
}
