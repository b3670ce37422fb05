package calls

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// form is the embeddings API of another vendor. Its requests are translated to those of OpenAI before they are parsed, so
// that everything but the client sees only those, and vectors are rendered in its format.
type form struct {
	translate func(w *writer, root jsondoc.Value, model string) *apierror.Error
	appendTo  func(dst []byte, r *Renderer, usage response.Usage) []byte // appends the response
	vector    string                                                     // what comes before the numbers of a vector
	after     string                                                     // and after them
}

var (
	geminiEmbed      = &form{translate: translateEmbedContent, appendTo: appendEmbedContent, vector: `{"values":`, after: "}"}
	geminiEmbedBatch = &form{translate: translateBatchEmbed, appendTo: appendBatchEmbed, vector: `{"values":`, after: "}"}
	cohereEmbed      = &form{translate: translateCohereEmbed, appendTo: appendCohereEmbed}
	cohereEmbedV1    = &form{translate: translateCohereEmbed, appendTo: appendCohereEmbedV1}
)

// GeminiEmbed and GeminiEmbedBatch return the methods embedContent and batchEmbedContents of the Gemini API
// (https://ai.google.dev/api/embeddings). own is that API, whose errors they use.
func GeminiEmbed(f Failure, own *clientapi.API) *clientapi.API { return geminiEmbed.api(f, own) }

// GeminiEmbedBatch is described at GeminiEmbed.
func GeminiEmbedBatch(f Failure, own *clientapi.API) *clientapi.API {
	return geminiEmbedBatch.api(f, own)
}

// CohereEmbed returns the embeddings API of Cohere (https://docs.cohere.com/reference/embed), and CohereEmbedV1 its first
// version, whose responses differ.
func CohereEmbed(f Failure) *clientapi.API { return cohereEmbed.api(f, cohereErrors) }

// CohereEmbedV1 is described at CohereEmbed.
func CohereEmbedV1(f Failure) *clientapi.API { return cohereEmbedV1.api(f, cohereErrors) }

var cohereErrors = &clientapi.API{AppendError: func(dst []byte, e *apierror.Error, _ string) []byte {
	return append(jsondoc.AppendEscaped(append(dst, `{"message":"`...), []byte(e.Message)), `"}`...)
}}

func (o *form) api(f Failure, errors *clientapi.API) *clientapi.API {
	api := embeddings.api(f)
	api.NewRenderer = func() clientapi.Renderer { return &Renderer{call: embeddings, form: o} }
	api.AppendError, api.Status = errors.AppendError, errors.Status
	api.Translate = o.translateBody
	return api
}

// translateBody implements clientapi.API.Translate.
func (o *form) translateBody(dst, body []byte, model string) ([]byte, *apierror.Error) {
	var d jsondoc.Doc
	var facts clientapi.Facts
	l := clientapi.Limits{}.WithDefaults()
	root, e := clientapi.ReadDocument(&d, body, &l, &facts, clientapi.SnakeCase)
	if e != nil {
		return dst, e
	}
	w := writer{dst: append(dst, '{')}
	if e := o.translate(&w, root, model); e != nil {
		return dst, e
	}
	return append(w.dst, '}'), nil
}

// writer writes a request.
type writer struct {
	dst     []byte
	members int
}

// member starts a member whose value follows.
func (w *writer) member(name string) {
	if w.members > 0 {
		w.dst = append(w.dst, ',')
	}
	w.members++
	w.dst = append(append(append(w.dst, '"'), name...), `":`...)
}

// copy appends a member, unless its value is absent or null.
func (w *writer) copy(name string, v jsondoc.Value) {
	if clientapi.Given(v) {
		w.member(name)
		w.dst = append(w.dst, v.Raw()...)
	}
}

// model appends the model.
func (w *writer) model(name string) {
	w.member("model")
	w.dst = append(jsondoc.AppendEscaped(append(w.dst, '"'), []byte(name)), '"')
}

// unsupportedMember returns the error for a member that embeddings requests of OpenAI do not have.
func unsupportedMember(v jsondoc.Value) *apierror.Error {
	return apierror.Invalid(clientapi.CodeUnsupportedParameter, clientapi.Path(v), "'%s' is not supported by the gateway.", clientapi.Path(v))
}

