package calls

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// responseLimits bound what a provider may send in one piece.
var responseLimits = jsondoc.Limits{Depth: 64, Nodes: 1 << 19, FlatNumbers: true}

// reader reads responses of providers that speak the API. What it passes on is strict JSON: clients read it with parsers of
// their own.
type reader struct {
	call    *call
	failure Failure
	pass    bool
	doc     jsondoc.Doc
	name    []byte
	b       *response.Batch // during a call

	choices []choice // of a stream of completions
}

// choice is what is known of one choice of a stream.
type choice struct {
	index    int64
	finished bool
}

// Reset implements clientapi.Reader.
func (r *reader) Reset(pass bool) {
	r.doc.Reset()
	r.pass, r.choices = pass, r.choices[:0]
}

// parse reads a document, which must be an object. It reports false where the object is an error, which becomes the batch's
// failure.
func (r *reader) parse(body []byte) (root jsondoc.Value, ok bool, err error) {
	if err := r.doc.Parse(body, responseLimits); err != nil {
		return root, false, apierror.BadAnswer(err)
	}
	root = r.doc.Root()
	if root.Kind() != jsondoc.Object {
		return root, false, apierror.BadAnswer(fmt.Errorf("%v instead of an object", root.Kind()))
	}
	if v := root.Get("error"); v.Kind() > jsondoc.Null && !v.Is("") || root.Get("object").Is("error") {
		r.b.Fail(r.failure(0, body))
		return root, false, nil
	}
	r.b.Start(r.short(root.Get("id")), r.short(root.Get("model")), nil)
	r.readUsage(root)
	return root, true, nil
}

// short is a string that fits the contract's limit for names, else empty. It is valid until the next call.
func (r *reader) short(v jsondoc.Value) []byte {
	if v.Kind() != jsondoc.String || len(v.Inside()) > abi.MaxName {
		return nil
	}
	at := len(r.name)
	if at > 4*abi.MaxName {
		at = 0
	}
	r.name = v.AppendText(r.name[:at])
	return r.name[at:]
}

// readUsage reads the token counts: OpenAI's, Cohere's, and those of compatible providers that give only a total.
func (r *reader) readUsage(root jsondoc.Value) {
	usage := root.Get("usage")
	prompt, known := usage.Get("prompt_tokens").Int()
	completion, completed := usage.Get("completion_tokens").Int()
	if !known {
		if prompt, known = usage.Get("total_tokens").Int(); known {
			prompt -= completion
		}
	}
	if meta := root.Get("meta"); !known {
		if prompt, known = meta.Get("tokens").Get("input_tokens").Int(); !known {
			prompt, known = meta.Get("billed_units").Get("input_tokens").Int()
		}
	}
	if known {
		r.b.Usage(abi.UsagePrompt, prompt)
	}
	switch {
	case completed:
		r.b.Usage(abi.UsageCompletion, completion)
	case r.call != completions:
		r.b.Usage(abi.UsageCompletion, 0)
	}
	if n, ok := usage.Get("prompt_tokens_details").Get("cached_tokens").Int(); ok {
		r.b.Usage(abi.UsageCached, n)
	}
}

// ReadResponse implements clientapi.Reader.
func (r *reader) ReadResponse(body []byte, b *response.Batch) error {
	defer r.release()
	r.b = b
	root, ok, err := r.parse(body)
	if err != nil || !ok {
		return err
	}
	if err := r.call.response(r, root); err != nil {
		return apierror.BadAnswer(err)
	}
	b.Finish(0, abi.FinishStop, nil)
	b.Done(abi.DoneNow)
	if r.pass {
		b.Frame(nil, body)
	}
	return nil
}

// release lets go of what a call was given.
func (r *reader) release() {
	r.b, r.name = nil, r.name[:0]
	r.doc.Reset()
}

