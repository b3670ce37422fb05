package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Response reads a non-streaming response or an error, with the same readers as the events of a stream.
func (p *anthropic) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 && p.settings.options.cloud == bedrock {
		return translate.AWSFailure(a, status, body)
	}
	if status >= 300 {
		return failure(json.Value(body).Get("error"), status)
	}
	r, m := &p.reader, &p.response
	r.Reset(body)
	r.Members(m, responseShape)
	if err := r.End(); err != nil {
		return err
	}
	if m.Kind(responseError) == json.Object {
		return failure(m.Raw(responseError), status)
	}
	if m.Kind(responseContent) != json.Array {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	startResponse(a, m, p.settings.options.format)
	m.Read(responseContent, r)
	key := int32(0)
	for list := r.Array(); list.Next(); key++ {
		b := p.readBlock(r)
		if err := b.emitBlock(a, key); err != nil {
			return err
		}
	}
	if key == 0 {
		// An empty response after a tool result is valid.
		a.Text(0, abi.EncodingUTF8, nil)
	}
	if stopReason := m.Inside(responseStopReason); len(stopReason) > 0 {
		emitFinish(a, stopReason)
	}
	a.Done()
	return nil
}

// The members of a response. The token counts come first, in the order of counts.
const (
	responseInput = iota
	responseOutput
	responseCacheRead
	responseCacheWrite
	responseThinking
	responseCacheWrite1h
	responseID
	responseModel
	responseContent
	responseStopReason
	responseError
	responseTier
	responseSpeed
)

var responseShape = json.NewShape("usage.input_tokens", "usage.output_tokens", "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens",
	"usage.output_tokens_details.thinking_tokens", "usage.cache_creation.ephemeral_1h_input_tokens", "id", "model", "content", "stop_reason", "error",
	"usage.service_tier", "usage.speed",
	// These are not used, but known members are skipped faster.
	"type", "role", "stop_sequence", "stop_details", "usage.inference_geo", "usage.cache_creation.ephemeral_5m_input_tokens")

var counts = [...]abi.UsageKind{
	responseInput: abi.UsagePrompt, responseOutput: abi.UsageCompletion, responseCacheRead: abi.UsageCachedBeside,
	responseCacheWrite: abi.UsageCacheWriteBeside, responseThinking: abi.UsageReasoning,
	responseCacheWrite1h: abi.UsageCacheWrite1h,
}

// startResponse reports the ID, model and usage of a response, and the format of its reasoning.
func startResponse(a *provider.Answer, m *json.Members, format string) {
	a.Start(provider.FitName(m.Text(responseID)), provider.FitName(m.Text(responseModel)), format)
	emitTier(a, m)
	for k, kind := range counts {
		if m.Has(k) {
			if n, ok := m.Int(k); ok {
				emitCount(a, kind, n)
			}
		}
	}
}

// emitTier reports the service tier of the response, unless it is the standard one. Fast mode is reported as a tier
// because it has its own prices.
func emitTier(a *provider.Answer, m *json.Members) {
	tier := m.Text(responseTier)
	if speed := m.Text(responseSpeed); string(speed) == "fast" {
		tier = speed
	}
	if len(tier) > 0 && string(tier) != "standard" {
		a.Extra(abi.ScopeAnswer, 0, 0, "service_tier", json.AppendString(nil, tier))
	}
}
