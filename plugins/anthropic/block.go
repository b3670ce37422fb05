package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// content is a block of a response: its start in a stream, or all of it in a non-streaming response. Strings are
// escaped string contents, except id and name.
type content struct {
	kind, text, thinking, signature, data, id, name []byte
	input, citations                                json.Value
}

// The members of a block.
const (
	blockType = iota
	blockText
	blockThinking
	blockSignature
	blockData
	blockID
	blockName
	blockInput
	blockCitations
)

var blockShape = json.NewShape("type", "text", "thinking", "signature", "data", "id", "name", "input", "citations")

// readBlock reads the block at the position of r.
func (p *anthropic) readBlock(r *json.Reader) content {
	m := &p.block
	r.Members(m, blockShape)
	return content{
		kind: m.Inside(blockType), text: m.Inside(blockText), thinking: m.Inside(blockThinking), signature: m.Inside(blockSignature),
		data: m.Inside(blockData), id: m.Text(blockID), name: m.Text(blockName), input: m.Raw(blockInput), citations: m.Raw(blockCitations),
	}
}

// emitStart emits the content in the start of a block.
func (b *content) emitStart(a *provider.Answer, key int32) error {
	switch string(b.kind) {
	case "text":
		if len(b.text) > 0 {
			a.Text(0, abi.EncodingEscaped, b.text)
		}
	case "thinking":
		if len(b.thinking) > 0 {
			a.Reasoning(0, abi.ReasoningText, key, abi.EncodingEscaped, b.thinking)
		}
		if len(b.signature) > 0 {
			a.Reasoning(0, abi.ReasoningSignature, key, abi.EncodingEscaped, b.signature)
		}
	case "redacted_thinking":
		if len(b.data) > 0 {
			a.Reasoning(0, abi.ReasoningEncrypted, key, abi.EncodingEscaped, b.data)
		}
	case "tool_use":
		return b.emitCallStart(a, key)
	default:
		a.Unknown(b.kind)
	}
	return nil
}

// emitCallStart emits a tool call. In a stream, its input is usually empty at the start of the block and follows in
// pieces; some hosts of the API send it complete.
func (b *content) emitCallStart(a *provider.Answer, key int32) error {
	whole := b.input.Kind() == json.Object && !translate.EmptyObject(b.input)
	if s := loadState(a); s.emulate {
		s = state{emulate: true, whole: whole, block: key, from: a.TextLength(0)}
		s.save(a)
		if whole {
			a.Text(0, abi.EncodingJSON|abi.EncodingDefault, b.input)
		}
		return nil
	}
	if len(provider.FitName(b.name)) == 0 {
		return sdk.Fail(abi.FailBadToolCall, "The provider's response calls a tool without a valid name.")
	}
	a.ToolCall(0, key, provider.FitName(b.id), b.name)
	if whole {
		a.ToolArguments(0, key, abi.EncodingJSON|abi.EncodingDefault, b.input)
	}
	return nil
}

// endBlock completes a block.
func endBlock(a *provider.Answer, key int32) {
	a.ToolEnd(0, key)
	s := loadState(a)
	if s.block != key {
		return
	}
	switch {
	case len(s.cited) > 0:
		emitAnnotations(a, wrapArray(s.cited), s.from)
		s.cited = nil
		s.save(a)
	case s.emulate && !s.whole && a.TextLength(0) == s.from:
		// A forced tool call without input is an empty object.
		a.Text(0, abi.EncodingUTF8, []byte("{}"))
	}
}

// emitBlock emits a block of a non-streaming response.
func (b *content) emitBlock(a *provider.Answer, key int32) error {
	switch string(b.kind) {
	case "text":
		if b.citations.Kind() != json.Array {
			return b.emitStart(a, key)
		}
		from := a.TextLength(0)
		if err := b.emitStart(a, key); err != nil {
			return err
		}
		emitAnnotations(a, b.citations, from)
		return nil
	case "tool_use":
		if loadState(a).emulate {
			if b.input.Kind() == json.Object {
				a.Text(0, abi.EncodingJSON, b.input)
			}
			return nil
		}
	}
	err := b.emitStart(a, key)
	a.ToolEnd(0, key)
	return err
}
