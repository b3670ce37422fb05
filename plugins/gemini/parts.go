package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// readFile reads the member file of a part. All slices are escaped string contents.
func readFile(file json.Value) (data, id, name []byte) {
	var r json.Reader
	r.ResetChecked(file)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "file_data":
			data = r.Inside()
		case "file_id":
			id = r.Inside()
		case "filename":
			name = r.Inside()
		}
	}
	return data, id, name
}

// readAudio reads the member input_audio of a part. The slices are escaped string contents.
func readAudio(audio json.Value) (data, format []byte) {
	var r json.Reader
	r.ResetChecked(audio)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "data":
			data = r.Inside()
		case "format":
			format = r.Inside()
		}
	}
	return data, format
}

// writePart writes a part of a message's content.
func (t *translation) writePart(p *chat.Part, role string, m *chat.Message) error {
	param := func(rest string) string { return p.Param(m, rest) }
	switch kind := string(p.Type); kind {
	case "text", "refusal":
		t.writeText(role, p.Text)
		return nil
	case "image_url", "video_url":
		t.warnDropped(len(p.Detail) > 0 && string(p.Detail) != "auto", kind+".detail")
		return t.writeMedia(p.URL, "", role, param("."+kind+".url"))
	case "file":
		data, id, name := readFile(p.File)
		switch {
		case data != nil:
			return t.writeMedia(data, mediaTypeByName(name, "application/pdf"), role, param(".file.file_data"))
		case bytes.Contains(id, []byte("://")):
			return t.writeURL(id, role, param(".file.file_id"))
		}
		return translate.Unsupported(param(".file.file_id"), "This provider accepts uploaded files only by URI; send the URI or file_data.")
	case "input_audio":
		data, format := readAudio(p.Audio)
		if !plainWord(format) {
			return translate.Invalid("invalid_value", param(".input_audio.format"), "Expected the name of a format, such as wav or mp3.")
		}
		return t.writeMedia(data, "audio/"+string(format), role, param(".input_audio.data"))
	}
	return translate.Unsupported(param(""), "This provider does not support content of this type.")
}

// writeMedia writes an image, a video, a file or audio, given as a data URL, as another URL, or as plain base64 if its
// type is known.
func (t *translation) writeMedia(from []byte, mediaType, role, param string) error {
	from = unescaped(from)
	data, isData := bytes.CutPrefix(from, []byte("data:"))
	switch {
	case isData:
		head, rest, _ := bytes.Cut(data, []byte{','})
		kind, isBase64 := bytes.CutSuffix(head, []byte(";base64"))
		if i := bytes.IndexByte(kind, ';'); i >= 0 {
			kind = kind[:i]
		}
		if !isBase64 || len(kind) == 0 {
			return translate.Invalid("invalid_value", param, "Expected a data URL with a type and base64 data.")
		}
		mediaType, data = string(kind), rest
	case bytes.Contains(from[:min(len(from), maxScheme)], []byte("://")):
		return t.writeURL(from, role, param)
	case mediaType == "":
		return translate.Invalid("invalid_value", param, "Expected a data URL or an address.")
	default:
		data = from
	}
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg" // image/jpg is common, but was never registered
	}
	w := t.w
	t.openContent(role)
	w.Object()
	w.Name("inlineData")
	w.Object()
	w.Name("mimeType")
	w.Inside([]byte(mediaType))
	w.Name("data")
	w.Inside(data)
	w.EndObject()
	w.EndObject()
	return nil
}

// maxScheme is the number of bytes within which the scheme of a URL must end.
const maxScheme = 32

// unescaped returns escaped string content without unnecessary escapes. URLs and base64 need none, but some clients
// escape every slash.
func unescaped(inside []byte) []byte {
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	return json.AppendInside(nil, json.AppendText(nil, inside))
}

// writeURL writes media given as a URL. The operator must allow it, because the provider fetches it with the
// operator's permissions.
func (t *translation) writeURL(url []byte, role, param string) error {
	if !t.o.fileURI {
		return translate.Unsupported(param, "Fetching URLs is not enabled for this provider; send the data in a data URL.")
	}
	w := t.w
	t.openContent(role)
	w.Object()
	w.Name("fileData")
	w.Object()
	if kind := mediaTypeByName(url, ""); kind != "" {
		w.Name("mimeType")
		w.String(kind)
	}
	w.Name("fileUri")
	w.Inside(url)
	w.EndObject()
	w.EndObject()
	return nil
}

// types maps file name extensions to the media types that the provider reads.
var types = [...]struct{ ending, kind string }{
	{".png", "image/png"}, {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"}, {".webp", "image/webp"},
	{".gif", "image/gif"}, {".heic", "image/heic"}, {".heif", "image/heif"},
	{".pdf", "application/pdf"}, {".txt", "text/plain"}, {".md", "text/md"}, {".html", "text/html"}, {".csv", "text/csv"},
	{".json", "application/json"}, {".xml", "text/xml"},
	{".wav", "audio/wav"}, {".mp3", "audio/mp3"}, {".aac", "audio/aac"}, {".ogg", "audio/ogg"}, {".flac", "audio/flac"},
	{".mp4", "video/mp4"}, {".mpeg", "video/mpeg"}, {".mov", "video/mov"}, {".webm", "video/webm"},
}

// mediaTypeByName returns the media type for the extension of a file name or URL, otherwise the given type.
func mediaTypeByName(name []byte, given string) string {
	if i := bytes.IndexAny(name, "?#"); i >= 0 {
		name = name[:i]
	}
	for _, t := range types {
		if n := len(name) - len(t.ending); n >= 0 && equalFold(name[n:], t.ending) {
			return t.kind
		}
	}
	return given
}

// equalFold compares s with a lower-case ASCII word, ignoring case.
func equalFold(s []byte, word string) bool {
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// plainWord reports whether s consists of lower-case letters, digits, dots and dashes.
func plainWord(s []byte) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return len(s) > 0
}
