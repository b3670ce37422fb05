package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// API returns the Gemini API. The sealer wraps reasoning of providers with other APIs on its way through the client.
func API(sealer *thinking.Sealer) *clientapi.API {
	return &clientapi.API{
		Name:        "gemini",
		NewRequest:  func() clientapi.Request { return NewRequest(sealer) },
		NewRenderer: func() clientapi.Renderer { return NewRenderer(sealer) },
		NewReader:   func() clientapi.Reader { return new(Reader) },
		AppendError: AppendError,
		AppendCount: AppendCount,
		Limit: clientapi.LimitMembers{
			In: []string{"generationConfig", "generation_config"}, Names: []string{"maxOutputTokens", "max_output_tokens"},
		},
		Failure:     Failure,
		PassedTexts: passedTexts,
		Heartbeat:   "\n\n", // Google's clients treat an SSE comment as an error
		IDPrefix:    "resp_",
	}
}
