package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// partList is the content of a message that is being written: a string if the client's content is a string or a single
// text block, otherwise an array of parts.
type partList struct {
	singleText bool // the client's content is one text block, apart from blocks that are written elsewhere
	isString   bool // the content has been written as a string
	parts      int  // number of parts that have been written
	empty      bool // an empty text was left out
	hasOthers  bool // the client's content has blocks that are written elsewhere or dropped
	result     bool // the content is a tool result, which can only have text in chat completions: see addMedia
}

// beginParts begins the content of a message. A string is copied at once.
func (c *lowering) beginParts(p *partList, content jsondoc.Value) {
	switch content.Kind() {
	case jsondoc.String:
		c.Raw(content)
		p.isString = true
	case jsondoc.Array:
		for v := content.First(); v.Exists(); v = v.Next() {
			switch typ := v.Get("type"); {
			case typ.Is("tool_use"), typ.Is("tool_result"), typ.Is("thinking"), typ.Is("redacted_thinking"), typ.Is("tool_addition"), typ.Is("tool_removal"):
			case p.singleText, !typ.Is("text"):
				p.singleText = false
				return
			default:
				p.singleText = true
			}
		}
	}
}

// endParts ends the content. It reports false if there is none; nothing has been written then.
func (c *lowering) endParts(p *partList) bool {
	switch {
	case p.isString:
	case p.parts > 0:
		c.Literal("]")
	case p.empty && !p.hasOthers:
		c.Literal(`""`)
	default:
		return false
	}
	return true
}

// endPart ends a part.
func (c *lowering) endPart(cacheControl jsondoc.Value) {
	c.Member("cache_control", cacheControl)
	c.Literal("}")
}

// addText appends a text part whose origin is v. Empty texts are left out, because some providers reject them.
func (c *lowering) addText(p *partList, v, text, cacheControl jsondoc.Value) {
	switch {
	case len(text.Inside()) == 0:
		p.empty = true
	case p.singleText && !cacheControl.Exists():
		c.Raw(text)
		p.isString = true
	default:
		c.StartPart(&p.parts, v, `{"type":"text","text":`)
		c.Raw(text)
		c.endPart(cacheControl)
	}
}

// lowerText appends a text block without its citations, which are only for the client.
func (r *Request) lowerText(p *partList, b *block) {
	r.chat.addText(p, b.self, b.text, b.cacheControl)
	if b.other.Exists() {
		r.drop(b.other)
	}
}

// lowerBlock appends a block of a user message or of a tool result.
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
		p.hasOthers = true
		r.drop(b.self)
	default:
		return r.unknownBlock(b)
	}
	return nil
}

// addMedia replaces an image or file in a tool result by a placeholder text, and records it for the user message that
// follows the results. It reports false if the content is not a tool result, which can hold the image or file itself.
func (c *lowering) addMedia(p *partList, b *block, placeholder string) bool {
	if !p.result {
		return false
	}
	c.StartPart(&p.parts, b.self, `{"type":"text","text":"`)
	c.Literal(placeholder)
	c.Literal(`"}`)
	c.Media = append(c.Media, b.self)
	return true
}

// lowerMedia appends a user message with the images and files of a turn's tool results, in their order.
func (r *Request) lowerMedia(turn jsondoc.Value) *apierror.Error {
	c := &r.chat
	if len(c.Media) == 0 {
		return nil
	}
	c.StartMessage(turn, "user")
	c.Literal(`,"content":`)
	var p partList
	var b block
	for _, v := range c.Media {
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
	c.Literal("}")
	c.Media = c.Media[:0]
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
		c.StartPart(&p.parts, b.self, `{"type":"image_url","image_url":{"url":"`)
		c.writeDataURL(s)
	case "url":
		c.StartPart(&p.parts, b.self, `{"type":"image_url","image_url":{"url":"`)
		c.Inside(s.Get("url"))
	default:
		return r.foreignFile(s)
	}
	c.Literal(`"}`)
	c.endPart(b.cacheControl)
	return nil
}

// writeDataURL appends a source as a data URL.
func (c *lowering) writeDataURL(source jsondoc.Value) {
	c.Literal("data:")
	c.Inside(source.Get("media_type"))
	c.Literal(";base64,")
	c.Inside(source.Get("data"))
}

// foreignFile returns the error for a file that was uploaded to a provider, or for an unknown type of source.
func (r *Request) foreignFile(source jsondoc.Value) *apierror.Error {
	typ := source.Get("type")
	if typ.Is("file") {
		return r.unsupported(source, "The provider of this model has no access to the file, which was uploaded to another provider.")
	}
	return r.unsupported(typ, "The provider of this model does not support sources of the type '%s'.", quotable(typ.Text()))
}

// lowerDocument appends a document as a file or as text. Its title, unless it names the file, and its context become
// text parts before it.
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
	c.StartPart(&p.parts, b.self, `{"type":"file","file":{`)
	if len(b.title.Inside()) > 0 {
		c.Literal(`"filename":`)
		c.Raw(b.title)
		c.Literal(",")
	}
	c.Literal(`"file_data":"`)
	if address := b.source.Get("url"); b.source.Get("type").Is("url") {
		c.Inside(address)
	} else {
		c.writeDataURL(b.source)
	}
	c.Literal(`"}`)
	c.endPart(b.cacheControl)
}

// lowerInlined appends the content of a document, which is a string or a list of blocks. The last part gets the
// document's cache_control.
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

// lowerSearchResult appends a search result as one text, with its source, its title and each of its texts on separate
// lines.
func (r *Request) lowerSearchResult(p *partList, b *block) {
	if on, _ := b.citations.Get("enabled").Bool(); on {
		r.drop(b.citations)
	}
	c := &r.chat
	c.StartPart(&p.parts, b.self, `{"type":"text","text":"`)
	c.Inside(b.source)
	c.Literal(`\n`)
	c.Inside(b.title)
	for v := b.content.First(); v.Exists(); v = v.Next() {
		c.Literal(`\n`)
		c.Inside(v.Get("text"))
	}
	c.Literal(`"`)
	c.endPart(b.cacheControl)
}
