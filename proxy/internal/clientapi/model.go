package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// AppendWithModel appends the body of a request to an OpenAI API with its member model set to the model in the path.
func AppendWithModel(dst, body []byte, model string) ([]byte, *apierror.Error) {
	var d jsondoc.Doc
	var facts Facts
	l := Limits{}.WithDefaults()
	root, failed := ReadDocument(&d, body, &l, &facts, SnakeCase)
	if failed != nil {
		return dst, failed
	}
	name := string(append(jsondoc.AppendEscaped([]byte{'"'}, []byte(model)), '"'))
	var e jsondoc.Edits
	e.Reset(&d)
	if v := root.Get("model"); v.Exists() {
		e.SetValue(v, name)
	} else {
		e.AddMember(root, "model", name)
	}
	out, err := e.Apply(dst)
	if err != nil { // cannot happen: the document has not changed
		failed := apierror.Fail(abi.FailServer, "", "", "")
		failed.Cause = err
		return dst, failed
	}
	return out, nil
}
