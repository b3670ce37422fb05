package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// ItemRenderer is a Renderer of responses that consist of vectors or ranks in place of choices. The response to a request
// whose renderer is none has no such events.
type ItemRenderer interface {
	Renderer

	// Embedding adds the vector of the input with this index: a JSON array of numbers. Rank adds the next one of the ranked
	// documents, by its index in the request, with its score, a JSON number. Either is empty where a frame has it.
	Embedding(index int32, numbers []byte)
	Rank(index int32, score []byte)

	// EndItems is called when the provider has completed the response, before Complete: one that lacks something is given up
	// by Output.Failed.
	EndItems()
}

// itemRenderer returns the ItemRenderer that r is or passes on to, nil if there is none.
func itemRenderer(r Renderer) ItemRenderer {
	for {
		if items, ok := r.(ItemRenderer); ok {
			return items
		}
		before, ok := r.(interface{ Unwrap() Renderer })
		if !ok {
			return nil
		}
		r = before.Unwrap()
	}
}

// prepareItem checks an item. It returns the reason for refusing it, or "".
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
			return noVector
		}
		return ""
	}
	from := len(w.scratch)
	var err error
	if w.scratch, err = jsondoc.AppendCompact(w.scratch, p); err != nil || len(w.scratch)-from != len(p) || p[0] != '-' && (p[0] < '0' || p[0] > '9') {
		return noScore
	}
	return ""
}

// commitItem applies an item. Items are made from the prompt alone: nothing is completed.
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
