package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// writeContent writes a string or an array of parts. A single text part is written as a string, which every provider
// accepts. The output of a call can only have text in chat completions: see writePlaceholder.
func (w *lowering) writeContent(v jsondoc.Value, output bool) *apierror.Error {
	first := v.First()
	switch single := !first.Next().Exists(); {
	case v.Kind() == jsondoc.String:
		w.Raw(v)
		return nil
	case !first.Exists():
		w.Literal(`""`)
		return nil
	case single && output && !isText(first):
		w.writePlaceholder(first)
		return nil
	case single && isText(first) && !clientapi.Given(first.Get("prompt_cache_breakpoint")):
		w.Raw(first.Get("text"))
		return nil
	}
	n := 0
	for p := first; p.Exists(); p = p.Next() {
		if e := w.writePart(&n, p, output); e != nil {
			return e
		}
	}
	w.Literal("]")
	return nil
}

// writePart writes a part of the current message. n counts the parts.
func (w *lowering) writePart(n *int, p jsondoc.Value, output bool) *apierror.Error {
	w.StartPart(n, p, "")
	if output && !isText(p) {
		w.Literal(`{"type":"text","text":`)
		w.writePlaceholder(p)
		w.Literal("}")
		return nil
	}
	if e := w.writeContentPart(p); e != nil {
		return e
	}
	if clientapi.Given(p.Get("prompt_cache_breakpoint")) {
		w.Literal(`,"cache_control":{"type":"ephemeral"}`)
	}
	w.Literal("}")
	return nil
}

// writePlaceholder writes a text in place of an image or file in an output, and records the part for writeMedia.
func (w *lowering) writePlaceholder(p jsondoc.Value) {
	w.Media = append(w.Media, p)
	if p.Get("type").Is("input_image") {
		w.Literal(`"[image]"`)
	} else {
		w.Literal(`"[file]"`)
	}
}

// writeMedia writes a user message with the images and files of a turn's outputs, in their order.
func (w *lowering) writeMedia() *apierror.Error {
	if len(w.Media) == 0 {
		return nil
	}
	w.StartMessage(w.Media[0], "user")
	w.Literal(`,"content":`)
	n := 0
	for _, p := range w.Media {
		if e := w.writePart(&n, p, false); e != nil {
			return e
		}
	}
	w.Literal("]}")
	w.Media = w.Media[:0]
	return nil
}

// isText reports whether a part is a text of the user or the assistant.
func isText(p jsondoc.Value) bool {
	typ := p.Get("type")
	return typ.Is("input_text") || typ.Is("output_text")
}

// writeContentPart writes a part without its closing brace.
func (w *lowering) writeContentPart(p jsondoc.Value) *apierror.Error {
	typ := p.Get("type")
	switch string(w.r.keyword(typ)) {
	case "input_text", "output_text":
		w.Literal(`{"type":"text","text":`)
		w.Raw(p.Get("text"))
	case "input_image":
		return w.writeImage(p)
	case "input_file":
		return w.writeFile(p)
	case "input_audio":
		audio := p.Get("input_audio")
		w.Literal(`{"type":"input_audio","input_audio":{"data":`)
		w.Raw(audio.Get("data"))
		w.Member("format", audio.Get("format"))
		w.Literal("}")
	default:
		return unsupported(typ, "Parts of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
	}
	return nil
}

func (w *lowering) writeImage(p jsondoc.Value) *apierror.Error {
	url, id := p.Get("image_url"), p.Get("file_id")
	switch {
	case clientapi.Given(url):
	case clientapi.Given(id):
		return unsupported(id, "This model's provider has no access to uploaded files; send image_url.")
	default:
		return clientapi.Missing(p, "image_url")
	}
	w.Literal(`{"type":"image_url","image_url":{"url":`)
	w.Raw(url)
	switch detail := p.Get("detail"); {
	case detail.Is("original"): // chat completions has nothing higher than "high"
		w.Literal(`,"detail":"high"`)
	default:
		w.writeOptional("detail", detail)
	}
	w.Literal("}")
	return nil
}

func (w *lowering) writeFile(p jsondoc.Value) *apierror.Error {
	data := p.Get("file_data")
	if !clientapi.Given(data) {
		for _, member := range [...]string{"file_id", "file_url"} {
			if v := p.Get(member); clientapi.Given(v) {
				return unsupported(v, "This model's provider does not fetch files; send file_data.")
			}
		}
		return clientapi.Missing(p, "file_data")
	}
	w.Literal(`{"type":"file","file":{"file_data":`)
	w.Raw(data)
	w.writeOptional("filename", p.Get("filename"))
	w.Literal("}")
	return nil
}