// readEmbeddings reads the vectors of a response. Their numbers are left where they are.
func (r *reader) readEmbeddings(root jsondoc.Value) error {
	data := root.Get("data")
	if data.Kind() != jsondoc.Array {
		return errors.New("an embeddings response without data")
	}
	index := int32(0)
	for v := data.First(); v.Exists(); v = v.Next() {
		switch e := v.Get("embedding"); {
		case e.Kind() == jsondoc.String && len(e.Inside()) > 0, e.Kind() == jsondoc.Array && len(e.Raw()) > len("[]"):
		default:
			return fmt.Errorf("element %d of data has no vector", index)
		}
		r.b.Embedding(index, nil)
		index++
	}
	return nil
}

// readRanks reads the ranks of a response.
func (r *reader) readRanks(root jsondoc.Value) error {
	results := root.Get("results")
	if results.Kind() != jsondoc.Array {
		return errors.New("a rerank response without results")
	}
	for v := results.First(); v.Exists(); v = v.Next() {
		index, ok := v.Get("index").Int()
		if !ok || index < 0 || index > 1<<31-1 || v.Get("relevance_score").Kind() != jsondoc.Number {
			return errors.New("a result without index or relevance_score")
		}
		r.b.Rank(int32(index), nil)
	}
	return nil
}

// readResults reads a moderations response.
func (r *reader) readResults(root jsondoc.Value) error {
	if root.Get("results").Kind() != jsondoc.Array {
		return errors.New("a moderations response without results")
	}
	return nil
}

// readChoices reads the choices of a completions response, or of an event of a stream. All are accounted as one.
func (r *reader) readChoices(root jsondoc.Value) error {
	choices := root.Get("choices")
	if choices.Kind() != jsondoc.Array {
		return errors.New("a completions response without choices")
	}
	for v := choices.First(); v.Exists(); v = v.Next() {
		text := v.Get("text")
		if text.Kind() > jsondoc.Null && text.Kind() != jsondoc.String {
			return errors.New("a choice whose text is no string")
		}
		r.b.Text(0, abi.EncodingEscaped, text.Inside())
		index, _ := v.Get("index").Int()
		c := r.choice(index)
		if c == nil {
			return errors.New("too many choices")
		}
		c.finished = c.finished || v.Get("finish_reason").Kind() > jsondoc.Null
	}
	return nil
}

// choice returns the choice with an index; nil where there are too many. It is valid until the next one.
func (r *reader) choice(index int64) *choice {
	const most = 1 << 14
	for i := range r.choices {
		if r.choices[i].index == index {
			return &r.choices[i]
		}
	}
	if len(r.choices) == most {
		return nil
	}
	r.choices = append(r.choices, choice{index: index})
	return &r.choices[len(r.choices)-1]
}

// finished reports whether every choice that has begun has ended.
func (r *reader) finished() bool {
	for i := range r.choices {
		if !r.choices[i].finished {
			return false
		}
	}
	return len(r.choices) > 0
}

var doneWord = []byte("[DONE]")

// ReadEvent implements clientapi.Reader. Only completions are streamed.
func (r *reader) ReadEvent(_, data []byte, b *response.Batch) error {
	defer r.release()
	data = bytes.TrimSpace(data)
	switch {
	case r.call != completions:
		return apierror.BadAnswer(fmt.Errorf("a stream in response to a %s request", r.call.name))
	case len(data) == 0:
		return nil
	case bytes.Equal(data, doneWord):
		b.Done(abi.DoneNow)
		r.frame(b, frameDone, data)
		return nil
	}
	r.b = b
	root, ok, err := r.parse(data)
	if err != nil || !ok {
		return err
	}
	if err := r.readChoices(root); err != nil {
		return apierror.BadAnswer(err)
	}
	some := root.Get("choices").First().Exists()
	name := []byte(nil)
	switch {
	case !some && root.Get("usage").Kind() == jsondoc.Object:
		name = frameUsage
	case some && r.finished():
		b.Done(abi.DoneAtEnd)
		name = frameLast
	}
	r.frame(b, name, data)
	return nil
}

func (r *reader) frame(b *response.Batch, name, data []byte) {
	if r.pass {
		b.Frame(name, data)
	}
}