// oneText returns the text of the only part of a list.
func oneText(parts, parent jsondoc.Value, name string) (jsondoc.Value, *apierror.Error) {
	switch only := parts.First(); {
	case !parts.Exists():
		return parts, clientapi.Missing(parent, name)
	case parts.Kind() != jsondoc.Array:
		return parts, clientapi.WrongType(parts, "an array")
	case !only.Exists():
		return parts, clientapi.EmptyArray(parts)
	case only.Next().Exists():
		return parts, clientapi.InvalidValue(parts, clientapi.CodeInvalidValue, "'%s' must have one part.")
	default:
		text := only.Get("text")
		return text, clientapi.NeedString(text, only, "text")
	}
}

// embedRequest is a request of embedContent, or one of batchEmbedContents.
type embedRequest struct{ text, task, title, dimensions jsondoc.Value }

func readEmbedRequest(v jsondoc.Value, model string) (q embedRequest, e *apierror.Error) {
	if e := clientapi.CheckObject(v); e != nil {
		return q, e
	}
	for m := v.First(); m.Exists(); m = m.Next() {
		if !clientapi.Given(m) {
			continue
		}
		switch name := m.Name(); {
		case name.Is("content"):
			if e := clientapi.CheckObject(m); e != nil {
				return q, e
			}
			if q.text, e = oneText(m.Get("parts"), m, "parts"); e != nil {
				return q, e
			}
		case name.Is("model"):
			if s := m.Text(); m.Kind() != jsondoc.String || s != model && s != "models/"+model {
				return q, clientapi.InvalidValue(m, clientapi.CodeInvalidValue, "'%s' must be the model in the URL.")
			}
		case name.Is("taskType"), name.Is("task_type"):
			q.task = m
		case name.Is("title"):
			q.title = m
		case name.Is("outputDimensionality"), name.Is("output_dimensionality"):
			q.dimensions = m
		default:
			return q, unsupportedMember(m)
		}
	}
	if !q.text.Exists() {
		return q, clientapi.Missing(v, "content")
	}
	return q, nil
}

func (q *embedRequest) write(w *writer) {
	w.copy("dimensions", q.dimensions)
	w.copy("task_type", q.task)
	w.copy("title", q.title)
}

func translateEmbedContent(w *writer, root jsondoc.Value, model string) *apierror.Error {
	q, e := readEmbedRequest(root, model)
	if e != nil {
		return e
	}
	w.model(model)
	w.copy("input", q.text)
	q.write(w)
	return nil
}

// translateBatchEmbed requires that all requests of the batch want the same kind of vectors, because one request of
// OpenAI cannot ask for different ones.
func translateBatchEmbed(w *writer, root jsondoc.Value, model string) *apierror.Error {
	list := root.Get("requests")
	switch {
	case !list.Exists():
		return clientapi.Missing(root, "requests")
	case list.Kind() != jsondoc.Array:
		return clientapi.WrongType(list, "an array")
	case !list.First().Exists():
		return clientapi.EmptyArray(list)
	}
	for m := root.First(); m.Exists(); m = m.Next() {
		if !m.Name().Is("requests") {
			return unsupportedMember(m)
		}
	}
	w.model(model)
	w.member("input")
	var first embedRequest
	for v := list.First(); v.Exists(); v = v.Next() {
		q, e := readEmbedRequest(v, model)
		if e != nil {
			return e
		}
		if v == list.First() {
			first = q
			w.dst = append(w.dst, '[')
		} else {
			w.dst = append(w.dst, ',')
			for _, pair := range [...][2]jsondoc.Value{{first.task, q.task}, {first.title, q.title}, {first.dimensions, q.dimensions}} {
				if string(pair[0].Raw()) != string(pair[1].Raw()) {
					return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' must have the same taskType, title and outputDimensionality as the first request.")
				}
			}
		}
		w.dst = append(w.dst, q.text.Raw()...)
	}
	w.dst = append(w.dst, ']')
	first.write(w)
	return nil
}

