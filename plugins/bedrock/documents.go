package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// documentFormats are the types of documents that the API takes, with the media types that say so.
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

// documentFormat is the API's name of a document's type, "" if it takes no such documents. Without a media type the
// name's extension decides, and without either it is a PDF.
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

// maxDocumentName leaves room for a number after the name: the API takes 200 characters.
const maxDocumentName = 190

// addDocument is the name of a document as the API takes it: letters, digits, single spaces, hyphens, parentheses and
// square brackets, and no name twice in a request. Nothing in it needs escapes.
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
