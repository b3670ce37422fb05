package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// API returns the Gemini API. Reasoning of other origins goes through its clients in seals of sealer.
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
		Heartbeat:   "\n\n", // Google's clients take a comment for an error
		IDPrefix:    "resp_",
	}
}
