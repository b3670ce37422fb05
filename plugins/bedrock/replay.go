package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// thought is a reasoning block of an earlier assistant message. Its slices are escaped string contents.
type thought struct {
	index     int64    // index among the blocks of the response
	indexed   bool     // index is known
	text      [][]byte // pieces
	signature []byte
	data      [][]byte // pieces; if there are any, the block is redacted
}

// signed reports whether the provider accepts the block, which needs a signature.
func (th *thought) signed() bool { return len(th.signature) > 0 || len(th.data) > 0 }

// readThoughts reads the reasoning in an assistant message. It omits reasoning without a signature or from another
// model family, which the provider would reject.
func (t *translation) readThoughts(m *message) []thought {
	if m.Seen()&(1<<messageDetails|1<<messageBlocks|1<<messageThought) == 0 {
		return nil
	}
	var r json.Reader
	t.thoughts = t.thoughts[:0]
	r.Reset(m.Raw(messageDetails))
	for a := r.Array(); a.Next(); {
		t.addDetail(&r)
	}
	kept := replayable(t.thoughts)
	if len(kept) == 0 {
		t.thoughts = t.thoughts[:0]
		r.Reset(m.Raw(messageBlocks))
		for a := r.Array(); a.Next(); {
			t.addBlock(&r)
		}
		kept = replayable(t.thoughts)
	}
	if len(kept) == 0 {
		t.warnDropped(m.Has(messageDetails), "messages[].reasoning_details")
		t.warnDropped(m.Has(messageBlocks), "messages[].thinking_blocks")
		t.warnDropped(m.Has(messageThought), "messages[].reasoning_content")
	}
	return kept
}

// replayable moves the blocks that the provider accepts to the front of all, and returns them.
func replayable(all []thought) []thought {
	kept := all[:0]
	for i := range all {
		if all[i].signed() {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// addDetail reads an entry of reasoning_details. A client that collected a stream may have the pieces of one block as
// separate entries.
func (t *translation) addDetail(r *json.Reader) {
	var kind, form []byte
	var piece struct{ text, signature, data []byte }
	var th thought
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "format":
			form = r.Text()
		case "text":
			piece.text = r.Inside()
		case "signature":
			piece.signature = r.Inside()
		case "data":
			piece.data = r.Inside()
		case "index":
			th.index, th.indexed = r.Int()
		}
	}
	encrypted := string(kind) == "reasoning.encrypted"
	if form != nil && string(form) != families[t.o.family].format || !encrypted && string(kind) != "reasoning.text" {
		return
	}
	n := len(t.thoughts)
	if n == 0 || !t.thoughts[n-1].continues(&th, encrypted) {
		t.thoughts = append(t.thoughts, th)
		n++
	}
	last := &t.thoughts[n-1]
	switch {
	case encrypted && len(piece.data) > 0:
		last.data = append(last.data, piece.data)
	case !encrypted:
		if len(piece.text) > 0 {
			last.text = append(last.text, piece.text)
		}
		last.signature = piece.signature
	}
}

// continues reports whether a piece belongs to th. A signature is the last piece of a block; redacted blocks are only
// distinguished by their indexes.
func (th *thought) continues(piece *thought, encrypted bool) bool {
	if th.indexed != piece.indexed || th.index != piece.index {
		return false
	}
	if encrypted {
		return th.indexed && len(th.data) > 0
	}
	return !th.signed()
}

// addBlock reads an entry of thinking_blocks, which has the format of Anthropic's own API and is used by other
// gateways.
func (t *translation) addBlock(r *json.Reader) {
	var th thought
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "thinking":
			if text := r.Inside(); len(text) > 0 {
				th.text = append(th.text, text)
			}
		case "signature":
			th.signature = r.Inside()
		case "data":
			if data := r.Inside(); len(data) > 0 {
				th.data = append(th.data, data)
			}
		}
	}
	if t.o.family == claude {
		t.thoughts = append(t.thoughts, th)
	}
}

// writeThought writes a block of reasoning as it was received.
func (t *translation) writeThought(th *thought) {
	var redacted []byte
	if len(th.data) > 0 {
		if redacted = t.encodeRedacted(th.data); redacted == nil {
			t.warnDropped(true, "messages[].reasoning_details")
			return
		}
	}
	first := t.role != "assistant"
	w := t.w
	t.openMessage("assistant")
	if first {
		t.bare = false
	}
	w.Object()
	w.Name("reasoningContent")
	w.Object()
	if redacted != nil {
		w.Name("redactedContent")
		w.Inside(redacted)
	} else {
		w.Name("reasoningText")
		w.Object()
		w.Name("text")
		w.Inside(join(th.text))
		w.Name("signature")
		w.Inside(th.signature)
		w.EndObject()
	}
	w.EndObject()
	w.EndObject()
}

// encodeRedacted returns the data of a redacted block in base64, as the API expects it, or nil if it is invalid.
// Clients have Claude's data as text and other models' as base64; see emitRedacted.
func (t *translation) encodeRedacted(data [][]byte) []byte {
	all := join(data)
	if t.o.family == claude {
		return appendEncoded(nil, json.AppendText(nil, all))
	}
	if all = json.AppendText(nil, all); !translate.ValidBase64(all) {
		return nil
	}
	return all
}

func join(pieces [][]byte) []byte {
	if len(pieces) == 1 {
		return pieces[0]
	}
	return bytes.Join(pieces, nil)
}
