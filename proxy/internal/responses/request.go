package responses

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a request of the Responses API that has been read and checked once. It implements clientapi.Request.
//
// A Request that is used again does not allocate for an ordinary body, but for its model, its warnings and what is sealed.
type Request struct {
	sealer *thinking.Sealer
	store  Store // nil: nothing is kept

	doc    jsondoc.Doc
	body   []byte
	limits clientapi.Limits
	facts  clientapi.Facts

	m        members
	items    []item
	tools    []tool
	renamed  []Tool // what Tools returns
	names    []byte // of renamed
	scratch  []byte // the text of a short escaped string
	counting bool   // the request is one for input_tokens

	client   string   // what Expand was given
	full     *Request // the request with the items that it refers to, where it refers to some
	expanded bool     // full is in use
	before   int      // how many items of full come from previous_response_id

	calls    callTable
	origins  []origin
	warnings []clientapi.Warning // of AppendChat
}

var (
	_ clientapi.StatefulRequest = (*Request)(nil)
	_ clientapi.CountRequest    = (*Request)(nil)
)

// NewRequest returns a Request that opens seals of sealer, and finds earlier responses in store, which may be nil.
func NewRequest(sealer *thinking.Sealer, store Store) *Request {
	return &Request{sealer: sealer, store: store}
}

// Reset implements clientapi.Request. Memory that only a very large request needs is freed.
func (r *Request) Reset() {
	const keepItems, keepScratch = 1 << 10, 64 << 10
	if r.full != nil {
		r.full.Reset()
	}
	r.doc.Reset()
	clear(r.facts.Warnings)
	clear(r.warnings)
	*r = Request{
		sealer: r.sealer, store: r.store, doc: r.doc, facts: clientapi.Facts{N: 1, Warnings: r.facts.Warnings[:0]},
		items: trim(r.items, keepItems), tools: trim(r.tools, keepItems), renamed: trim(r.renamed, keepItems), names: trim(r.names, keepScratch),
		scratch: trim(r.scratch, keepScratch), full: r.full, calls: r.calls.reset(), origins: trim(r.origins, keepItems),
		warnings: trim(r.warnings, keepItems),
	}
}

// trim empties a slice and drops its memory if that is more than keep elements.
func trim[E any](s []E, keep int) []E {
	if cap(s) > keep {
		return nil
	}
	clear(s)
	return s[:0]
}

// Parse implements clientapi.Request. null counts as absent for every member that may be absent.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	return r.parse(body, l)
}

// ParseCount parses the body of a request for input_tokens: one that need not have input, and gets no response.
func (r *Request) ParseCount(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	r.counting = true
	return r.parse(body, l)
}

func (r *Request) parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.body, r.limits = body, l.WithDefaults()
	root, e := clientapi.ReadDocument(&r.doc, body, &r.limits, &r.facts)
	if e != nil {
		return e
	}
	return r.readRequest(root)
}

// Describe implements clientapi.Request. After Expand it includes what the request refers to.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

// Document implements clientapi.Request.
func (r *Request) Document() (*jsondoc.Doc, []byte) { return &r.doc, r.body }

// FitModel implements clientapi.Request. A larger max_output_tokens is lowered in the client's document. The API has no
// budget of thinking, and an effort is for the provider to judge.
func (r *Request) FitModel(maxTokens int64, thinking, strict bool) *apierror.Error {
	asked, v := r.facts.MaxTokens, r.m.maxOutputTokens
	if maxTokens <= 0 || asked <= maxTokens {
		return nil
	}
	if strict {
		return clientapi.InvalidValue(v, clientapi.CodeIntegerAbove, "'%s' is %d, but the model generates at most %d tokens.", asked, maxTokens)
	}
	v.LowerInt(maxTokens)
	if r.expanded {
		r.full.m.maxOutputTokens.LowerInt(maxTokens)
	}
	r.facts.MaxTokens = maxTokens
	r.facts.Warn(abi.WarnClamped, "max_output_tokens")
	return nil
}

// readModel copies the model's name.
func (r *Request) readModel(v, root jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedString(v, root, "model"); e != nil {
		return e
	}
	if len(v.Inside()) == 0 {
		return apierror.Invalid(clientapi.CodeEmptyString, "model", "'model' must not be empty.")
	}
	r.facts.Model = v.Text()
	if strings.IndexByte(r.facts.Model, 0) >= 0 {
		return apierror.Invalid(clientapi.CodeInvalidValue, "model", "'model' must not hold the character U+0000.")
	}
	return nil
}

// keyword is the text of a string that is compared with keywords of the API. It is valid until the next call.
func (r *Request) keyword(v jsondoc.Value) []byte { return clientapi.Keyword(v, &r.scratch) }
