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
	kind   outKind
	closed bool              // complete; in a stream, its content_block_stop may still wait for an earlier block
	key    int32             // key of the reasoning
	part   abi.ReasoningPart // kind of readable reasoning: text or summary
	call   int32             // index in Renderer.calls of an outToolUse block

	sealed   bool              // the block has a signature or encrypted data
	sealKind abi.ReasoningPart // kind of seal: a signature, or encrypted reasoning
	seal     []byte            // the signature or data; once the block is closed, as the client receives it

	text []byte // non-streaming only
}

// toolUse is a tool call. ID and name are still escaped: the inside of JSON strings.
type toolUse struct {
	key      int32
	block    int // index of its block in the message, -1 if the block has not begun
	id, name []byte
	args     arguments
	text     []byte // the arguments of a call in a non-streaming response, or of a pending call
}

// blockSize is the approximate size of a block in memory without its texts.
const blockSize = 160

// block returns a block by its index in the message.
func (r *Renderer) block(index int) *outBlock { return &r.blocks[index-r.first] }

// beginBlock adds a block to the message.
func (r *Renderer) beginBlock(kind outKind, key int32) *outBlock {
	r.writeMessageStart()
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

// lastIndex returns the index in the message of the newest block.
func (r *Renderer) lastIndex() int { return r.first + len(r.blocks) - 1 }

// writePiece writes a piece of text to the current block, or to a new block if the current one does not match kind, key
// and part. part is only used for reasoning.
func (r *Renderer) writePiece(kind outKind, key int32, part abi.ReasoningPart, s []byte) {
	b := r.textBlock(kind, key, part)
	if !r.head.Stream {
		b.text = append(b.text, s...)
		r.out.Held += len(s)
		return
	}
	dst := append(append(r.out.Buf, r.prefix...), s...)
	r.out.Buf = append(dst, `"}}`+"\n\n"...)
}

// textBlock returns the current block if it matches kind, key and part, or begins a new one.
func (r *Renderer) textBlock(kind outKind, key int32, part abi.ReasoningPart) *outBlock {
	if r.current >= 0 {
		if b := r.block(r.current); b.kind == kind && b.key == key && b.part == part && !b.sealed {
			return b
		}
	}
	r.closeOpen()
	b := r.beginBlock(kind, key)
	b.part, r.current = part, r.lastIndex()
	if r.head.Stream {
		r.writeStart(b, r.current)
	}
	return b
}

// sealedBlock returns the block that a piece of a signature or of encrypted reasoning belongs to: the open block of the
// same reasoning unless it already has another kind of seal, otherwise a new block.
func (r *Renderer) sealedBlock(part abi.ReasoningPart, key int32) *outBlock {
	kind := outThinking
	if part == abi.ReasoningEncrypted && r.isClaude() {
		kind = outRedacted
	}
	if r.current >= 0 {
		b := r.block(r.current)
		switch {
		case b.key != key || b.kind != kind:
		case b.sealed && b.sealKind == part:
			return b
		case !b.sealed && part != abi.ReasoningToolEncrypted:
			b.sealed, b.sealKind = true, part
			return b
		}
	}
	if part == abi.ReasoningToolEncrypted && r.pending != noCall && r.calls[r.pending].key == key {
		r.closeCurrent() // the call comes after its signature
	} else {
		r.closeOpen()
	}
	b := r.beginBlock(kind, key)
	b.sealed, b.sealKind, r.current = true, part, r.lastIndex()
	if r.head.Stream && kind != outRedacted { // a redacted_thinking block is written at once when it is closed
		r.writeStart(b, r.current)
	}
	return b
}

// isClaude reports whether the reasoning has Anthropic's format.
func (r *Renderer) isClaude() bool { return bytes.Equal(r.head.ReasoningFormat, formatClaude) }

// closeOpen closes the current block and writes the pending call, because another block is about to begin or the
// message ends.
func (r *Renderer) closeOpen() {
	r.closeCurrent()
	if r.pending == noCall {
		return
	}
	t := &r.calls[r.pending]
	r.beginCall(t, r.pending)
	r.pending = noCall
	if r.head.Stream {
		if string(t.text) != "{}" {
			r.writeArguments(t, t.text)
		}
		r.out.Held -= len(t.text)
		t.text = response.Reuse(t.text)
	}
	r.endCall(t)
}

// closeCurrent closes the current block of text or reasoning.
func (r *Renderer) closeCurrent() {
	if r.current < 0 {
		return
	}
	index := r.current
	b := r.block(index)
	r.current = -1
	if b.kind == outThinking {
		r.signBlock(b)
	}
	if r.head.Stream {
		switch b.kind {
		case outThinking:
			r.writeSignature(b, index)
		case outRedacted:
			r.writeStart(b, index)
		}
		r.out.Held -= len(b.seal)
	}
	r.closeBlock(b)
}

// closeBlock closes a block. In a stream, its content_block_stop is written once all earlier blocks have been stopped.
func (r *Renderer) closeBlock(b *outBlock) {
	b.closed = true
	if !r.head.Stream {
		return
	}
	stopped := 0
	for stopped < len(r.blocks) && r.blocks[stopped].closed {
		r.writeStop(r.first + stopped)
		stopped++
	}
	for i := stopped; i < len(r.blocks); i++ { // swap instead of copy, to reuse the memory of the stopped blocks
		r.blocks[i-stopped], r.blocks[i] = r.blocks[i], r.blocks[i-stopped]
	}
	r.first += stopped
	r.blocks = r.blocks[:len(r.blocks)-stopped]
}

// signBlock replaces the provider's seal of a thinking block by a sealed token for the client. A signature in
// Anthropic's format stays unchanged.
func (r *Renderer) signBlock(b *outBlock) {
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
func (r *Renderer) callID(key int32) string {
	for i := range r.calls {
		if t := &r.calls[i]; t.key == key {
			return string(t.id)
		}
	}
	return ""
}

// addCall records a call without beginning its block.
func (r *Renderer) addCall(call response.ToolCall) *toolUse {
	n := len(r.calls)
	if n == cap(r.calls) {
		r.calls = append(r.calls, toolUse{})
	} else {
		r.calls = r.calls[:n+1]
	}
	t := &r.calls[n]
	*t = toolUse{key: call.Key, block: -1, id: appendToolUseID(t.id[:0], call.ID), name: append(t.name[:0], call.Name...), text: response.Reuse(t.text)}
	r.out.Held += len(t.id) + len(t.name)
	return t
}

// holdCall holds a call that arrived complete until the next event, because the provider's signature of the call may
// follow, and its thinking block must precede the call. The client cannot act on the call before the message ends
// anyway.
func (r *Renderer) holdCall(index int32, args []byte) {
	t := &r.calls[index]
	t.text = append(t.text, args...)
	r.out.Held += len(args)
	r.pending = index
}

// beginCall begins the block of a call.
func (r *Renderer) beginCall(t *toolUse, index int32) {
	b := r.beginBlock(outToolUse, t.key)
	b.call, t.block = index, r.lastIndex()
	if r.head.Stream {
		r.writeStart(b, t.block)
	}
}

// writeArguments writes a piece of a call's arguments.
func (r *Renderer) writeArguments(t *toolUse, s []byte) {
	if !r.head.Stream {
		t.text = append(t.text, s...)
		r.out.Held += len(s)
		return
	}
	dst := append(appendDelta(r.out.Buf, t.block, outToolUse), s...)
	r.out.Buf = append(dst, `"}}`+"\n\n"...)
}

// endCall closes the block of a call.
func (r *Renderer) endCall(t *toolUse) { r.closeBlock(r.block(t.block)) }

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
