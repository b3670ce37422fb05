package calls

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a parsed and validated request of one of the APIs. Members that the API does not define are left
// unchanged. It implements clientapi.Request, and is not safe for concurrent use.
type Request struct {
	call  *call
	doc   jsondoc.Doc
	body  []byte
	facts clientapi.Facts

	inputs    int           // texts to embed, or documents to rank
	base64    bool          // the client wants vectors as base64
	typed     bool          // the client names the encoding of vectors
	maxTokens jsondoc.Value // the member that facts.MaxTokens comes from
}

// Parse implements clientapi.Request.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	l = l.WithDefaults()
	r.body = body
	root, e := clientapi.ReadDocument(&r.doc, body, &l, &r.facts, clientapi.SnakeCase)
	if e != nil {
		return e
	}
	return r.call.request(r, root, &l)
}

// Describe implements clientapi.Request.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

// Document implements clientapi.Request.
func (r *Request) Document() (*jsondoc.Doc, []byte) { return &r.doc, r.body }

// FitModel implements clientapi.Request. Only legacy completions have a token limit.
func (r *Request) FitModel(maxTokens int64, _, strict bool) *apierror.Error {
	asked := r.facts.MaxTokens
	switch {
	case maxTokens <= 0 || asked <= maxTokens:
		return nil
	case strict:
		return clientapi.InvalidValue(r.maxTokens, clientapi.CodeIntegerAbove, "'%s' is %d, but the model generates at most %d tokens.", asked, maxTokens)
	}
	r.facts.Warn(abi.WarnClamped, "max_tokens")
	r.facts.MaxTokens = maxTokens
	r.maxTokens.LowerInt(maxTokens)
	return nil
}

// AppendChat implements clientapi.Request. It fails: no chat completions request is equivalent.
func (r *Request) AppendChat(dst []byte) ([]byte, []clientapi.Warning, *apierror.Error) {
	return dst, nil, apierror.Fail(abi.FailUnsupported, "", "", "The provider of this model does not support "+r.call.name+" requests. If its upstream does, the operator can list them in forms, an option of the plugin openai.")
}

// Origin implements clientapi.Request.
func (r *Request) Origin(string) string { return "" }

// Reset implements clientapi.Request.
func (r *Request) Reset() {
	r.doc.Reset()
	clear(r.facts.Warnings)
	*r = Request{call: r.call, doc: r.doc, facts: clientapi.Facts{Warnings: r.facts.Warnings[:0]}}
}

// readModel reads the model's name, which is required.
func (r *Request) readModel(root jsondoc.Value) *apierror.Error {
	v := root.Get("model")
	if e := clientapi.NeedString(v, root, "model"); e != nil {
		return e
	}
	if len(v.Inside()) == 0 {
		return clientapi.InvalidValue(v, clientapi.CodeEmptyString, "'%s' must not be empty.")
	}
	r.facts.Model = v.Text()
	if strings.IndexByte(r.facts.Model, 0) >= 0 {
		return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' must not contain the character U+0000.")
	}
	return nil
}

// forms are the forms of inputs that a member allows besides strings.
type forms uint8

const (
	tokens  forms = 1 << iota // lists of tokens
	objects                   // lists of objects: content parts, or documents with fields
)

// readInputs validates a member that is a string, or a list of strings or of inputs in one of the allowed forms. It
// returns the number of inputs, and adds their texts to TextBytes. want describes what is allowed, for an error.
func (r *Request) readInputs(v jsondoc.Value, want string, allowed forms, l *clientapi.Limits) (n int, e *apierror.Error) {
	switch v.Kind() {
	case jsondoc.String:
		r.facts.TextBytes += len(v.Inside())
		return 1, nil
	case jsondoc.Array:
	default:
		return 0, clientapi.WrongType(v, want)
	}
	kind := v.First().Kind()
	switch {
	case kind == jsondoc.Invalid:
		return 0, clientapi.EmptyArray(v)
	case kind == jsondoc.String:
	case kind == jsondoc.Number && allowed&tokens != 0:
		return 1, r.readTokens(v)
	case kind == jsondoc.Array && allowed&tokens != 0:
	case kind == jsondoc.Object && allowed&objects != 0:
	default:
		return 0, clientapi.WrongType(v, want)
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		switch {
		case c.Kind() == jsondoc.Array && kind == jsondoc.Array:
			if !c.First().Exists() {
				return 0, clientapi.EmptyArray(c)
			}
			e = r.readTokens(c)
		case c.Kind() == jsondoc.String && (kind == jsondoc.String || kind == jsondoc.Object),
			c.Kind() == jsondoc.Object && allowed&objects != 0 && kind != jsondoc.Array:
			r.countTexts(c)
		default:
			e = clientapi.WrongType(c, "of the same type as the first element")
		}
		if e != nil {
			return 0, e
		}
		n++
	}
	if n > l.Messages {
		return 0, clientapi.TooMany(v, l.Messages)
	}
	return n, nil
}

// bytesPerToken is what a token adds to TextBytes.
const bytesPerToken = 4

