package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// partList is the content of a message that is being written: a string where the client wrote one, or one text, and else an
// array of parts.
type partList struct {
	single bool // the client's content is one text, besides what is written elsewhere
	whole  bool // a string has been written
	parts  int
	empty  bool // an empty text was left out
	aside  bool // other blocks of the content are written elsewhere
	result bool // the content is that of a tool's result, in which chat completions have only text: see addMedia
}

// beginParts begins the content of a message that is made of the client's.
func (c *lowering) beginParts(p *partList, content jsondoc.Value) {
	switch content.Kind() {
	case jsondoc.String:
		c.raw(content)
		p.whole = true
	case jsondoc.Array:
		for v := content.First(); v.Exists(); v = v.Next() {
			switch typ := v.Get("type"); {
			case typ.Is("tool_use"), typ.Is("tool_result"), typ.Is("thinking"), typ.Is("redacted_thinking"), typ.Is("tool_addition"), typ.Is("tool_removal"):
			case p.single, !typ.Is("text"):
				p.single = false
				return
			default:
				p.single = true
			}
		}
	}
}

// endParts ends the content. It reports false if there is none: then nothing has been written.
func (c *lowering) endParts(p *partList) bool {
	switch {
	case p.whole:
	case p.parts > 0:
		c.text("]")
	case p.empty && !p.aside:
		c.text(`""`)
	default:
		return false
	}
	return true
}

// beginPart begins a part that comes from v. What it begins with needs no escapes.
func (c *lowering) beginPart(p *partList, v jsondoc.Value, with string) {
	if p.parts == 0 {
		c.text("[")
	} else {
		c.text(",")
	}
	p.parts++
	c.origins.parts = append(c.origins.parts, v)
	c.text(with)
}

// endPart ends a part.
func (c *lowering) endPart(cacheControl jsondoc.Value) {
	c.member("cache_control", cacheControl)
	c.text("}")
}

// addText appends a text part that comes from v, unless it is empty: some providers refuse empty ones.
func (c *lowering) addText(p *partList, v, text, cacheControl jsondoc.Value) {
	switch {
	case len(text.Inside()) == 0:
		p.empty = true
	case p.single && !cacheControl.Exists():
		c.raw(text)
		p.whole = true
	default:
		c.beginPart(p, v, `{"type":"text","text":`)
		c.raw(text)
		c.endPart(cacheControl)
	}
}

// lowerText appends a text block. Citations of earlier responses are for the client.
func (r *Request) lowerText(p *partList, b *block) {
	r.chat.addText(p, b.self, b.text, b.cacheControl)
	if b.other.Exists() {
		r.drop(b.other)
	}
}

// lowerBlock appends a block of a message of the user, or of a tool's result.
func (r *Request) lowerBlock(p *partList, b *block) *apierror.Error {
	c := &r.chat
	switch b.kind {
	case blockText:
		r.lowerText(p, b)
	case blockImage:
		return r.lowerImage(p, b)
	case blockDocument:
		return r.lowerDocument(p, b)
	case blockSearchResult:
		r.lowerSearchResult(p, b)
	case blockToolReference:
		if b.toolName.Kind() != jsondoc.String {
			return r.missing(b.self, "tool_name")
		}
		c.addText(p, b.self, b.toolName, b.cacheControl)
	case blockServer:
		p.aside = true
		r.drop(b.self)
	default:
		return r.unknownBlock(b)
	}
	return nil
}

// addMedia leaves an image or a file of a tool's result for the message of the user that follows the results, with a text in its
// place. It reports false for one that can stand where it is.
func (c *lowering) addMedia(p *partList, b *block, placeholder string) bool {
	if !p.result {
		return false
	}
	c.beginPart(p, b.self, `{"type":"text","text":"`)
	c.text(placeholder)
	c.text(`"}`)
	c.media = append(c.media, b.self)
	return true
}

// lowerMedia appends a message of the user with the images and files of the results of a turn, in their order.
func (r *Request) lowerMedia(turn jsondoc.Value) *apierror.Error {
	c := &r.chat
	if len(c.media) == 0 {
		return nil
	}
	c.beginMessage(turn, "user")
	c.text(`,"content":`)
	var p partList
	var b block
	for _, v := range c.media {
		r.scanBlock(v, &b)
		if b.kind == blockDocument {
			r.lowerFile(&p, &b)
			continue
		}
		if e := r.lowerImage(&p, &b); e != nil {
			return e
		}
	}
	c.endParts(&p)
	c.text("}")
	c.media = c.media[:0]
	return nil
}

