package responses

import (
	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// Options is what the API shares with the rest of the gateway.
type Options struct {
	Sealer *thinking.Sealer
	Memory *Memory // nil: no response is kept

	// ShowReasoning shows the text of reasoning, as the content of its item, to clients that have not asked for a summary.
	ShowReasoning bool

	// Failure reads a provider's error response, in the form that the APIs of OpenAI have in common; with the status 0, an error in
	// a response that began well.
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
		Name:        "responses",
		NewRequest:  func() clientapi.Request { return NewRequest(o.Sealer, store) },
		NewRenderer: func() clientapi.Renderer { return NewRenderer(o) },
		NewReader:   func() clientapi.Reader { return NewReader(o.Failure) },
		AppendError: func(dst []byte, e *apierror.Error, _ string) []byte { return clientapi.AppendErrorBody(dst, e) },
		AppendCount: appendCount,
		PassedTexts: passedTexts,
		Limit:       clientapi.LimitMembers{Names: []string{"max_output_tokens"}},
		Failure:     o.Failure,
		Heartbeat:   ": keep-alive\n\n",
		IDPrefix:    responsePrefix,
	}
}

// NewRenderer returns a renderer.
func NewRenderer(o Options) *Renderer {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Renderer{sealer: o.Sealer, memory: o.Memory, showReasoning: o.ShowReasoning, now: o.Now, current: -1, deltas: -1}
}

// appendCount appends the response to a request for the number of its tokens.
func appendCount(dst []byte, tokens int64) []byte {
	dst = strconv.AppendInt(append(dst, `{"object":"response.input_tokens","input_tokens":`...), tokens, 10)
	return append(dst, '}')
}
