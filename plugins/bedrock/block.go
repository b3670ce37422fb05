package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// readIndex reads a block index. It returns noBlock if the index is invalid.
func readIndex(r *json.Reader) int32 {
	if n, ok := r.Int(); ok && n >= 0 && n <= 1<<31-1 {
		return int32(n)
	}
	return noBlock
}

// blockIndex reads an event that contains only a block index.
func blockIndex(r *json.Reader) int32 {
	index := int32(0)
	for o := r.Object(); o.Next(); {
		if string(r.Name()) == "contentBlockIndex" {
			index = readIndex(r)
		}
	}
	return index
}

// call is a tool call: its start in a stream, or all of it in a non-streaming response.
type call struct {
	id, name, kind []byte
	input          json.Value
}

func readCall(r *json.Reader) (c call) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "toolUseId":
			c.id = r.Text()
		case "name":
			c.name = r.Text()
		case "type":
			c.kind = r.Text()
		case "input":
			c.input = r.Raw()
		}
	}
	return c
}

// beginBlock reads a contentBlockStart event.
func beginBlock(a *provider.Answer, r *json.Reader) error {
	index := int32(0)
	var c call
	var unknown []byte
	called := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "contentBlockIndex":
			index = readIndex(r)
		case "start":
			for o := r.Object(); o.Next(); {
				if name := r.Name(); string(name) == "toolUse" {
					called = r.Kind() == json.Object
					c = readCall(r)
				} else {
					unknown = name
				}
			}
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if called {
		return c.emitStart(a, index)
	}
	if unknown != nil {
		a.Unknown(unknown)
	}
	return nil
}

// emitStart emits the start of a tool call. It skips calls that the provider executes itself. A call of the forced tool
// becomes the text of the response.
func (c *call) emitStart(a *provider.Answer, index int32) error {
	if string(c.kind) == "server_tool_use" {
		a.Unknown(c.kind)
		return nil
	}
	if s := loadState(a); s.emulate {
		s.block, s.from = index, a.TextLength(0)
		s.save(a)
		return nil
	}
	if len(provider.FitName(c.name)) == 0 {
		return sdk.Fail(abi.FailBadToolCall, "The provider's response calls a tool without a valid name.")
	}
	a.ToolCall(0, index, provider.FitName(c.id), c.name)
	return nil
}

// endBlock completes a block.
func endBlock(a *provider.Answer, index int32) {
	a.ToolEnd(0, index)
	s := loadState(a)
	if s.redactedBlock == index {
		s.flushRedacted(a)
	}
	if s.emulate && s.block == index && a.TextLength(0) == s.from {
		// A forced tool call without input is an empty object.
		a.Text(0, abi.EncodingUTF8, []byte("{}"))
	}
}

// emitReasoning emits a piece of reasoning. text and signature are escaped string contents.
func emitReasoning(a *provider.Answer, index int32, text, signature []byte) {
	if len(text) > 0 {
		a.Reasoning(0, abi.ReasoningText, index, abi.EncodingEscaped, text)
	}
	if len(signature) > 0 {
		a.Reasoning(0, abi.ReasoningSignature, index, abi.EncodingEscaped, signature)
	}
}

// emitRedacted emits redacted reasoning: all of a block if whole, otherwise a piece. The provider encodes each piece in
// base64 separately, so pieces are decoded before they are joined. Claude's redacted reasoning is text, which the
// client receives as from Anthropic's own API. Other models' is binary, which the client receives as one base64 string.
func emitRedacted(a *provider.Answer, index int32, inside []byte, whole bool) error {
	encoded := json.AppendText(nil, inside)
	if !translate.ValidBase64(encoded) {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	s := loadState(a)
	switch {
	case s.family == claude:
		data := appendDecoded(nil, encoded)
		if !plainText(data) {
			a.Unknown([]byte("redactedContent"))
			return nil
		}
		a.Reasoning(0, abi.ReasoningEncrypted, index, abi.EncodingUTF8, data)
		return nil
	case whole:
		a.Reasoning(0, abi.ReasoningEncrypted, index, abi.EncodingUTF8, encoded)
		return nil
	}
	if s.redactedBlock != index {
		s.flushRedacted(a)
	}
	data := appendDecoded(append([]byte(nil), s.rest...), encoded)
	groups := len(data) / 3 * 3
	if groups > 0 {
		a.Reasoning(0, abi.ReasoningEncrypted, index, abi.EncodingUTF8, appendEncoded(nil, data[:groups]))
	}
	s.redactedBlock, s.rest = index, data[groups:]
	s.save(a)
	return nil
}

// flushRedacted emits the remaining bytes of a redacted block.
func (s *state) flushRedacted(a *provider.Answer) {
	if len(s.rest) == 0 {
		return
	}
	a.Reasoning(0, abi.ReasoningEncrypted, s.redactedBlock, abi.EncodingUTF8, appendEncoded(nil, s.rest))
	s.rest = nil
	s.save(a)
}

// emitFinish reports the finish reason, with the provider's own reason if it is more specific. Malformed output is a
// failure, because the client must not receive it as a valid response.
func emitFinish(a *provider.Answer, reason []byte) error {
	switch string(reason) {
	case "end_turn", "stop_sequence", "tool_use":
		// The gateway turns stop into tool_calls if it has emitted a call. The reason tool_use is no evidence of one,
		// because the call may be one that the provider executes, or of the forced tool.
		a.Finish(0, abi.FinishStop, nil)
	case "max_tokens":
		a.Finish(0, abi.FinishLength, nil)
	case "model_context_window_exceeded":
		a.Finish(0, abi.FinishLength, reason)
	case "content_filtered", "guardrail_intervened":
		a.Finish(0, abi.FinishContentFilter, reason)
	case "malformed_tool_use":
		return sdk.Fail(abi.FailBadToolCall, "")
	case "malformed_model_output":
		return sdk.Fail(abi.FailBadAnswer, "The model's output could not be read.")
	default:
		a.Finish(0, abi.FinishStop, provider.FitName(reason))
		a.Unknown(reason)
	}
	return nil
}

// plainText reports whether p is printable ASCII.
func plainText(p []byte) bool {
	for _, c := range p {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
