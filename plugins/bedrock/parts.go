package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// part is a part of a message's content.
type part struct {
	kind     []byte
	text     []byte // escaped content of a text or refusal
	url      []byte // of an image
	detail   []byte
	data     []byte // of a file or of audio
	format   []byte // of audio
	fileName []byte
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
	partFileData
	partFileName
	partAudioData
	partAudioFormat
)

var partShape = json.NewShape("type", "text", "refusal", "cache_control", "image_url.url", "image_url.detail", "file.file_data",
	"file.filename", "input_audio.data", "input_audio.format")

// readPart reads the current part. m is a buffer for its members.
func readPart(r *json.Reader, m *json.Members) (p part) {
	r.Members(m, partShape)
	p.kind = m.Text(partType)
	if m.Kind(partCache) == json.Object {
		p.cache = m.Raw(partCache)
	}
	switch string(p.kind) {
	case "text":
		p.text = m.Inside(partText)
	case "refusal":
		p.text = m.Inside(partRefusal)
	case "image_url":
		p.url, p.detail = m.Text(partURL), m.Inside(partDetail)
	case "file":
		p.data, p.fileName = m.Text(partFileData), m.Text(partFileName)
	case "input_audio":
		p.data, p.format = m.Text(partAudioData), m.Text(partAudioFormat)
	}
	return p
}

// blank reports whether the part is a blank text.
func (p *part) blank() bool {
	switch string(p.kind) {
	case "text", "refusal":
		return translate.Blank(p.text)
	}
	return false
}

// writePart writes a part of a message as a block.
func (t *translation) writePart(p *part, role string, m *message, n int) error {
	param := func(rest string) string { return m.param(".content[" + translate.Itoa(n) + "]" + rest) }
	result := string(m.role) == "tool"
	switch string(p.kind) {
	case "text", "refusal":
		if !result {
			t.writeText(role, p.text, p.cache)
		} else if !p.blank() {
			t.writeTextBlock(p.text, nil)
		}
		return nil
	case "image_url":
		t.warnDropped(len(p.detail) > 0 && string(p.detail) != "auto", "image_url.detail")
		return t.writeMedia(p, p.url, result, param(".image_url.url"))
	case "file":
		if p.data == nil {
			return translate.Unsupported(param(".file.file_id"), "This provider cannot read files uploaded elsewhere; send file_data.")
		}
		return t.writeMedia(p, p.data, result, param(".file.file_data"))
	case "input_audio":
		if result || !validName(p.format) {
			return translate.Unsupported(param(""), "This provider does not support this audio format.")
		}
		if !translate.ValidBase64(p.data) {
			return invalidBase64(param(".input_audio.data"))
		}
		t.openMessage(role)
		t.writeBytesBlock("audio", string(p.format), nil, p.data)
		t.writeCachePoint(p.cache)
		return nil
	}
	return translate.Unsupported(param(""), "This provider does not support content of this type.")
}

func invalidBase64(param string) error {
	return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: "invalid_base64", Param: param, Message: "The data is not valid base64."}
}

// writeMedia writes an image or document, given as a data URL, or for a file as plain base64. The only other URLs that
// the API accepts are of the operator's own storage, to which clients must not refer.
func (t *translation) writeMedia(p *part, from []byte, result bool, param string) error {
	mediaType, data, isData := splitDataURL(from)
	switch {
	case isData && len(mediaType) == 0:
		return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: "invalid_value", Param: param, Message: "Expected a data URL with base64 data."}
	case isData:
	case string(p.kind) == "file" && bytes.IndexByte(from, ':') < 0:
		data = from
	default:
		return translate.Unsupported(param, "This provider does not accept URLs of images and files; send a data URL.")
	}
	image := imageFormat(mediaType)
	format := image
	if image == "" {
		format = documentFormat(mediaType, p.fileName)
	}
	if format == "" {
		return translate.Unsupported(param, "This provider does not support media of this type.")
	}
	if !translate.ValidBase64(data) {
		return invalidBase64(param)
	}
	t.openMessage("user")
	if image != "" {
		t.writeBytesBlock("image", format, nil, data)
	} else {
		name := t.addDocument(p.fileName)
		if !result {
			t.document = name
		}
		t.writeBytesBlock("document", format, name, data)
	}
	if !result {
		t.writeCachePoint(p.cache)
	}
	return nil
}

// writeBytesBlock writes a block of media, given as base64. name is the name of a document as escaped string content,
// nil for other kinds.
func (t *translation) writeBytesBlock(kind, format string, name, data []byte) {
	w := t.w
	w.Object()
	w.Name(kind)
	w.Object()
	w.Name("format")
	w.String(format)
	if name != nil {
		w.Name("name")
		w.Inside(name)
	}
	w.Name("source")
	w.Object()
	w.Name("bytes")
	w.Inside(data) // base64 needs no escapes
	w.EndObject()
	w.EndObject()
	w.EndObject()
}

// imageFormat returns the API's name of an image's type, "" if the API does not accept it.
func imageFormat(mediaType []byte) string {
	switch string(mediaType) {
	case "image/png":
		return "png"
	case "image/jpeg", "image/jpg":
		return "jpeg"
	case "image/gif":
		return "gif"
	case "image/webp":
		return "webp"
	}
	return ""
}

// splitDataURL splits data:TYPE;base64,DATA (RFC 2397). ok reports whether u is a data URL; the media type is empty if
// it is not base64.
func splitDataURL(u []byte) (mediaType, data []byte, ok bool) {
	rest, ok := bytes.CutPrefix(u, []byte("data:"))
	if !ok {
		return nil, nil, false
	}
	head, data, _ := bytes.Cut(rest, []byte{','})
	mediaType, isBase64 := bytes.CutSuffix(head, []byte(";base64"))
	if !isBase64 {
		return nil, nil, true
	}
	mediaType, _, _ = bytes.Cut(mediaType, []byte{';'})
	return mediaType, data, true
}
