package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// signatures is the reasoning in an assistant message: the signatures of its calls and of its texts, and its signed
// thoughts. Its memory is reused for the next message.
type signatures struct {
	calls    []toolSignature
	texts    [][]byte // in order; escaped string contents
	onText   bool     // the first of texts was on a text, not alone after it
	thoughts []thought
	words    [][]byte // buffer for the texts of a message
	used     bool     // some of it was sent
}

type toolSignature struct{ id, signature []byte }

// thought is a thought of an earlier assistant message. Its pieces and its signature are escaped string contents.
type thought struct {
	index     int64
	pieces    [][]byte
	signature []byte
}

func (s *signatures) reset() signatures {
	return signatures{calls: s.calls[:0], texts: s.texts[:0], thoughts: s.thoughts[:0], words: s.words[:0]}
}

// read reads reasoning_details. It omits signatures of other providers, which this one would reject.
func (s *signatures) read(details json.Value) {
	*s = s.reset()
	// blocks is the number of known blocks of the response, highest the index of the last of them. If known blocks fill
	// all indexes before the signature of a text, there is no room for a separate text block, so the signature was on
	// the text.
	blocks, highest := int64(0), int64(-1)
	var r json.Reader
	r.Reset(details)
	for a := r.Array(); a.Next(); {
		d := readDetail(&r)
		if string(d.format) != format {
			continue
		}
		switch string(d.kind) {
		case "reasoning.text":
			s.addThought(&d)
		case "reasoning.encrypted":
			switch {
			case len(d.data) == 0:
			case len(d.id) > 0:
				s.calls = append(s.calls, toolSignature{d.id, d.data})
			default:
				if len(s.texts) == 0 {
					s.onText = blocks >= d.index
				}
				s.texts = append(s.texts, d.data)
			}
		}
		if d.index > highest {
			highest = d.index
			blocks++
		}
	}
	kept := s.thoughts[:0]
	for _, th := range s.thoughts {
		if len(th.signature) > 0 {
			kept = append(kept, th)
		}
	}
	s.thoughts = kept
	s.used = len(s.thoughts) > 0 || len(s.texts) > 0
}

// detail is an entry of reasoning_details. Slices are escaped string contents, except kind, format and id.
type detail struct {
	kind, format, id      []byte
	text, signature, data []byte
	index                 int64 // -1 if unset
}

func readDetail(r *json.Reader) detail {
	d := detail{index: -1}
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			d.kind = r.Text()
		case "format":
			d.format = r.Text()
		case "id":
			d.id = r.Text()
		case "text":
			d.text = r.Inside()
		case "signature":
			d.signature = r.Inside()
		case "data":
			d.data = r.Inside()
		case "index":
			if n, ok := r.Int(); ok {
				d.index = n
			}
		}
	}
	return d
}

// addThought adds a piece of a thought. A client that collected a stream may have the pieces as separate entries, the
// last of which is the signature.
func (s *signatures) addThought(d *detail) {
	n := len(s.thoughts)
	if n == 0 || s.thoughts[n-1].index != d.index || len(s.thoughts[n-1].signature) > 0 {
		s.thoughts = append(s.thoughts, thought{index: d.index})
		n++
	}
	th := &s.thoughts[n-1]
	if len(d.text) > 0 {
		th.pieces = append(th.pieces, d.text)
	}
	th.signature = d.signature
}

// callSignature returns the signature of a call: its own, otherwise the one in reasoning_details with its ID.
func (s *signatures) callSignature(id, own []byte) []byte {
	for i := 0; len(own) == 0 && i < len(s.calls); i++ {
		if bytes.Equal(s.calls[i].id, id) {
			own = s.calls[i].signature
		}
	}
	s.used = s.used || len(own) > 0
	return own
}

// writeThought writes a thought that has a signature.
func (t *translation) writeThought(th *thought) {
	w := t.w
	t.openContent("model")
	w.Object()
	w.Name("text")
	if len(th.pieces) == 1 {
		w.Inside(th.pieces[0])
	} else {
		var all []byte
		for _, piece := range th.pieces {
			all = append(all, piece...)
		}
		w.Inside(all)
	}
	w.Name("thought")
	w.Bool(true)
	t.writeSignature(th.signature)
	w.EndObject()
}
