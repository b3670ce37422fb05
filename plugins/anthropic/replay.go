package anthropic

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// thought is a reasoning block of an earlier assistant message.
type thought struct {
	index     int64    // index among the blocks of the response
	placed    bool     // index is known
	text      [][]byte // escaped string contents, to be joined
	signature []byte   // escaped string content
	data      []byte   // escaped string content; if not empty, the block is redacted
}

// signed reports whether the provider accepts the block, which needs a signature.
func (th *thought) signed() bool { return len(th.signature) > 0 || len(th.data) > 0 }

// readThoughts reads the reasoning in an assistant message. It omits reasoning without a signature or from another
// provider, which the provider would reject.
func (t *translation) readThoughts(m *message) []thought {
	if m.Seen()&(1<<messageDetails|1<<messageBlocks) == 0 {
		t.warnDropped(m.Has(messageThought), "messages[].reasoning_content")
		return nil
	}
	r := &t.m.list
	t.thoughts = t.thoughts[:0]
	m.Read(messageDetails, r)
	for a := r.Array(); a.Next(); {
		t.thoughts = addDetail(t.thoughts, r, t.o.format)
	}
	kept := replayable(t.thoughts)
	if len(kept) == 0 {
		t.thoughts = t.thoughts[:0]
		m.Read(messageBlocks, r)
		for a := r.Array(); a.Next(); {
			t.thoughts = append(t.thoughts, readBlock(r))
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
// separate entries, the last of which is the signature. Entries in a format other than the upstream's own are omitted.
func addDetail(all []thought, r *json.Reader, own string) []thought {
	var kind, form, text, signature, data []byte
	var index int64
	placed := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "format":
			form = r.Text()
		case "text":
			text = r.Inside()
		case "signature":
			signature = r.Inside()
		case "data":
			data = r.Inside()
		case "index":
			index, placed = r.Int()
		}
	}
	if form != nil && string(form) != own {
		return all
	}
	switch string(kind) {
	case "reasoning.encrypted":
		return append(all, thought{index: index, placed: placed, data: data})
	case "reasoning.text":
		n := len(all)
		if n == 0 || all[n-1].signed() || all[n-1].placed != placed || all[n-1].index != index {
			all = append(all, thought{index: index, placed: placed})
			n++
		}
		th := &all[n-1]
		if len(text) > 0 {
			th.text = append(th.text, text)
		}
		th.signature = signature
	}
	return all
}

// readBlock reads an entry of thinking_blocks, which has the provider's own format and is used by other gateways.
func readBlock(r *json.Reader) (th thought) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "thinking":
			if text := r.Inside(); len(text) > 0 {
				th.text = append(th.text, text)
			}
		case "signature":
			th.signature = r.Inside()
		case "data":
			th.data = r.Inside()
		}
	}
	return th
}

// interleaved reports whether other blocks were between the thoughts.
func interleaved(all []thought) bool {
	for i := 1; i < len(all); i++ {
		if !all[i].placed || !all[i-1].placed {
			return false
		}
		if all[i].index > all[i-1].index+1 {
			return true
		}
	}
	return false
}

func (t *translation) writeThought(th *thought) {
	w := t.w
	first := t.role != assistantRole
	t.openMessage(assistantRole)
	if first {
		t.bare = false
	}
	w.Object()
	w.Name("type")
	if len(th.data) > 0 {
		w.String("redacted_thinking")
		w.Name("data")
		w.Inside(th.data)
		w.EndObject()
		return
	}
	w.String("thinking")
	w.Name("thinking")
	switch len(th.text) {
	case 0:
		w.String("")
	case 1:
		w.Inside(th.text[0])
	default:
		t.scratch = t.scratch[:0]
		for _, piece := range th.text {
			t.scratch = append(t.scratch, piece...)
		}
		w.Inside(t.scratch)
	}
	w.Name("signature")
	w.Inside(th.signature)
	w.EndObject()
}

// warnDropped warns of a member that is not sent, if it is present.
func (t *translation) warnDropped(there bool, member string) {
	if there {
		t.r.Warn(abi.WarnDropped, member)
	}
}
