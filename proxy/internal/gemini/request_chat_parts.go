package gemini

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// addText appends a text part whose origin is v. n counts the parts of the message.
func (c *lowering) addText(n *int, v, text jsondoc.Value) {
	c.StartPart(n, v, `{"type":"text","text":`)
	c.Raw(text)
	c.Literal("}")
}

// lowerPart appends a part of a user content.
func (r *Request) lowerPart(n *int, p *part) *apierror.Error {
	c := &r.chat
	switch {
	case p.text.Exists():
		c.addText(n, p.self, p.text)
	case p.inline.Exists():
		return r.lowerInline(n, p)
	case p.file.Exists():
		return r.lowerFile(n, p)
	case p.call.Exists():
		return clientapi.InvalidValue(p.self, clientapi.CodeInvalidValue, "'%s' is a function call, which is only allowed in contents of the model.")
	default:
		return unsupported(p.self, "The provider of this model does not support parts of this kind.")
	}
	if p.other.Exists() {
		r.drop(p.other)
	}
	return nil
}

// lowerInline appends an image, audio, a video or a file. Data of a type text/* becomes a text part, which every
// provider supports.
func (r *Request) lowerInline(n *int, p *part) *apierror.Error {
	c := &r.chat
	mimeType := p.mimeType.Inside()
	if len(mimeType) == 0 {
		return clientapi.Missing(p.inline, "mimeType")
	}
	tail := `"}}`
	switch {
	case p.isMedia("text/"):
		text, err := base64.StdEncoding.DecodeString(string(appendStdBase64(nil, r.text(p.data))))
		if err != nil {
			return notBase64(p.data)
		}
		c.StartPart(n, p.self, `{"type":"text","text":"`)
		c.Dst = jsondoc.AppendEscaped(c.Dst, text)
		c.Literal(`"}`)
		return nil
	case p.isMedia("audio/"):
		c.StartPart(n, p.self, `{"type":"input_audio","input_audio":{"format":"`)
		c.Bytes(audioFormat(mimeType))
		c.Literal(`","data":"`)
	case p.isMedia("image/"):
		c.StartPart(n, p.self, `{"type":"image_url","image_url":{"url":"`)
		c.writeDataURLPrefix(mimeType)
	case p.isMedia("video/"):
		c.StartPart(n, p.self, `{"type":"video_url","video_url":{"url":"`)
		c.writeDataURLPrefix(mimeType)
	default:
		c.StartPart(n, p.self, `{"type":"file","file":{`)
		if len(p.display.Inside()) > 0 {
			c.Literal(`"filename":`)
			c.Raw(p.display)
			c.Literal(",")
		}
		c.Literal(`"file_data":"`)
		c.writeDataURLPrefix(mimeType)
	}
	from := len(c.Dst)
	c.Dst = appendStdBase64(c.Dst, r.text(p.data))
	if !isBase64(c.Dst[from:]) {
		return notBase64(p.data)
	}
	c.Literal(tail)
	return nil
}

func notBase64(v jsondoc.Value) *apierror.Error {
	return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' must be base64.")
}

// writeDataURLPrefix appends a data URL up to its data.
func (c *lowering) writeDataURLPrefix(mimeType []byte) {
	c.Literal("data:")
	c.Bytes(mimeType)
	c.Literal(";base64,")
}

// appendStdBase64 appends base64 data in the standard alphabet, padded. Protocol buffers accept both alphabets, with or
// without padding.
func appendStdBase64(dst, data []byte) []byte {
	from := len(dst)
	dst = append(dst, data...)
	if bytes.IndexByte(data, '-') >= 0 || bytes.IndexByte(data, '_') >= 0 {
		for i := from; i < len(dst); i++ {
			switch dst[i] {
			case '-':
				dst[i] = '+'
			case '_':
				dst[i] = '/'
			}
		}
	}
	for (len(dst)-from)%4 != 0 {
		dst = append(dst, '=')
	}
	return dst
}

// isBase64 reports whether s consists of characters of padded base64.
func isBase64(s []byte) bool {
	const longestPadding = 2
	s = bytes.TrimSuffix(bytes.TrimSuffix(s, []byte("=")), []byte("="))
	if len(s)%4 == 1 {
		return false
	}
	for _, c := range s {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/') {
			return false
		}
	}
	return len(s) > longestPadding-1
}

// audioFormat returns the name of an audio format in chat completions for its MIME type.
func audioFormat(mimeType []byte) []byte {
	format := bytes.TrimPrefix(mimeType, []byte("audio/"))
	if i := bytes.IndexByte(format, ';'); i >= 0 {
		format = format[:i]
	}
	switch string(format) {
	case "x-wav", "wave", "vnd.wave":
		return []byte("wav")
	case "mpeg", "mpga":
		return []byte("mp3")
	}
	return format
}

// lowerFile appends a file by its URL. An uploaded file cannot be sent, because only its provider has access to it.
func (r *Request) lowerFile(n *int, p *part) *apierror.Error {
	c := &r.chat
	uri := r.text(p.uri)
	web := bytes.HasPrefix(uri, []byte("https://")) || bytes.HasPrefix(uri, []byte("http://"))
	if !web || bytes.HasPrefix(uri, []byte("https://generativelanguage.googleapis.com/")) {
		return unsupported(p.uri, "The provider of this model has no access to the file, which was uploaded to another provider.")
	}
	tail := `}}`
	switch {
	case p.isMedia("image/"):
		c.StartPart(n, p.self, `{"type":"image_url","image_url":{"url":`)
	case p.isMedia("video/"):
		c.StartPart(n, p.self, `{"type":"video_url","video_url":{"url":`)
	default:
		c.StartPart(n, p.self, `{"type":"file","file":{"file_data":`)
	}
	c.Raw(p.uri)
	c.Literal(tail)
	return nil
}