// translateCohereEmbed asks for encoding_format only if the client names the type of its vectors, since the first
// version of the API then has another response.
func translateCohereEmbed(w *writer, root jsondoc.Value, _ string) *apierror.Error {
	texts, inputs := jsondoc.Value{}, jsondoc.Value{}
	for m := root.First(); m.Exists(); m = m.Next() {
		if !clientapi.Given(m) {
			continue
		}
		switch name := m.Name(); {
		case name.Is("model"), name.Is("input_type"), name.Is("truncate"), name.Is("max_tokens"), name.Is("priority"):
			w.copy(name.Text(), m)
		case name.Is("output_dimension"):
			w.copy("dimensions", m)
		case name.Is("texts"):
			texts = m
		case name.Is("inputs"):
			inputs = m
		case name.Is("embedding_types"):
			if m.Kind() != jsondoc.Array {
				return clientapi.WrongType(m, "an array")
			}
			for t := m.First(); t.Exists(); t = t.Next() {
				if !t.Is("float") {
					return clientapi.NotOneOf(t, "float")
				}
			}
			if m.First().Exists() {
				w.member("encoding_format")
				w.dst = append(w.dst, `"float"`...)
			}
		default:
			return unsupportedMember(m)
		}
	}
	switch {
	case texts.Exists() && inputs.Exists():
		return clientapi.InvalidValue(inputs, clientapi.CodeInvalidValue, "'%s' cannot be combined with 'texts'.")
	case texts.Exists():
		if e := clientapi.CheckStrings(texts); e != nil {
			return e
		}
		if !texts.First().Exists() {
			return clientapi.EmptyArray(texts)
		}
		w.copy("input", texts)
		return nil
	case !inputs.Exists():
		return clientapi.Missing(root, "texts")
	case inputs.Kind() != jsondoc.Array:
		return clientapi.WrongType(inputs, "an array")
	case !inputs.First().Exists():
		return clientapi.EmptyArray(inputs)
	}
	w.member("input")
	separator := byte('[')
	for v := inputs.First(); v.Exists(); v = v.Next() {
		if e := clientapi.CheckObject(v); e != nil {
			return e
		}
		text, e := oneText(v.Get("content"), v, "content")
		if e != nil {
			return e
		}
		w.dst = append(append(w.dst, separator), text.Raw()...)
		separator = ','
	}
	w.dst = append(w.dst, ']')
	return nil
}

func appendUsageMetadata(dst []byte, usage response.Usage) []byte {
	return append(strconv.AppendInt(append(dst, `,"usageMetadata":{"promptTokenCount":`...), usage.Prompt, 10), "}}"...)
}

func appendEmbedContent(dst []byte, r *Renderer, usage response.Usage) []byte {
	return appendUsageMetadata(append(append(dst, `{"embedding":`...), r.body...), usage)
}

func appendBatchEmbed(dst []byte, r *Renderer, usage response.Usage) []byte {
	return appendUsageMetadata(append(append(append(dst, `{"embeddings":[`...), r.body...), ']'), usage)
}

func appendCohereEmbed(dst []byte, r *Renderer, usage response.Usage) []byte {
	dst = append(append(append(dst, `{"response_type":"embeddings_by_type","embeddings":{"float":[`...), r.body...), "]}"...)
	return r.appendCohereMeta(dst, '2', usage)
}

func appendCohereEmbedV1(dst []byte, r *Renderer, usage response.Usage) []byte {
	if r.typed {
		dst = append(append(append(dst, `{"response_type":"embeddings_by_type","embeddings":{"float":[`...), r.body...), "]}"...)
	} else {
		dst = append(append(append(dst, `{"response_type":"embeddings_floats","embeddings":[`...), r.body...), ']')
	}
	return r.appendCohereMeta(dst, '1', usage)
}

// appendCohereMeta appends the members that responses of both versions have, and the end.
func (r *Renderer) appendCohereMeta(dst []byte, version byte, usage response.Usage) []byte {
	dst = append(append(append(dst, `,"id":"`...), r.head.ID...), `","texts":`...)
	dst = append(append(dst, r.texts...), `,"meta":{"api_version":{"version":"`...)
	dst = append(append(dst, version), `"},"billed_units":{"input_tokens":`...)
	return append(strconv.AppendInt(dst, usage.Prompt, 10), "}}}"...)
}

// appendForm appends the vectors of an embeddings response in the renderer's form. The reader has checked the body.
func (r *Renderer) appendForm(dst, body []byte) []byte {
	var d jsondoc.Doc
	if d.Parse(body, responseLimits) != nil {
		return dst
	}
	for item := d.Root().Get("data").First(); item.Exists(); item = item.Next() {
		v := item.Get("embedding")
		if v.Kind() != jsondoc.Array || !jsondoc.ValidNumbers(v.Raw()) {
			r.fail("vector is not an array of numbers")
			return dst
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, r.form.vector...), v.Raw()...), r.form.after...)
	}
	return dst
}
