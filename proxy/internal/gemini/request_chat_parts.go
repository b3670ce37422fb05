package gemini

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// partList is the content of a message that is being written as an array.
type partList struct{ parts int }

// beginPart begins a part that comes from v. What it begins with needs no escapes.
func (c *lowering) beginPart(l *partList, v jsondoc.Value, with string) {
	if l.parts == 0 {
		c.text("[")
	} else {
		c.text(",")
	}
	l.parts++
	c.origins.parts = append(c.origins.parts, v)
	c.text(with)
}

// addText appends a text part that comes from v.
func (c *lowering) addText(l *partList, v, text jsondoc.Value) {
	c.beginPart(l, v, `{"type":"text","text":`)
	c.raw(text)
	c.text("}")
}

// lowerPart appends a part of the user's.
func (r *Request) lowerPart(l *partList, p *part) *apierror.Error {
	c := &r.chat
	switch {
	case p.text.Exists():
		c.addText(l, p.self, p.text)
	case p.inline.Exists():
		return r.lowerInline(l, p)
	case p.file.Exists():
		return r.lowerFile(l, p)
	case p.call.Exists():
		return clientapi.InvalidValue(p.self, clientapi.CodeInvalidValue, "'%s' is a function call, which only the model makes.")
	default:
		return unsupported(p.self, "The provider of this model does not support a part of this kind.")
	}
	if p.other.Exists() {
		r.drop(p.other)
	}
	return nil
}

// lowerInline appends an image, a sound or a file. A text is a text to every provider.
func (r *Request) lowerInline(l *partList, p *part) *apierror.Error {
	c := &r.chat
	kind := p.mimeType.Inside()
	if len(kind) == 0 {
		return clientapi.Missing(p.inline, "mimeType")
	}
	tail := `"}}`
	switch {
	case p.isMedia("text/"):
		text, err := base64.StdEncoding.DecodeString(string(appendStandard(nil, r.text(p.data))))
		if err != nil {
			return notBase64(p.data)
		}
		c.beginPart(l, p.self, `{"type":"text","text":"`)
		c.dst = jsondoc.AppendEscaped(c.dst, text)
		c.text(`"}`)
		return nil
	case p.isMedia("audio/"):
		c.beginPart(l, p.self, `{"type":"input_audio","input_audio":{"format":"`)
		c.dst = append(c.dst, audioFormat(kind)...)
		c.text(`","data":"`)
	case p.isMedia("image/"):
		c.beginPart(l, p.self, `{"type":"image_url","image_url":{"url":"`)
		c.dataURL(kind)
	case p.isMedia("video/"):
		c.beginPart(l, p.self, `{"type":"video_url","video_url":{"url":"`)
		c.dataURL(kind)
	default:
		c.beginPart(l, p.self, `{"type":"file","file":{`)
		if len(p.display.Inside()) > 0 {
			c.text(`"filename":`)
			c.raw(p.display)
			c.text(",")
		}
		c.text(`"file_data":"`)
		c.dataURL(kind)
	}
	from := len(c.dst)
	c.dst = appendStandard(c.dst, r.text(p.data))
	if !isBase64(c.dst[from:]) {
		return notBase64(p.data)
	}
	c.text(tail)
	return nil
}

func notBase64(v jsondoc.Value) *apierror.Error {
	return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' must be base64.")
}

// dataURL appends what a data URL begins with.
func (c *lowering) dataURL(kind []byte) {
	c.text("data:")
	c.dst = append(c.dst, kind...)
	c.text(";base64,")
}

// appendStandard appends base64 in its standard alphabet, and padded. Protocol buffers take both alphabets, and data without padding.
func appendStandard(dst, data []byte) []byte {
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

// audioFormat is the format of a sound as chat completions name it, by its media type.
func audioFormat(kind []byte) []byte {
	format := bytes.TrimPrefix(kind, []byte("audio/"))
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

// lowerFile appends a file by its address. One that has been uploaded is known to its provider only.
func (r *Request) lowerFile(l *partList, p *part) *apierror.Error {
	c := &r.chat
	uri := r.text(p.uri)
	web := bytes.HasPrefix(uri, []byte("https://")) || bytes.HasPrefix(uri, []byte("http://"))
	if !web || bytes.HasPrefix(uri, []byte("https://generativelanguage.googleapis.com/")) {
		return unsupported(p.uri, "The file belongs to the provider that it was uploaded to, which this model is not of.")
	}
	tail := `}}`
	switch {
	case p.isMedia("image/"):
		c.beginPart(l, p.self, `{"type":"image_url","image_url":{"url":`)
	case p.isMedia("video/"):
		c.beginPart(l, p.self, `{"type":"video_url","video_url":{"url":`)
	default:
		c.beginPart(l, p.self, `{"type":"file","file":{"file_data":`)
	}
	c.raw(p.uri)
	c.text(tail)
	return nil
}
