package messages

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// outKind is the kind of a block of a response.
type outKind uint8

const (
	outText outKind = iota
	outRefusal
	outThinking
	outRedacted
	outToolUse
)

// outBlock is a block of the response. Texts are still escaped: the inside of JSON strings.
type outBlock struct {
	kind outKind
	key  int32             // key of the reasoning
	part abi.ReasoningPart // kind of readable reasoning: text or summary
	call int32             // index in renderer.calls of an outToolUse block

	sealed   bool              // the block has a signature or encrypted data
	sealKind abi.ReasoningPart // kind of seal: a signature, or encrypted reasoning
	seal     []byte            // the signature or data; once the block is closed, as the client receives it

	text []byte // non-streaming only
}

// toolUse is a tool call. ID and name are still escaped: the inside of JSON strings.
type toolUse struct {
	key      int32
	id, name []byte
	args     arguments
	text     []byte // the arguments of a call in a non-streaming response
}

// blockSize is the approximate size of a block in memory without its texts.
const blockSize = 160

// beginBlock adds an open block to the message.
func (r *renderer) beginBlock(kind outKind, key int32) *outBlock {
	r.writeMessageStart()
	r.open = true
	n := len(r.blocks)
	if n == cap(r.blocks) {
		r.blocks = append(r.blocks, outBlock{})
	} else {
		r.blocks = r.blocks[:n+1]
	}
	b := &r.blocks[n]
	*b = outBlock{kind: kind, key: key, text: response.Reuse(b.text), seal: response.Reuse(b.seal)}
	if !r.head.Stream {
		r.out.Held += blockSize
	}
	return b
}

// last returns the newest block, and lastIndex its index in the message.
func (r *renderer) last() *outBlock { return &r.blocks[len(r.blocks)-1] }

func (r *renderer) lastIndex() int { return r.first + len(r.blocks) - 1 }

// writePiece writes a piece of text to the open block, or to a new block if the open one does not match kind, key
// and part. part is only used for reasoning.
func (r *renderer) writePiece(kind outKind, key int32, part abi.ReasoningPart, s []byte) {
	b := r.textBlock(kind, key, part)
	b.text = r.writeDelta(b.text, s)
}

// writeDelta writes a piece of the text of the open block or, if the response is non-streaming, appends it to text.
func (r *renderer) writeDelta(text, s []byte) []byte {
	if !r.head.Stream {
		r.out.Held += len(s)
		return append(text, s...)
	}
	dst := append(append(r.out.Buf, r.prefix...), s...)
	r.out.Buf = append(dst, `"}}`+"\n\n"...)
	return text
}

// textBlock returns the open block if it matches kind, key and part, or begins a new one.
func (r *renderer) textBlock(kind outKind, key int32, part abi.ReasoningPart) *outBlock {
	if r.open {
		if b := r.last(); b.kind == kind && b.key == key && b.part == part && !b.sealed {
			return b
		}
	}
	r.closeOpen()
	b := r.beginBlock(kind, key)
	b.part = part
	if r.head.Stream {
		r.writeStart(b)
	}
	return b
}

// sealedBlock returns the block that a piece of a signature or of encrypted reasoning belongs to: the open block of the
// same reasoning unless it already has another kind of seal, otherwise a new block.
func (r *renderer) sealedBlock(part abi.ReasoningPart, key int32) *outBlock {
	kind := outThinking
	if part == abi.ReasoningEncrypted && r.isClaude() {
		kind = outRedacted
	}
	if r.open {
		b := r.last()
		switch {
		case b.key != key || b.kind != kind:
		case b.sealed && b.sealKind == part:
			return b
		case !b.sealed && part != abi.ReasoningToolEncrypted:
			b.sealed, b.sealKind = true, part
			return b
		}
	}
	r.closeOpen()
	b := r.beginBlock(kind, key)
	b.sealed, b.sealKind = true, part
	if r.head.Stream && kind != outRedacted { // a redacted_thinking block is written at once when it is closed
		r.writeStart(b)
	}
	return b
}

// isClaude reports whether the reasoning has Anthropic's format.
func (r *renderer) isClaude() bool { return bytes.Equal(r.head.ReasoningFormat, formatClaude) }

// closeOpen closes the open block, if there is one. A stream does not keep closed blocks.
func (r *renderer) closeOpen() {
	if !r.open {
		return
	}
	r.open = false
	b := r.last()
	if b.kind == outThinking {
		r.signBlock(b)
	}
	if !r.head.Stream {
		return
	}
	switch b.kind {
	case outThinking:
		r.writeSignature(b)
	case outRedacted:
		r.writeStart(b)
	}
	r.out.Held -= len(b.seal)
	r.writeStop()
	r.first++
	r.blocks = r.blocks[:0]
}

// signBlock replaces the provider's seal of a thinking block by a sealed token for the client. A signature in
// Anthropic's format stays unchanged.
func (r *renderer) signBlock(b *outBlock) {
	if r.isClaude() && b.sealed && b.sealKind == abi.ReasoningSignature && len(b.seal) > 0 {
		return
	}
	s := thinking.Sealed{Part: b.part, Data: b.seal}
	if bytes.IndexByte(r.head.ReasoningFormat, '\\') < 0 { // no name of a format needs an escape
		s.Format = string(r.head.ReasoningFormat)
	}
	if b.sealed {
		s.Part = b.sealKind
	}
	if s.Part == abi.ReasoningToolEncrypted {
		s.CallID = r.callID(b.key)
	}
	r.token = r.sealer.Append(r.token[:0], s)
	r.out.Held += len(r.token) - len(b.seal)
	b.seal = append(b.seal[:0], r.token...)
}

// callID returns the ID by which the client knows the call with this key, "" if there is no such call.
func (r *renderer) callID(key int32) string {
	for i := range r.calls {
		if t := &r.calls[i]; t.key == key {
			return string(t.id)
		}
	}
	return ""
}

// addCall records a call.
func (r *renderer) addCall(call response.ToolCall) *toolUse {
	n := len(r.calls)
	if n == cap(r.calls) {
		r.calls = append(r.calls, toolUse{})
	} else {
		r.calls = r.calls[:n+1]
	}
	t := &r.calls[n]
	*t = toolUse{key: call.Key, id: appendToolUseID(t.id[:0], call.ID), name: append(t.name[:0], call.Name...), text: response.Reuse(t.text)}
	r.out.Held += len(t.id) + len(t.name)
	return t
}

// writeArguments writes a piece of the arguments of the call whose block is open, and closes the block if they are
// complete.
func (r *renderer) writeArguments(t *toolUse, s []byte) {
	complete := t.args.complete()
	if len(s) > 0 && !(complete && string(s) == "{}") { // the block has that input from its start
		t.text = r.writeDelta(t.text, s)
	}
	if complete {
		r.closeOpen()
	}
}

// appendToolUseID appends the ID of a call for the client: the provider's, or one derived from its hash if the API does
// not allow the provider's characters.
func appendToolUseID(dst, id []byte) []byte {
	for _, c := range id {
		if c|0x20-'a' > 'z'-'a' && c-'0' > 9 && c != '_' && c != '-' {
			const bytesOfID = 15
			sum := sha256.Sum256(id)
			return toolUseIDs.AppendEncode(append(dst, "toolu_"...), sum[:bytesOfID])
		}
	}
	return append(dst, id...)
}

var toolUseIDs = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// appendOwnID appends an ID of the gateway's own, with a prefix.
func appendOwnID(dst []byte, prefix, id string) []byte {
	return jsondoc.AppendEscaped(append(dst, prefix...), []byte(strings.TrimPrefix(id, prefix)))
}
