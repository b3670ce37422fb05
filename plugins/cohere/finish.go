package cohere

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// emitFinish emits the finish reason. An end that is an error is the response's failure; reason and message are escaped
// string contents.
func emitFinish(a *provider.Answer, reason, message []byte) error {
	switch string(reason) {
	case "COMPLETE", "STOP_SEQUENCE":
		a.Finish(0, abi.FinishStop, nil)
	case "MAX_TOKENS":
		a.Finish(0, abi.FinishLength, nil)
	case "TOOL_CALL":
		a.Finish(0, abi.FinishToolCalls, nil)
	case "ERROR":
		return sdk.Fail(abi.FailServer, string(json.AppendText(nil, message)))
	case "TIMEOUT":
		return sdk.Fail(abi.FailTimeout, string(json.AppendText(nil, message)))
	case "":
	default:
		a.Finish(0, abi.FinishStop, provider.FitName(reason))
		a.Unknown(reason)
	}
	return nil
}

// maxCount bounds a token count; higher values are invalid.
const maxCount = 1 << 40

// emitUsage reads token counts. What the model saw and made is counted, and what is billed is what the response costs; it also counts
// where nothing else is given.
func emitUsage(a *provider.Answer, v json.Value) {
	var (
		r                      json.Reader
		billed, tokens, cached json.Value
	)
	r.Reset(v)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "tokens":
			tokens = r.Raw()
		case "billed_units":
			billed = r.Raw()
		case "cached_tokens":
			cached = r.Raw()
		}
	}
	if tokens.Kind() != json.Object {
		tokens, cached = billed, nil // what was cached is no part of what is billed
	}
	emitCount(a, abi.UsageCached, cached)
	r.Reset(tokens)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "input_tokens":
			emitCount(a, abi.UsagePrompt, r.Raw())
		case "output_tokens":
			emitCount(a, abi.UsageCompletion, r.Raw())
		case "reasoning_tokens":
			emitCount(a, abi.UsageReasoning, r.Raw())
		}
	}
	r.Reset(billed)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "input_tokens":
			emitCount(a, abi.UsageBilledPrompt, r.Raw())
		case "output_tokens":
			emitCount(a, abi.UsageBilledCompletion, r.Raw())
		}
	}
	if billed.Kind() == json.Object && !a.Extra(abi.ScopeUsage, 0, 0, "billed_units", billed) {
		a.Unknown([]byte("billed_units"))
	}
}

// emitCount reads a count of tokens, which the API's schema describes as a number of any form.
func emitCount(a *provider.Answer, kind abi.UsageKind, v json.Value) {
	if f, ok := v.Float(); ok && f >= 0 && f <= maxCount {
		a.Usage(kind, int64(f))
	}
}
