package native

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// thinkTags is the state of the search for tags in a choice's content.
type thinkTags struct {
	state tagState
	held  []byte // possible start of a tag
}

type tagState uint8

const (
	tagsBefore tagState = iota // at the start, only white space so far
	tagsOpened                 // directly after <think>; line ends are dropped
	tagsInside                 // in the reasoning
	tagsAfter                  // directly after </think>; white space is dropped
	tagsDone                   // in the content
)

var (
	openTag  = []byte("<think>")
	closeTag = []byte("</think>")
)

// splitThinking emits a piece of content, in UTF-8, as reasoning or as text.
func (r *Reader) splitThinking(b *response.Batch, c *choice, ci int32, s []byte) {
	t := &c.tags
	if len(t.held) > 0 {
		s = append(t.held, s...)
		t.held = nil
	}
	for {
		switch t.state {
		case tagsBefore, tagsAfter:
			rest := bytes.TrimLeft(s, " \t\r\n")
			switch {
			case t.state == tagsBefore && bytes.HasPrefix(rest, openTag):
				t.state, s = tagsOpened, rest[len(openTag):]
				continue
			case t.state == tagsBefore && bytes.HasPrefix(openTag, rest):
				t.held = append(t.held, s...) // s may be only white space
				return
			case len(rest) == 0:
				return
			case t.state == tagsAfter:
				s = rest
			}
			t.state = tagsDone
		case tagsOpened:
			if s = bytes.TrimLeft(s, "\r\n"); len(s) == 0 {
				return
			}
			t.state = tagsInside
		case tagsInside:
			at := bytes.Index(s, closeTag)
			if at >= 0 {
				r.taggedReasoning(b, ci, s[:at])
				t.state, s = tagsAfter, s[at+len(closeTag):]
				continue
			}
			keep := partialTag(s, closeTag)
			r.taggedReasoning(b, ci, s[:len(s)-keep])
			t.held = append(t.held, s[len(s)-keep:]...)
			return
		case tagsDone:
			if len(s) > 0 {
				b.Text(ci, abi.EncodingUTF8, s)
			}
			return
		}
	}
}

// taggedReasoning emits text between the tags as reasoning.
func (r *Reader) taggedReasoning(b *response.Batch, ci int32, s []byte) {
	if len(s) > 0 {
		r.emitFormat(b, r.o.ReasoningFormat)
		b.Reasoning(ci, abi.ReasoningText, 0, abi.EncodingUTF8, s)
	}
}

// partialTag returns the length of the longest proper prefix of tag that s ends with.
func partialTag(s, tag []byte) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if bytes.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}

// endThinking emits text that was held back as the possible start of a tag.
func (r *Reader) endThinking(b *response.Batch) {
	for i := range r.choices {
		if c := &r.choices[i]; !c.finished {
			r.endThinkingIn(b, c, int32(i))
		}
	}
}

func (r *Reader) endThinkingIn(b *response.Batch, c *choice, ci int32) {
	held := c.tags.held
	if len(held) == 0 {
		return
	}
	c.tags.held = nil
	if c.tags.state == tagsInside {
		r.taggedReasoning(b, ci, held)
	} else {
		b.Text(ci, abi.EncodingUTF8, held)
	}
}
