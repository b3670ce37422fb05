package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// API returns the Messages API. The sealer wraps reasoning of providers with other APIs on its way through the client.
func API(sealer *thinking.Sealer) *clientapi.API {
	return &clientapi.API{
		Name:         "messages",
		NewRequest:   func() clientapi.Request { return NewRequest(sealer) },
		NewRenderer:  func() clientapi.Renderer { return NewRenderer(sealer) },
		NewReader:    func() clientapi.Reader { return new(Reader) },
		AppendError:  AppendError,
		Status:       Status,
		AppendCount:  AppendCount,
		AppendCallID: appendToolUseID,
		PassedTexts:  passedTexts,
		Path:         path,
		Limit:        clientapi.LimitMembers{Names: []string{"max_tokens"}},
		Failure:      Failure,
		Heartbeat:    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		IDPrefix:     "msg_",
	}
}
