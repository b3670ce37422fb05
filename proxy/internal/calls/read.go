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

// responseLimits bounds a response, or one event of a stream.
var responseLimits = jsondoc.Limits{Depth: 64, Nodes: 1 << 19, FlatNumbers: true}

// reader reads responses of providers that speak the API. It rejects responses that are not strict JSON, because
// clients' parsers may read them differently.
type reader struct {
	call    *call
	failure Failure
	pass    bool // the response is passed on to the client
	doc     jsondoc.Doc
	names   []byte          // the results of copyName
	b       *response.Batch // set during a call

	choices []choice // of a stream of completions, those seen so far
}

// choice is the state of one choice of a stream.
type choice struct {
	index    int64
	finished bool
}

// Reset implements clientapi.Reader.
func (r *reader) Reset(pass bool) {
	r.doc.Reset()
	r.pass, r.choices = pass, r.choices[:0]
}

// parse parses a document, which must be an object, and reports its ID, model and token counts to the batch. If the
// object is an error, parse reports that instead and returns false.
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
	r.b.Start(r.copyName(root.Get("id")), r.copyName(root.Get("model")), nil)
	r.readUsage(root)
	return root, true, nil
}

// copyName returns the text of a string, or nil if v is not a string or longer than the plugin contract allows for
// names. The result is valid until the reader's next call.
func (r *reader) copyName(v jsondoc.Value) []byte {
	if v.Kind() != jsondoc.String || len(v.Inside()) > abi.MaxName {
		return nil
	}
	at := len(r.names)
	if at > 4*abi.MaxName {
		at = 0
	}
	r.names = v.AppendText(r.names[:at])
	return r.names[at:]
}

// readUsage reports the token counts: OpenAI's, Cohere's, or those of compatible providers that send only a total.
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

// release drops the references to a call's arguments.
func (r *reader) release() {
	r.b, r.names = nil, r.names[:0]
	r.doc.Reset()
}

// readEmbeddings reports the vectors of a response, without their numbers, which are passed on with the body.
func (r *reader) readEmbeddings(root jsondoc.Value) error {
	data := root.Get("data")
	if data.Kind() != jsondoc.Array {
		return errors.New("embeddings response has no data array")
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

// readRanks reports the ranks of a response.
func (r *reader) readRanks(root jsondoc.Value) error {
	results := root.Get("results")
	if results.Kind() != jsondoc.Array {
		return errors.New("rerank response has no results array")
	}
	for v := results.First(); v.Exists(); v = v.Next() {
		index, ok := v.Get("index").Int()
		if !ok || index < 0 || index > 1<<31-1 || v.Get("relevance_score").Kind() != jsondoc.Number {
			return errors.New("rerank result has no valid index or relevance_score")
		}
		r.b.Rank(int32(index), nil)
	}
	return nil
}

// readResults checks a moderations response.
func (r *reader) readResults(root jsondoc.Value) error {
	if root.Get("results").Kind() != jsondoc.Array {
		return errors.New("moderations response has no results array")
	}
	return nil
}

// readChoices reads the choices of a completions response, or of an event of a stream. It reports the texts of all of
// them as those of choice 0, because they only count as usage.
func (r *reader) readChoices(root jsondoc.Value) error {
	choices := root.Get("choices")
	if choices.Kind() != jsondoc.Array {
		return errors.New("completions response has no choices array")
	}
	for v := choices.First(); v.Exists(); v = v.Next() {
		text := v.Get("text")
		if text.Kind() > jsondoc.Null && text.Kind() != jsondoc.String {
			return errors.New("text of a choice is not a string")
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

// choice returns the choice with an index, which it adds if it is new, or nil if there are too many. The pointer is
// valid until the next call.
func (r *reader) choice(index int64) *choice {
	const limit = 1 << 14
	for i := range r.choices {
		if r.choices[i].index == index {
			return &r.choices[i]
		}
	}
	if len(r.choices) == limit {
		return nil
	}
	r.choices = append(r.choices, choice{index: index})
	return &r.choices[len(r.choices)-1]
}

// finished reports whether all choices seen so far have a finish reason.
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
		return apierror.BadAnswer(fmt.Errorf("response to a non-streaming %s request is a stream", r.call.name))
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
	hasChoices := root.Get("choices").First().Exists()
	name := []byte(nil)
	switch {
	case !hasChoices && root.Get("usage").Kind() == jsondoc.Object:
		name = frameUsage
	case hasChoices && r.finished():
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
