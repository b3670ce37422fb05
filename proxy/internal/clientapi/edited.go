package clientapi

import "github.com/sluice-gateway/sluice/proxy/internal/jsondoc"

// EditedDocument holds the gateway's edits of a client's document, and the edited document, for providers that speak
// the client's API. The zero value has no edits.
type EditedDocument struct {
	edits jsondoc.Edits
	doc   jsondoc.Doc // the edited document
	body  []byte      // its text; empty until Document has applied the edits
}

// Reset drops the edits and the references to the client's document. It frees the memory of a very large document.
func (e *EditedDocument) Reset() {
	const maxKept = 64 << 10
	if e.edits.Len() == 0 {
		return
	}
	e.edits.Reset(nil)
	e.doc.Reset()
	if e.body = e.body[:0]; cap(e.body) > maxKept {
		e.body = nil
	}
}

// Edit returns the recorder of edits of doc. All edits must be recorded before the first call of Document.
func (e *EditedDocument) Edit(doc *jsondoc.Doc) *jsondoc.Edits {
	if e.edits.Len() == 0 {
		e.edits.Reset(doc)
	}
	return &e.edits
}

// Document returns the edited document, or doc and body themselves if there are no edits. Both are valid until Reset.
// The edits must leave a valid document.
func (e *EditedDocument) Document(doc *jsondoc.Doc, body []byte, l *Limits) (*jsondoc.Doc, []byte) {
	if e.edits.Len() == 0 {
		return doc, body
	}
	if len(e.body) == 0 {
		edited, err := e.edits.Apply(e.body)
		if err == nil {
			err = e.doc.Parse(edited, l.Document())
		}
		if err != nil {
			panic("edited document is invalid: " + err.Error()) // cannot happen: edits remove or replace whole values, each at most once
		}
		e.body = edited
	}
	return &e.doc, e.body
}
