package anthropic

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// A citation refers to the text of its block. In a stream it precedes or interrupts that text, so it is kept in the
// state until the block ends and its range is known.

// markCitedText records where a text with citations begins.
func (b *content) markCitedText(a *provider.Answer, key int32) {
	if b.citations.Kind() != json.Array || string(b.kind) != "text" {
		return
	}
	s := loadState(a)
	s.block, s.from, s.cited = key, a.TextLength(0), nil
	s.save(a)
}

// addCitation records a streamed citation until its block ends.
func addCitation(a *provider.Answer, key int32, citation json.Value) {
	var w json.Writer
	if !writeSource(&w, citation, 0, -1) {
		a.Unknown([]byte("citation"))
		return
	}
	if len(w.Buf) > maxCitations {
		a.Unknown([]byte("long citation"))
		return
	}
	s := loadState(a)
	if s.block != key {
		s.block, s.from, s.cited = key, a.TextLength(0), nil
	}
	if len(s.cited)+1+len(w.Buf) > maxCitations {
		// The state is full: emit the pending citations with the text so far.
		emitAnnotations(a, wrapArray(s.cited), s.from)
		s.cited = nil
	}
	all := append([]byte(nil), s.cited...)
	if len(all) > 0 {
		all = append(all, ',')
	}
	s.cited = append(all, w.Buf...)
	s.save(a)
}

// wrapArray makes a JSON array of comma-separated elements.
func wrapArray(elements []byte) json.Value {
	return append(append([]byte{'['}, elements...), ']')
}

// emitAnnotations converts citations of web pages to annotations of the response, which cover the text after its
// first from code points. Citations of documents have no URL and no equivalent in the OpenAI API.
func emitAnnotations(a *provider.Answer, citations json.Value, from int64) {
	to := max(from, a.TextLength(0))
	var (
		r json.Reader
		w json.Writer
	)
	w.Array()
	r.Reset(citations)
	some := false
	for list := r.Array(); list.Next(); {
		if writeSource(&w, r.Raw(), from, to) {
			some = true
		} else {
			a.Unknown([]byte("citation"))
		}
	}
	w.EndArray()
	if some {
		a.Extra(abi.ScopeMessage, 0, 0, "annotations", w.Buf)
	}
}

// writeSource writes the source of a citation as an annotation, without a range if to is negative. It returns false if
// there is no URL.
func writeSource(w *json.Writer, citation json.Value, from, to int64) bool {
	url, title := citation.Get("url").Inside(), citation.Get("title").Inside()
	if len(url) == 0 {
		return false
	}
	w.Object()
	if to >= 0 {
		w.Name("type")
		w.String("url_citation")
		w.Name("url_citation")
		w.Object()
	}
	w.Name("url")
	w.Inside(url)
	if title != nil {
		w.Name("title")
		w.Inside(title)
	}
	if to >= 0 {
		w.Name("start_index")
		w.Int(from)
		w.Name("end_index")
		w.Int(to)
		w.EndObject()
	}
	w.EndObject()
	return true
}
