package cohere

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// emitFinish reports the finish reason. It returns a failure if the reason is an error. reason and message are escaped
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

// maxCount is the upper limit for a token count; higher values are invalid.
const maxCount = 1 << 40

// emitUsage reports token counts: the tokens that the model processed, and the billed ones, which determine the cost.
// If there is no count of the former, the billed tokens replace it.
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
		tokens, cached = billed, nil // billed tokens do not include cached ones
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

// emitCount reports a token count. According to the API's schema it may be a fraction.
func emitCount(a *provider.Answer, kind abi.UsageKind, v json.Value) {
	if f, ok := v.Float(); ok && f >= 0 && f <= maxCount {
		a.Usage(kind, int64(f))
	}
}
