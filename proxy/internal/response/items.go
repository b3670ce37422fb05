package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// ItemRenderer is a Renderer of responses that consist of embedding vectors or ranks (items) instead of choices. The
// Writer rejects such events if its Renderer is not an ItemRenderer.
type ItemRenderer interface {
	Renderer

	// Embedding adds the vector of the input with this index, a JSON array of numbers. Rank adds the next ranked
	// document: its index in the request and its score, a JSON number. numbers and score are empty if a Frame contains
	// them.
	Embedding(index int32, numbers []byte)
	Rank(index int32, score []byte)

	// EndItems is called before Complete, when the provider has completed the response. The renderer sets Output.Failed
	// if items are missing.
	EndItems()
}

// itemRenderer returns r as an ItemRenderer, or the one that it wraps, or nil.
func itemRenderer(r Renderer) ItemRenderer {
	for {
		if items, ok := r.(ItemRenderer); ok {
			return items
		}
		wrapper, ok := r.(interface{ Unwrap() Renderer })
		if !ok {
			return nil
		}
		r = wrapper.Unwrap()
	}
}

// prepareItem checks an item. It returns the reason for rejecting it, or "".
func (w *Writer) prepareItem(b *Batch, ev *Event) (reason string) {
	if w.items == nil {
		return "the request asks for no vectors or ranks"
	}
	if ev.Key < 0 {
		return "the index is out of range"
	}
	if ev.A.Len == 0 {
		return ""
	}
	p := b.Bytes(ev.A)
	if ev.Kind == EventEmbedding {
		if !jsondoc.ValidNumbers(p) {
			return reasonBadVector
		}
		return ""
	}
	from := len(w.scratch)
	var err error
	if w.scratch, err = jsondoc.AppendCompact(w.scratch, p); err != nil || len(w.scratch)-from != len(p) || p[0] != '-' && (p[0] < '0' || p[0] > '9') {
		return reasonBadScore
	}
	return ""
}

// commitItem applies an item. Items use no completion tokens, so their count is 0 unless the provider gives another.
func (w *Writer) commitItem(b *Batch, ev *Event) {
	w.head.Fix()
	w.anyItems = true
	if !w.usage.known.has(abi.UsageCompletion) {
		w.usage.set(abi.UsageCompletion, 0)
	}
	if ev.Kind == EventEmbedding {
		w.items.Embedding(ev.Key, b.Bytes(ev.A))
	} else {
		w.items.Rank(ev.Key, b.Bytes(ev.A))
	}
}
