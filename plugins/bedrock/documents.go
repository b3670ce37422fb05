package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// documentFormats are the document types that the API accepts, and their media types.
var documentFormats = [...]struct{ format, mediaType string }{
	{"pdf", "application/pdf"},
	{"csv", "text/csv"},
	{"doc", "application/msword"},
	{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{"xls", "application/vnd.ms-excel"},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{"html", "text/html"},
	{"txt", "text/plain"},
	{"md", "text/markdown"},
}

// documentFormat returns the API's name of a document's type, "" if the API does not accept it. Without a media type
// the extension of the name determines it, and the default is PDF.
func documentFormat(mediaType, fileName []byte) string {
	for _, known := range documentFormats {
		if string(mediaType) == known.mediaType {
			return known.format
		}
	}
	if len(mediaType) > 0 && string(mediaType) != "application/octet-stream" {
		return ""
	}
	_, extension := cutExtension(fileName)
	for _, known := range documentFormats {
		if bytes.EqualFold(extension, []byte(known.format)) {
			return known.format
		}
	}
	if len(extension) == 0 {
		return "pdf"
	}
	return ""
}

func cutExtension(fileName []byte) (name, extension []byte) {
	if i := bytes.LastIndexByte(fileName, '.'); i >= 0 {
		return fileName[:i], fileName[i+1:]
	}
	return fileName, nil
}

// maxDocumentName is less than the API's maximum of 200 characters, so that a number can be appended.
const maxDocumentName = 190

// addDocument records a document and returns a name for it that the API accepts: unique in the request, and only
// letters, digits, single spaces, hyphens, parentheses and square brackets. The name needs no JSON escapes.
func (t *translation) addDocument(fileName []byte) []byte {
	stem, _ := cutExtension(fileName)
	name := make([]byte, 0, min(len(stem), maxDocumentName)+len(" (10)"))
	for _, c := range stem {
		switch {
		case len(name) == maxDocumentName:
		case translate.NameByte(c) && c != '_', c == '(', c == ')', c == '[', c == ']':
			name = append(name, c)
		case len(name) > 0 && name[len(name)-1] != ' ':
			name = append(name, ' ')
		}
	}
	name = bytes.TrimRight(name, " ")
	if len(name) == 0 {
		name = append(name, "document"...)
	}
	stem = name
	for n := int64(len(t.documents)) + 1; t.hasDocument(name); n++ {
		name = append(append([]byte(nil), stem...), " ("...)
		name = append(json.AppendInt(name, n), ')')
	}
	t.documents = append(t.documents, name)
	return name
}

func (t *translation) hasDocument(name []byte) bool {
	for _, known := range t.documents {
		if bytes.Equal(known, name) {
			return true
		}
	}
	return false
}