// readTokens validates a list of tokens, and adds them to TextBytes.
func (r *Request) readTokens(list jsondoc.Value) *apierror.Error {
	for c := list.First(); c.Exists(); c = c.Next() {
		if n, ok := c.Int(); !ok || n < 0 {
			return clientapi.WrongType(c, "a token, an integer that is not negative")
		}
		r.facts.TextBytes += bytesPerToken
	}
	return nil
}

// countTexts adds the strings of an input to TextBytes, without images.
func (r *Request) countTexts(v jsondoc.Value) {
	if v.Kind() == jsondoc.String {
		r.facts.TextBytes += len(v.Inside())
		return
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		if name := c.Name(); !name.Is("type") && !name.Is("image") && !name.Is("image_url") {
			r.countTexts(c)
		}
	}
}

// readEmbeddings reads an embeddings request.
func (r *Request) readEmbeddings(root jsondoc.Value, l *clientapi.Limits) (e *apierror.Error) {
	if e = r.readModel(root); e != nil {
		return e
	}
	input := root.Get("input")
	if !input.Exists() {
		return clientapi.Missing(root, "input")
	}
	if r.inputs, e = r.readInputs(input, "a string, an array of strings or of objects, an array of tokens, or an array of such arrays", tokens|objects, l); e != nil {
		return e
	}
	if v := root.Get("encoding_format"); clientapi.Given(v) {
		if e = clientapi.CheckString(v); e != nil {
			return e
		}
		r.typed = true
		if r.base64 = v.Is("base64"); !r.base64 && !v.Is("float") {
			return clientapi.NotOneOf(v, "float", "base64")
		}
	}
	if _, e = clientapi.CheckInteger(root.Get("dimensions"), 1, 1<<20); e != nil {
		return e
	}
	return clientapi.CheckString(root.Get("user"))
}

// readRerank reads a rerank request.
func (r *Request) readRerank(root jsondoc.Value, l *clientapi.Limits) (e *apierror.Error) {
	if e = r.readModel(root); e != nil {
		return e
	}
	query, documents := root.Get("query"), root.Get("documents")
	switch {
	case !query.Exists():
		return clientapi.Missing(root, "query")
	case query.Kind() != jsondoc.String && query.Kind() != jsondoc.Object:
		return clientapi.WrongType(query, "a string")
	case !documents.Exists():
		return clientapi.Missing(root, "documents")
	case documents.Kind() != jsondoc.Array:
		return clientapi.WrongType(documents, "an array of strings or objects")
	}
	r.countTexts(query)
	if r.inputs, e = r.readInputs(documents, "an array of strings or objects", objects, l); e != nil {
		return e
	}
	if _, e = clientapi.CheckInteger(root.Get("top_n"), 1, 1<<31-1); e != nil {
		return e
	}
	_, e = clientapi.CheckBool(root.Get("return_documents"))
	return e
}

// readModeration reads a moderations request.
func (r *Request) readModeration(root jsondoc.Value, l *clientapi.Limits) (e *apierror.Error) {
	const defaultModel = "omni-moderation-latest" // OpenAI's default
	if !clientapi.Given(root.Get("model")) {
		r.facts.Model = defaultModel
	} else if e = r.readModel(root); e != nil {
		return e
	}
	input := root.Get("input")
	if !input.Exists() {
		return clientapi.Missing(root, "input")
	}
	r.inputs, e = r.readInputs(input, "a string, or an array of strings or objects", objects, l)
	return e
}

// maxChoices is the maximum of n and of best_of.
const maxChoices = 128

// readCompletion reads a legacy completions request. Members that the gateway does not use are left to the provider to
// validate.
func (r *Request) readCompletion(root jsondoc.Value, l *clientapi.Limits) (e *apierror.Error) {
	if e = r.readModel(root); e != nil {
		return e
	}
	r.inputs = 1
	if v := root.Get("prompt"); clientapi.Given(v) {
		if r.inputs, e = r.readInputs(v, "a string, an array of strings, an array of tokens, or an array of such arrays", tokens, l); e != nil {
			return e
		}
	}
	suffix := root.Get("suffix")
	if e = clientapi.CheckString(suffix); e != nil {
		return e
	}
	r.facts.TextBytes += len(suffix.Inside())
	if r.facts.Stream, e = clientapi.CheckBool(root.Get("stream")); e != nil {
		return e
	}
	if v := root.Get("stream_options"); clientapi.Given(v) {
		if e = clientapi.CheckObject(v); e != nil {
			return e
		}
		if !r.facts.Stream {
			return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' is only allowed when 'stream' is true.")
		}
		if r.facts.IncludeUsage, e = clientapi.CheckBool(v.Get("include_usage")); e != nil {
			return e
		}
	}
	r.maxTokens = root.Get("max_tokens")
	if r.facts.MaxTokens, e = clientapi.CheckInteger(r.maxTokens, 0, clientapi.MaxTokensCeiling); e != nil {
		return e
	}
	n, e := clientapi.CheckInteger(root.Get("n"), 1, maxChoices)
	if e != nil {
		return e
	}
	bestOf, e := clientapi.CheckInteger(root.Get("best_of"), 0, maxChoices)
	r.facts.N, r.facts.BestOf = int(max(n, 1))*r.inputs, int(bestOf)*r.inputs
	return e
}
