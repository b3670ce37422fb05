package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// partKind is the type of a part.
type partKind int8

// The types of parts, in the order of partTypes.
const (
	textPart partKind = iota
	refusalPart
	imagePart
	filePart
)

// part is a part of a message's content.
type part struct {
	kind     partKind
	text     []byte // escaped content of a text or refusal
	url      []byte // of an image
	detail   []byte
	fileData []byte
	fileName []byte // escaped string content
	cache    json.Value
}

// The members of a part.
const (
	partType = iota
	partText
	partRefusal
	partCache
	partURL
	partDetail
	partData
	partFileName
)

var partShape = json.NewShape("type", "text", "refusal", "cache_control", "image_url.url", "image_url.detail", "file.file_data", "file.filename")

var partTypes = json.NewShape("text", "refusal", "image_url", "file")

func (t *translation) readPart(r *json.Reader) (p part) {
	m := &t.m.members
	r.Members(m, partShape)
	p.kind = partKind(partTypes.Find(m.Text(partType)))
	switch p.kind {
	case textPart:
		p.text = m.Inside(partText)
	case refusalPart:
		p.text = m.Inside(partRefusal)
	case imagePart:
		p.url, p.detail = m.Text(partURL), m.Inside(partDetail)
	case filePart:
		p.fileData, p.fileName = m.Text(partData), m.Inside(partFileName)
	}
	if m.Kind(partCache) == json.Object {
		p.cache = m.Raw(partCache)
	}
	return p
}

func (p *part) isFile() bool { return p.kind == filePart }

// blank reports whether the part is a blank text.
func (p *part) blank() bool {
	return p.kind <= refusalPart && p.kind >= 0 && translate.Blank(p.text)
}

// writePart writes a part of a message as a block.
func (t *translation) writePart(p *part, role role, m *message, n int) error {
	param := func(rest string) string { return m.param(".content[" + translate.Itoa(n) + "]" + rest) }
	switch p.kind {
	case textPart, refusalPart:
		if m.role == toolRole {
			t.writeTextBlock(p.text, p.cache)
		} else {
			t.writeText(role, p.text, p.cache)
		}
		return nil
	case imagePart:
		if len(p.detail) > 0 && string(p.detail) != "auto" {
			t.r.Warn(abi.WarnDropped, "image_url.detail")
		}
		return t.writeMedia(p, p.url, role, param(".image_url.url"))
	case filePart:
		if p.fileData == nil {
			return translate.Unsupported(param(".file.file_id"), "This provider cannot read files uploaded elsewhere; send file_data.")
		}
		return t.writeMedia(p, p.fileData, role, param(".file.file_data"))
	}
	return translate.Unsupported(param(""), "This provider does not support content of this type.")
}

// writeMedia writes an image or document, given as a data URL, as another URL, or for a file as plain base64.
func (t *translation) writeMedia(p *part, from []byte, role role, param string) error {
	var url, mediaType, data []byte
	switch head, rest, isData := splitDataURL(from); {
	case isData:
		mediaType, data = head, rest
	case hasPrefix(from, "https://") || hasPrefix(from, "http://"):
		url = from
	case p.isFile():
		mediaType, data = []byte("application/pdf"), from
	}
	document := string(mediaType) == "application/pdf" || p.isFile() && url != nil
	switch {
	case url != nil:
	case len(mediaType) == 0:
		return translate.Invalid("invalid_value", param, "Expected a data URL with base64 data, or an http or https URL.")
	case !document && !hasPrefix(mediaType, "image/"):
		return translate.Unsupported(param, "This provider supports only images and PDF documents.")
	case !translate.ValidBase64(data):
		return translate.Invalid("invalid_base64", param, "The data is not valid base64.")
	}
	if string(mediaType) == "image/jpg" {
		mediaType = []byte("image/jpeg") // image/jpg is common, but was never registered
	}

	w := t.w
	t.openMessage(role)
	w.Object()
	w.Name("type")
	if document {
		w.String("document")
	} else {
		w.String("image")
	}
	w.Name("source")
	w.Object()
	w.Name("type")
	if url != nil {
		w.String("url")
		w.Name("url")
		w.Text(url)
	} else {
		w.String("base64")
		w.Name("media_type")
		w.Text(mediaType)
		w.Name("data")
		w.Inside(data) // base64 needs no escapes
	}
	w.EndObject()
	if document && len(p.fileName) > 0 {
		w.Name("title")
		w.Inside(p.fileName)
	}
	t.writeCacheControl(p.cache)
	w.EndObject()
	return nil
}

// splitDataURL splits data:TYPE;base64,DATA (RFC 2397). ok reports whether u is a data URL; the media type is empty if
// it is not base64.
func splitDataURL(u []byte) (mediaType, data []byte, ok bool) {
	const mark = ";base64"
	rest, ok := cut(u, "data:")
	if !ok {
		return nil, nil, false
	}
	comma := index(rest, ",")
	if comma < len(mark) || string(rest[comma-len(mark):comma]) != mark {
		return nil, nil, true
	}
	mediaType = rest[:comma-len(mark)]
	if i := index(mediaType, ";"); i >= 0 {
		mediaType = mediaType[:i]
	}
	return mediaType, rest[comma+1:], true
}
