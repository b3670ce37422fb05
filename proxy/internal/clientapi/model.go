package clientapi

import (
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// AppendWithModel appends the document of a request with its member model set to the model that the path of the request
// names. It reports false, and appends nothing, if body is not a JSON object that the gateway accepts.
func AppendWithModel(dst, body []byte, model string) (document []byte, ok bool) {
	var d jsondoc.Doc
	err := d.Parse(body, jsondoc.Limits{})
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok && syntax.Surrogate {
		jsondoc.RepairSurrogates(body)
		err = d.Parse(body, jsondoc.Limits{})
	}
	root := d.Root()
	if err != nil || root.Kind() != jsondoc.Object {
		return dst, false
	}
	name := string(append(jsondoc.AppendEscaped([]byte{'"'}, []byte(model)), '"'))
	var e jsondoc.Edits
	e.Reset(&d)
	if v := root.Get("model"); v.Exists() {
		e.SetValue(v, name)
	} else {
		e.AddMember(root, "model", name)
	}
	document, err = e.Apply(dst)
	return document, err == nil
}
