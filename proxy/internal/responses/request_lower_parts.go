package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// content writes a text or a list of parts. One text alone is written as a string, which all providers take.
func (w *lowering) content(v jsondoc.Value) *apierror.Error {
	first := v.First()
	switch {
	case v.Kind() == jsondoc.String:
		w.raw(v)
		return nil
	case !first.Exists():
		w.string(`""`)
		return nil
	case !first.Next().Exists() && isText(first.Get("type")) && !clientapi.Given(first.Get("prompt_cache_breakpoint")):
		w.raw(first.Get("text"))
		return nil
	}
	w.string("[")
	n := 0
	for p := first; p.Exists(); p = p.Next() {
		w.part(n, p)
		n++
		if e := w.contentPart(p); e != nil {
			return e
		}
		if clientapi.Given(p.Get("prompt_cache_breakpoint")) {
			w.string(`,"cache_control":{"type":"ephemeral"}`)
		}
		w.string("}")
	}
	w.string("]")
	return nil
}

// isText reports whether a part of this type is a text, of whomever.
func isText(typ jsondoc.Value) bool { return typ.Is("input_text") || typ.Is("output_text") }

// contentPart writes a part, but for its closing brace.
func (w *lowering) contentPart(p jsondoc.Value) *apierror.Error {
	typ := p.Get("type")
	switch string(w.r.keyword(typ)) {
	case "input_text", "output_text":
		w.member(`{"type":"text","text":`, p.Get("text"))
	case "input_image":
		return w.image(p)
	case "input_file":
		return w.file(p)
	case "input_audio":
		audio := p.Get("input_audio")
		w.member(`{"type":"input_audio","input_audio":{"data":`, audio.Get("data"))
		w.member(`,"format":`, audio.Get("format"))
		w.string("}")
	default:
		return unsupported(typ, "Parts of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
	}
	return nil
}

func (w *lowering) image(p jsondoc.Value) *apierror.Error {
	url, id := p.Get("image_url"), p.Get("file_id")
	switch {
	case clientapi.Given(url):
	case clientapi.Given(id):
		return unsupported(id, "This model's provider does not have the client's files; send image_url.")
	default:
		return clientapi.Missing(p, "image_url")
	}
	w.member(`{"type":"image_url","image_url":{"url":`, url)
	switch detail := p.Get("detail"); {
	case detail.Is("original"): // the most that the other API has
		w.string(`,"detail":"high"`)
	default:
		w.given(`,"detail":`, detail)
	}
	w.string("}")
	return nil
}

func (w *lowering) file(p jsondoc.Value) *apierror.Error {
	data := p.Get("file_data")
	if !clientapi.Given(data) {
		for _, member := range [...]string{"file_id", "file_url"} {
			if v := p.Get(member); clientapi.Given(v) {
				return unsupported(v, "This model's provider does not fetch files; send file_data.")
			}
		}
		return clientapi.Missing(p, "file_data")
	}
	w.member(`{"type":"file","file":{"file_data":`, data)
	w.given(`,"filename":`, p.Get("filename"))
	w.string("}")
	return nil
}
