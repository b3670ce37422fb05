package provider

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// finishReasons maps the finish reasons of upstream APIs, in lower case, to those of the ABI.
var finishReasons = [...]struct {
	native string
	reason abi.FinishReason
}{
	{"stop", abi.FinishStop}, {"end_turn", abi.FinishStop}, {"complete", abi.FinishStop}, {"completed", abi.FinishStop}, {"stop_sequence", abi.FinishStop},
	{"eos", abi.FinishStop}, {"eos_token", abi.FinishStop}, {"done", abi.FinishStop},
	{"length", abi.FinishLength}, {"max_tokens", abi.FinishLength}, {"max_output_tokens", abi.FinishLength}, {"model_length", abi.FinishLength},
	{"model_context_window_exceeded", abi.FinishLength},
	{"tool_calls", abi.FinishToolCalls}, {"tool_call", abi.FinishToolCalls}, {"tool_use", abi.FinishToolCalls}, {"function_call", abi.FinishToolCalls},
	{"content_filter", abi.FinishContentFilter}, {"content_filtered", abi.FinishContentFilter}, {"safety", abi.FinishContentFilter}, {"refusal", abi.FinishContentFilter},
	{"guardrail_intervened", abi.FinishContentFilter}, {"recitation", abi.FinishContentFilter}, {"prohibited_content", abi.FinishContentFilter},
}

// FinishReason maps an upstream's finish reason to the ABI's, ignoring case: "end_turn", "MAX_TOKENS", "tool_use" and
// others. For a reason that it does not know it returns abi.FinishStop, false.
func FinishReason(native []byte) (reason abi.FinishReason, known bool) {
	for i := range finishReasons {
		if f := &finishReasons[i]; len(f.native) == len(native) && bytes.EqualFold(native, []byte(f.native)) {
			return f.reason, true
		}
	}
	return abi.FinishStop, false
}
