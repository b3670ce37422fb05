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
		w.writeRaw(v)
		return nil
	case !first.Exists():
		w.write(`""`)
		return nil
	case single && output && !isText(first):
		w.writePlaceholder(first)
		return nil
	case single && isText(first) && !clientapi.Given(first.Get("prompt_cache_breakpoint")):
		w.writeRaw(first.Get("text"))
		return nil
	}
	w.write("[")
	n := 0
	for p := first; p.Exists(); p = p.Next() {
		if e := w.writePart(n, p, output); e != nil {
			return e
		}
		n++
	}
	w.write("]")
	return nil
}

// writePart writes part n of the current message.
func (w *lowering) writePart(n int, p jsondoc.Value, output bool) *apierror.Error {
	w.beginPart(n, p)
	if output && !isText(p) {
		w.write(`{"type":"text","text":`)
		w.writePlaceholder(p)
		w.write("}")
		return nil
	}
	if e := w.writeContentPart(p); e != nil {
		return e
	}
	if clientapi.Given(p.Get("prompt_cache_breakpoint")) {
		w.write(`,"cache_control":{"type":"ephemeral"}`)
	}
	w.write("}")
	return nil
}

// writePlaceholder writes a text in place of an image or file in an output, and records the part for writeMedia.
func (w *lowering) writePlaceholder(p jsondoc.Value) {
	w.media = append(w.media, p)
	if p.Get("type").Is("input_image") {
		w.write(`"[image]"`)
	} else {
		w.write(`"[file]"`)
	}
}

// writeMedia writes a user message with the images and files of a turn's outputs, in their order.
func (w *lowering) writeMedia() *apierror.Error {
	if len(w.media) == 0 {
		return nil
	}
	w.beginMessage("user", w.media[0])
	w.write(`,"content":[`)
	for n, p := range w.media {
		if e := w.writePart(n, p, false); e != nil {
			return e
		}
	}
	w.write("]}")
	w.media = w.media[:0]
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
		w.writeMember(`{"type":"text","text":`, p.Get("text"))
	case "input_image":
		return w.writeImage(p)
	case "input_file":
		return w.writeFile(p)
	case "input_audio":
		audio := p.Get("input_audio")
		w.writeMember(`{"type":"input_audio","input_audio":{"data":`, audio.Get("data"))
		w.writeMember(`,"format":`, audio.Get("format"))
		w.write("}")
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
	w.writeMember(`{"type":"image_url","image_url":{"url":`, url)
	switch detail := p.Get("detail"); {
	case detail.Is("original"): // chat completions has nothing higher than "high"
		w.write(`,"detail":"high"`)
	default:
		w.writeOptional(`,"detail":`, detail)
	}
	w.write("}")
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
	w.writeMember(`{"type":"file","file":{"file_data":`, data)
	w.writeOptional(`,"filename":`, p.Get("filename"))
	w.write("}")
	return nil
}
