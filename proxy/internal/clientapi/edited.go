package clientapi

import "github.com/sluice-gateway/sluice/proxy/internal/jsondoc"

// EditedDocument holds the gateway's edits of a client's document, and the edited document, for providers that speak
// the client's API. The zero value has no edits.
type EditedDocument struct {
	edits jsondoc.Edits
	inUse bool // edits is in use

	doc   jsondoc.Doc // the edited document, if ready is set
	body  []byte
	ready bool
}

// Reset drops the edits and the references to the client's document. It frees the memory of a very large document.
func (e *EditedDocument) Reset() {
	const maxKept = 64 << 10
	if e.inUse {
		e.edits.Reset(nil)
		e.inUse = false
	}
	if e.ready {
		e.doc.Reset()
		e.ready = false
	}
	if e.body = e.body[:0]; cap(e.body) > maxKept {
		e.body = nil
	}
}

// Edit returns the recorder of edits of doc. All edits must be recorded before the first call of Document.
func (e *EditedDocument) Edit(doc *jsondoc.Doc) *jsondoc.Edits {
	if !e.inUse {
		e.inUse = true
		e.edits.Reset(doc)
	}
	return &e.edits
}

// Document returns the edited document, or doc and body themselves if there are no edits. Both are valid until Reset.
// The edits must leave a valid document.
func (e *EditedDocument) Document(doc *jsondoc.Doc, body []byte, l *Limits) (*jsondoc.Doc, []byte) {
	if !e.inUse {
		return doc, body
	}
	if !e.ready {
		edited, err := e.edits.Apply(e.body[:0])
		if err == nil {
			err = e.doc.Parse(edited, l.Document())
		}
		if err != nil {
			panic("edited document is invalid: " + err.Error()) // cannot happen: edits remove or replace whole values, each at most once
		}
		e.body, e.ready = edited, true
	}
	return &e.doc, e.body
}
