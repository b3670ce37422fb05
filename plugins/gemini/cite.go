package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// hasCitations reports whether the candidate has citations.
func (c *candidate) hasCitations() bool { return c.grounding != nil || c.sources != nil }

// annotator writes the annotations of one event.
type annotator struct {
	w     json.Writer
	limit int // maximum number of bytes to write

	content  []byte // the texts of this event, concatenated
	parts    []int  // start of each part's text in content; -1 if the part is not a text
	from, to int64  // range of the choice's content in this event, in code points

	at, points int // the last position looked up in content, in bytes and in code points
}

// emitAnnotations converts the sources of the text to annotations. from is the length of the content before this event.
func (c *candidate) emitAnnotations(a *provider.Answer, choice int32, from int64) {
	t := annotator{from: from, to: a.TextLength(choice), limit: 2*(len(c.grounding)+len(c.sources)) + 16<<10}
	for i := range c.parts {
		if q := &c.parts[i]; q.text != nil && !q.thought {
			t.parts = append(t.parts, len(t.content))
			t.content = json.AppendText(t.content, q.text)
		} else {
			t.parts = append(t.parts, -1)
		}
	}
	t.w.Array()
	t.writeGrounding(c.grounding)
	t.writeSources(c.sources)
	t.w.EndArray()
	if len(t.w.Buf) > len("[]") {
		a.Extra(abi.ScopeMessage, choice, 0, "annotations", t.w.Buf)
	}
}

// source is a web page that a text is based on. Both fields are escaped string contents.
type source struct{ url, title []byte }

// writeGrounding writes annotations for groundingMetadata: a list of pages, and text ranges that refer to them. A page
// without a range applies to all of the text.
func (t *annotator) writeGrounding(v json.Value) {
	var pages []source
	var r json.Reader
	var supports json.Value
	r.Reset(v)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "groundingChunks":
			for l := r.Array(); l.Next(); {
				pages = append(pages, readPage(&r))
			}
		case "groundingSupports":
			supports = r.Raw()
		}
	}
	named := make([]bool, len(pages))
	r.Reset(supports)
	for l := r.Array(); l.Next(); {
		var part, begin, end int64
		var indexes json.Value
		for o := r.Object(); o.Next(); {
			switch string(r.Name()) {
			case "segment":
				for o := r.Object(); o.Next(); {
					switch string(r.Name()) {
					case "partIndex":
						part, _ = r.Int()
					case "startIndex":
						begin, _ = r.Int()
					case "endIndex":
						end, _ = r.Int()
					}
				}
			case "groundingChunkIndices":
				indexes = r.Raw()
			}
		}
		var in json.Reader
		in.Reset(indexes)
		for l := in.Array(); l.Next(); {
			if n, ok := in.Int(); ok && n >= 0 && n < int64(len(pages)) {
				named[n] = true
				from, to := t.locate(part, begin, end)
				t.writeAnnotation(&pages[n], from, to)
			}
		}
	}
	for i := range pages {
		if !named[i] {
			t.writeAnnotation(&pages[i], 0, t.to)
		}
	}
}

func readPage(r *json.Reader) (s source) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "web", "retrievedContext", "maps":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "uri":
					s.url = r.Inside()
				case "title":
					s.title = r.Inside()
				}
			}
		}
	}
	return s
}

// writeSources writes annotations for citationMetadata, the pages that the model quotes.
func (t *annotator) writeSources(v json.Value) {
	var r json.Reader
	r.Reset(v)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "citationSources", "citations":
		default:
			continue
		}
		for l := r.Array(); l.Next(); {
			var s source
			var begin, end int64
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "uri":
					s.url = r.Inside()
				case "title":
					s.title = r.Inside()
				case "startIndex":
					begin, _ = r.Int()
				case "endIndex":
					end, _ = r.Int()
				}
			}
			from, to := t.locate(-1, begin, end)
			t.writeAnnotation(&s, from, to)
		}
	}
}

// locate converts a byte range of a part (or of the whole text if part is -1) to code points of the content. If the
// text is not in this event, it returns the range of all content so far.
func (t *annotator) locate(part, begin, end int64) (from, to int64) {
	first := 0
	if part >= 0 {
		if part >= int64(len(t.parts)) || t.parts[part] < 0 {
			return 0, t.to
		}
		first = t.parts[part]
	}
	length := int64(len(t.content) - first)
	if t.from > 0 || begin < 0 || begin >= end || end > length {
		return 0, t.to
	}
	return t.codePointsBefore(first + int(begin)), t.codePointsBefore(first + int(end))
}

// codePointsBefore returns the number of code points before a byte offset in content. It continues from the previous
// offset, because offsets usually ascend.
func (t *annotator) codePointsBefore(place int) int64 {
	if place < t.at {
		t.at, t.points = 0, 0
	}
	for ; t.at < place; t.at++ {
		if t.content[t.at]&0xC0 != 0x80 {
			t.points++
		}
	}
	return int64(t.points)
}

// writeAnnotation writes an annotation if the source has an HTTP URL and the annotation fits.
func (t *annotator) writeAnnotation(s *source, from, to int64) {
	if !bytes.HasPrefix(s.url, []byte("http")) || len(t.w.Buf)+len(s.url)+len(s.title) > t.limit {
		return
	}
	w := &t.w
	w.Object()
	w.Name("type")
	w.String("url_citation")
	w.Name("url_citation")
	w.Object()
	w.Name("url")
	w.Inside(s.url)
	if s.title != nil {
		w.Name("title")
		w.Inside(s.title)
	}
	w.Name("start_index")
	w.Int(from)
	w.Name("end_index")
	w.Int(to)
	w.EndObject()
	w.EndObject()
}
