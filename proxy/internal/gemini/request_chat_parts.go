package gemini

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// partList is the state of a message's content that is written as an array.
type partList struct {
	parts int // number of parts that have been written
}

// beginPart begins a part whose origin is v. prefix is literal JSON.
func (c *lowering) beginPart(l *partList, v jsondoc.Value, prefix string) {
	if l.parts == 0 {
		c.write("[")
	} else {
		c.write(",")
	}
	l.parts++
	c.origins.AddPart(v)
	c.write(prefix)
}

// addText appends a text part whose origin is v.
func (c *lowering) addText(l *partList, v, text jsondoc.Value) {
	c.beginPart(l, v, `{"type":"text","text":`)
	c.writeRaw(text)
	c.write("}")
}

// lowerPart appends a part of a user content.
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
func (r *Request) lowerInline(l *partList, p *part) *apierror.Error {
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
		c.beginPart(l, p.self, `{"type":"text","text":"`)
		c.dst = jsondoc.AppendEscaped(c.dst, text)
		c.write(`"}`)
		return nil
	case p.isMedia("audio/"):
		c.beginPart(l, p.self, `{"type":"input_audio","input_audio":{"format":"`)
		c.dst = append(c.dst, audioFormat(mimeType)...)
		c.write(`","data":"`)
	case p.isMedia("image/"):
		c.beginPart(l, p.self, `{"type":"image_url","image_url":{"url":"`)
		c.writeDataURLPrefix(mimeType)
	case p.isMedia("video/"):
		c.beginPart(l, p.self, `{"type":"video_url","video_url":{"url":"`)
		c.writeDataURLPrefix(mimeType)
	default:
		c.beginPart(l, p.self, `{"type":"file","file":{`)
		if len(p.display.Inside()) > 0 {
			c.write(`"filename":`)
			c.writeRaw(p.display)
			c.write(",")
		}
		c.write(`"file_data":"`)
		c.writeDataURLPrefix(mimeType)
	}
	from := len(c.dst)
	c.dst = appendStdBase64(c.dst, r.text(p.data))
	if !isBase64(c.dst[from:]) {
		return notBase64(p.data)
	}
	c.write(tail)
	return nil
}

func notBase64(v jsondoc.Value) *apierror.Error {
	return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' must be base64.")
}

// writeDataURLPrefix appends a data URL up to its data.
func (c *lowering) writeDataURLPrefix(mimeType []byte) {
	c.write("data:")
	c.dst = append(c.dst, mimeType...)
	c.write(";base64,")
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
func (r *Request) lowerFile(l *partList, p *part) *apierror.Error {
	c := &r.chat
	uri := r.text(p.uri)
	web := bytes.HasPrefix(uri, []byte("https://")) || bytes.HasPrefix(uri, []byte("http://"))
	if !web || bytes.HasPrefix(uri, []byte("https://generativelanguage.googleapis.com/")) {
		return unsupported(p.uri, "The provider of this model has no access to the file, which was uploaded to another provider.")
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
	c.writeRaw(p.uri)
	c.write(tail)
	return nil
}