func (r *Request) lowerImage(p *partList, b *block) *apierror.Error {
	c, s := &r.chat, b.source
	typ := string(r.keyword(s.Get("type")))
	if (typ == "base64" || typ == "url") && c.addMedia(p, b, "[image]") {
		return nil
	}
	switch typ {
	case "base64":
		c.beginPart(p, b.self, `{"type":"image_url","image_url":{"url":"`)
		c.dataURL(s)
	case "url":
		c.beginPart(p, b.self, `{"type":"image_url","image_url":{"url":"`)
		c.dst = append(c.dst, s.Get("url").Inside()...)
	default:
		return r.foreignFile(s)
	}
	c.text(`"}`)
	c.endPart(b.cacheControl)
	return nil
}

// dataURL appends a source as a data URL.
func (c *lowering) dataURL(source jsondoc.Value) {
	c.text("data:")
	c.dst = append(c.dst, source.Get("media_type").Inside()...)
	c.text(";base64,")
	c.dst = append(c.dst, source.Get("data").Inside()...)
}

// foreignFile is the error for a file that has been uploaded, or for a source that nobody knows.
func (r *Request) foreignFile(source jsondoc.Value) *apierror.Error {
	typ := source.Get("type")
	if typ.Is("file") {
		return r.unsupported(source, "The file belongs to the provider that it was uploaded to, which this model is not of.")
	}
	return r.unsupported(typ, "The provider of this model does not support sources of the type '%s'.", quotable(typ.Text()))
}

// lowerDocument appends a document: a file, or its text. What the client says about it becomes a text before it.
func (r *Request) lowerDocument(p *partList, b *block) *apierror.Error {
	c, s := &r.chat, b.source
	if on, _ := b.citations.Get("enabled").Bool(); on {
		r.drop(b.citations)
	}
	typ := string(r.keyword(s.Get("type")))
	isFile := typ == "base64" || typ == "url"
	if !isFile && b.title.Exists() {
		c.addText(p, b.self, b.title, jsondoc.Value{})
	}
	if b.context.Exists() {
		c.addText(p, b.self, b.context, jsondoc.Value{})
	}
	switch typ {
	case "base64", "url":
		if !c.addMedia(p, b, "[file]") {
			r.lowerFile(p, b)
		}
	case "text":
		c.addText(p, b.self, s.Get("data"), b.cacheControl)
	case "content":
		return r.lowerInlined(p, b, s.Get("content"))
	default:
		return r.foreignFile(s)
	}
	return nil
}

// lowerFile appends a document that is a file.
func (r *Request) lowerFile(p *partList, b *block) {
	c := &r.chat
	c.beginPart(p, b.self, `{"type":"file","file":{`)
	if len(b.title.Inside()) > 0 {
		c.text(`"filename":`)
		c.raw(b.title)
		c.text(",")
	}
	c.text(`"file_data":"`)
	if address := b.source.Get("url"); b.source.Get("type").Is("url") {
		c.dst = append(c.dst, address.Inside()...)
	} else {
		c.dataURL(b.source)
	}
	c.text(`"}`)
	c.endPart(b.cacheControl)
}

// lowerInlined appends the content of a document: a string, or blocks. The last of them ends what is to be cached.
func (r *Request) lowerInlined(p *partList, document *block, content jsondoc.Value) *apierror.Error {
	if content.Kind() == jsondoc.String {
		r.chat.addText(p, document.self, content, document.cacheControl)
		return nil
	}
	var b block
	for v := content.First(); v.Exists(); v = v.Next() {
		r.scanBlock(v, &b)
		if !v.Next().Exists() && !b.cacheControl.Exists() {
			b.cacheControl = document.cacheControl
		}
		if e := r.lowerBlock(p, &b); e != nil {
			return e
		}
	}
	return nil
}

// lowerSearchResult appends a search result as one text: its source, its title and its texts, on lines of their own.
func (r *Request) lowerSearchResult(p *partList, b *block) {
	if on, _ := b.citations.Get("enabled").Bool(); on {
		r.drop(b.citations)
	}
	c := &r.chat
	c.beginPart(p, b.self, `{"type":"text","text":"`)
	c.dst = append(c.dst, b.source.Inside()...)
	c.text(`\n`)
	c.dst = append(c.dst, b.title.Inside()...)
	for v := b.content.First(); v.Exists(); v = v.Next() {
		c.text(`\n`)
		c.dst = append(c.dst, v.Get("text").Inside()...)
	}
	c.text(`"`)
	c.endPart(b.cacheControl)
}
